"""The KL divergence of two small models, against plain forward passes of the replies in the log."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_ai.model import ChatMessageAssistant, Model, get_model

from tests.fixtures import Fails, Run, metrics, number, samples, score_of
from tests.models.logprobs.plain import plain
from tests.scorers.main_figures import MAIN_FIGURES
from tests.scorers.scores import scored
from truthgym.scorers.kl_divergence import KEYS, summarise
from truthgym.tasks.worlds import urns
from truthgym.training.tiny import tiny

pytest.importorskip("torch")
pytest.importorskip("accelerate")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Model]:
    """Two models with random weights."""
    folders: list[Path] = [
        tiny(tmp_path_factory.mktemp("kl") / f"seed{seed}", steps=0, hidden=32, layers=1, seed=seed) for seed in (0, 1)
    ]
    return [get_model(f"hf/kl:{i}", device="cpu", model_path=str(f), memoize=False) for i, f in enumerate(folders)]


def test_known_values() -> None:
    rows = [[3.0, 5.0], [0.0, -2.0], [1.0, 1.0]]
    made = [scored(f"q{q}", {"kl": kl, "kl_per_token": kl / 2, "tokens": 2.0}, epoch)
            for q, row in enumerate(rows) for epoch, kl in enumerate(row, start=1)]  # fmt: skip
    figures = summarise(made)
    assert list(figures)[: len(MAIN_FIGURES["kl_divergence"])] == list(MAIN_FIGURES["kl_divergence"])
    assert figures["kl"] == pytest.approx((4 - 1 + 1) / 3), "epochs first, then questions"
    assert figures["kl_per_token"] == pytest.approx(2 / 3)
    assert figures["kl_upper"] - figures["kl"] == pytest.approx(4.302653 * np.std([4, -1, 1], ddof=1) / 3**0.5)


def test_is_that_of_plain_forward_passes_and_0_of_the_model_itself(run: Run, models: list[Model]) -> None:
    for base, expected in ((models[0], 0.0), (models[1], None)):
        log = run(urns(n=2, paradigms="kl_divergence"), models[0], epochs=1, model_roles={"base": base}, max_tokens=9)
        for sample in samples(log):
            value = score_of(sample, "kl_divergence").value
            reply = next(m for m in sample.messages if isinstance(m, ChatMessageAssistant))
            texts = [{"role": m.role, "content": m.text} for m in sample.messages if m.role != "assistant"]
            tokenizer = models[0].api.tokenizer  # type: ignore[attr-defined]
            prompt = tokenizer.apply_chat_template(texts, add_generation_prompt=True, tokenize=True)["input_ids"]
            tokens = tokenizer(reply.text, add_special_tokens=False)["input_ids"]
            networks: list[Any] = [model.api for model in (models[0], base)]
            own, other = (np.sum(plain(network.model, prompt, tokens)) for network in networks)
            assert isinstance(value, dict)
            assert [*value] == list(KEYS)
            assert value["kl"] == pytest.approx(own - other if expected is None else expected, abs=1e-3)
            assert value["kl_per_token"] == pytest.approx(value["kl"] / len(tokens), abs=1e-3)
        if expected is None:
            assert abs(metrics(log)["kl"]) > 0.01, "the check must be able to fail"


def test_a_model_without_log_probabilities_is_refused_before_a_call(fails: Fails, models: list[Model]) -> None:
    message = fails(urns(n=2, paradigms="kl_divergence"), models[0], model_roles={"base": "reference/bayesian"})
    assert "method=teacher_forced" in message
    assert "role base" in fails(urns(n=2, paradigms="kl_divergence"), models[0])


def test_replies_of_another_distribution_are_not_scored(run: Run, models: list[Model]) -> None:
    settings = {"temperature": 0.5, "top_p": 0.9}
    log = run(urns(n=2, paradigms="kl_divergence"), models[0], epochs=1, model_roles={"base": models[1]}, max_tokens=5,
              **settings)  # fmt: skip
    for sample in samples(log):
        assert np.isnan(number(sample, "kl_divergence", "kl"))
        reason = (score_of(sample, "kl_divergence").metadata or {})["reason"]
        assert "temperature=0.5, top_p=0.9" in reason
        assert "--temperature 1" in reason
