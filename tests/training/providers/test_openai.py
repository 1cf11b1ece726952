"""Fine-tuning at OpenAI: requests, graders, result files."""

import base64
import json
from typing import Any

import openai
import pytest

from tests.training.providers.conftest import RESULTS, MakeSpec, OpenAIServer, Train, reply
from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.openai_export import grader
from truthgym.training.providers.openai import read_curve
from truthgym.training.trainers.model_card import read_card

pytestmark = pytest.mark.parametrize("server", [OpenAIServer], indirect=True)
VALIDATE = "POST /v1/fine_tuning/alpha/graders/validate"


def test_hyperparameters_and_the_card_s_notes(server: Any, make_spec: MakeSpec, train: Train) -> None:
    folder, _ = train(make_spec(options={"batch_size": 4, "seed": 3}))
    job = server.jobs[0]
    assert job["method"] == {"type": "supervised", "supervised": {"hyperparameters": {"batch_size": 4, "n_epochs": 2}}}
    assert job["seed"] == 3
    text = (folder / "README.md").read_text()
    assert "ckpt-step-1" in text
    assert "1,234 trained tokens" in text
    assert all(f"{name} {value}" in text for name, value in (("batch_size", 4), ("n_epochs", 2), ("seed", 3)))
    train(make_spec("dpo", options={"beta": 0.2, "n_epochs": 1}))
    assert server.jobs[1]["method"] == {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0.2, "n_epochs": 1}}}
    assert set(server.lines(1)[0]) == {"input", "preferred_output", "non_preferred_output"}
    assert server.lines(1)[0]["preferred_output"] == reply("Yes.")


def test_reinforcement_sends_the_grader_and_its_items(server: Any, make_spec: MakeSpec, train: Train) -> None:
    folder, _ = train(make_spec("reinforcement"))
    method = server.jobs[0]["method"]
    assert method == {"type": "reinforcement", "reinforcement": {"grader": grader("python_brier")}}
    line = server.lines()[0]
    assert [message["role"] for message in line["messages"]] == ["developer", "user"]
    assert (line["target"], line["proposition"], line["question"]) == ("yes", "0 is even.", "Is 0 even?")
    assert "log" not in line
    assert VALIDATE in server.requests
    assert read_card(folder).config["grader"] == "python_brier"


def test_datasets_that_reinforcement_cannot_use(server: Any, make_spec: MakeSpec, train: Train) -> None:
    spec = make_spec("reinforcement")
    path = spec.dataset / "train.jsonl"
    path.write_text(path.read_text().replace('"target": "yes"', '"target": ""'))
    with pytest.raises(BadInput, match="10 rows have no target yes or no.*python_brier"):
        train(spec)
    spec = make_spec("reinforcement")
    (spec.dataset / "validation.jsonl").unlink()
    with pytest.raises(BadInput, match="no validation split.*--validation train"):
        train(spec)
    assert server.requests == []


def test_a_grader_that_openai_refuses(server: Any, make_spec: MakeSpec, train: Train) -> None:
    server.errors[VALIDATE] = [404]
    assert train(make_spec("reinforcement"))[0], "a service that does not validate graders"
    server.files.clear()
    server.error |= {"message": "Grader is invalid.", "param": "grader"}
    server.errors[VALIDATE] = [400]
    with pytest.raises(BadInput, match=r"Grader is invalid. \(parameter grader\)"):
        train(make_spec("reinforcement", suffix="other"))
    assert not server.files


def test_result_files_are_text_or_base64(server: Any) -> None:
    curve = read_curve(RESULTS)
    assert curve == read_curve(base64.b64encode(RESULTS.encode()).decode())
    assert curve[1] == {"step": 2.0, "loss": 0.75, "eval_loss": 0.9}
    assert read_curve("nothing of use") == []


def test_the_server_s_shapes_are_the_client_s(server: Any, make_spec: MakeSpec, train: Train) -> None:
    train(make_spec())
    types = openai.types.fine_tuning
    types.FineTuningJob.model_validate(server.jobs[0], strict=True)
    events = json.loads(json.dumps(server.serve("GET", ["", "", "ftjob-1", "events"], b"")[1]["data"]))
    for event in events:
        types.FineTuningJobEvent.model_validate(event, strict=True)
    for file in server.files:
        openai.types.FileObject.model_validate(file, strict=True)
