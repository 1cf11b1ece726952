"""Fine-tuning at Together: requests and the card's notes."""

from typing import Any

import pytest
from together import types

from tests.training.providers.conftest import LIMITS, METRICS, MakeSpec, TogetherServer, Train
from truthgym.datasets.errors import BadInput

pytestmark = pytest.mark.parametrize("server", [TogetherServer], indirect=True)


def test_options_and_the_card_s_notes(server: Any, make_spec: MakeSpec, train: Train) -> None:
    folder, _ = train(make_spec(options={"learning_rate": 1e-4, "lora": True}))
    job = server.jobs[0]
    assert (job["n_epochs"], job["n_evals"], job["learning_rate"]) == (2, 2, 1e-4)
    assert job["training_type"]["lora_r"] == 8
    assert job["training_method"] == {"method": "sft", "train_on_inputs": "auto"}
    text = (folder / "README.md").read_text()
    assert all(part in text for part in ("4,000 tokens", "batch_size 32", "endpoint"))


def test_dpo_sends_beta_and_no_unknown_keys(server: Any, make_spec: MakeSpec, train: Train) -> None:
    train(make_spec("dpo", options={"beta": 0.2, "seed": 5}))
    job = server.jobs[0]
    assert (job["training_method"]["method"], job["training_method"]["dpo_beta"]) == ("dpo", 0.2)
    assert job["random_seed"] == 5
    assert set(server.lines()[0]["input"]) == {"messages"}
    with pytest.raises(BadInput, match="Together refused the job: Full training is not supported"):
        train(make_spec(options={"lora": False}))
    assert len(server.jobs) == 1, "the client refuses the option"


def test_the_server_s_shapes_are_the_client_s(server: Any, make_spec: MakeSpec, train: Train) -> None:
    train(make_spec())
    types.FinetuneResponse.model_validate(server.jobs[0])
    types.FineTuningListEventsResponse.model_validate({"data": server.events})
    types.FineTuningListMetricsResponse.model_validate({"metrics": METRICS})
    types.FinetuneModelLimits.model_validate(LIMITS)
    types.FileList.model_validate({"data": server.files})
