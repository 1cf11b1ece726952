"""The martingale paradigm through real evals on agents whose truth is known."""

import asyncio
import logging
from typing import Any

import numpy as np
import pytest
from inspect_ai import score
from inspect_ai.log import transcript
from inspect_ai.model import get_model

from studies.validity.true_values import simulate_reports, true_values, urn_cases
from tests.fixtures import Run, metrics, number, samples, says, score_of
from tests.scorers.main_figures import MAIN_FIGURES
from truthgym.datasets.urns import urns as questions
from truthgym.models.agents.policies import Parameters
from truthgym.scorers.martingale import martingale, notes
from truthgym.scorers.statistics.martingale_score import martingale_score
from truthgym.tasks.worlds import urns

FIRST = list(MAIN_FIGURES["martingale"])


def only(n: int, **arguments: Any) -> Any:
    return urns(n=n, paradigms={"martingale": {"figures": "all"} | arguments})


def test_the_task_gives_the_numbers_of_the_pure_functions(run: Run) -> None:
    arguments = Parameters(strength=0.6, noise=0.12, shared=0.4, seed=3)
    model = get_model("reference/entrenched", strength=0.6, noise=0.12, shared=0.4, seed=3)
    result = metrics(run(only(64), model))
    reports = simulate_reports("entrenched", arguments, urn_cases(questions(n=64)))
    expected = martingale_score(reports.prior, reports.posterior)
    assert list(result)[:8] == FIRST
    assert result["martingale_score"] == pytest.approx(expected.estimate, abs=1e-12)
    assert result["martingale_score_lower"] == pytest.approx(expected.lower, abs=1e-12)
    assert result["martingale_score_ols"] == pytest.approx(expected.ols, abs=1e-12)
    assert result["mde"] == pytest.approx(expected.mde, abs=1e-12)
    assert (result["n"], result["epochs"], result["share_scored"], result["identified"]) == (64, 3, 1, 1)
    slope = true_values("entrenched", arguments).slope
    assert result["martingale_score_lower"] < slope < result["martingale_score_upper"]
    assert result["martingale_score_lower"] > 0
    assert result["martingale_score_ols_upper"] < slope, "least squares misses it"


def test_scoring_later_gives_the_same_numbers(run: Run, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "cache"))
    model = get_model("reference/confirming", noise=0.1)
    in_the_run = run(only(8), model)
    unscored = run(only(8), model, score=False, cache=True)
    later = score(unscored, martingale(figures="all"), display="log")
    assert metrics(later) == pytest.approx(metrics(in_the_run), nan_ok=True)
    assert metrics(later)["reliability"] < 1


def test_one_epoch_runs_warns_and_is_not_identified(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        result = metrics(run(only(12), get_model("reference/bayesian", noise=0.1), epochs=1))
    assert result["identified"] == 0
    assert np.isnan(result["martingale_score"])
    assert result["reason_one_epoch"] == 1
    assert not np.isnan(result["martingale_score_ols"])
    messages = [r.message for r in caplog.records if "there is no score, because one epoch" in r.message]
    assert len(messages) == 1, "once, and not for partial lists"
    assert "run with --epochs 3" in messages[0]


def test_a_run_warns_once_and_at_its_end(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    transcript()  # here it outlives what is asked below, as in a notebook
    asyncio.run(says("Hello.").generate("Hello?"))
    with caplog.at_level(logging.INFO):
        result = metrics(run(only(12), score_display=True, max_samples=2))
    assert (result["flag_noiseless"], result["reliability"]) == (1, 1)
    (warning,) = [r.message for r in caplog.records if "martingale_score = " in r.message]
    assert "from only 12 questions" in warning
    assert "mde" in warning


def test_a_noiseless_model_is_pointed_out_but_no_reference_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, warnings in (("openai/gpt", 1), ("reference/bayesian", 0)):
        monkeypatch.setattr("truthgym.scorers.martingale.active_model", lambda name=name: name)
        assert len(list(notes([], {"verdict": np.nan, "flag_noiseless": 1.0}))) == warnings


def test_per_step_says_that_a_log_has_no_steps(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    log = run(only(2), epochs=2)
    with caplog.at_level(logging.INFO):
        score(log, martingale(per="step"), display="log")
    assert any("all figures equal those of per=trajectory" in r.message for r in caplog.records)


def test_the_explanation_tells_belief_and_posterior_apart(run: Run) -> None:
    log = run(only(3), get_model("reference/bayesian", noise=0.15), epochs=1)
    explained = [score_of(done, "martingale").explanation or "" for done in samples(log)]
    assert any("The answer itself states 0." in text and "| posterior |" in text for text in explained)


def test_the_prior_in_a_second_wording_is_the_instrument(run: Run) -> None:
    log = run(only(15, paraphrases=2), get_model("reference/bayesian", noise=0.1))
    ids = [item.id for item in questions(n=15)]
    prior, posterior, second = np.full((3, 15, 3), np.nan)
    for done in samples(log):
        place = ids.index(done.id), done.epoch - 1
        prior[place], posterior[place] = (number(done, "martingale", key) for key in ("prior", "posterior"))
        second[place] = (score_of(done, "martingale").metadata or {})["beliefs"][1]["value"]
    assert np.abs(prior - second).mean() > 0.05, "each wording has its own error"
    result, expected = metrics(log), martingale_score(prior, posterior, second)
    assert result["identified"] == 1
    for name, value in (("", expected.estimate), ("_lower", expected.lower), ("_upper", expected.upper)):
        assert result[f"martingale_score{name}"] == pytest.approx(value, abs=1e-12)
    assert result["reliability"] == pytest.approx(expected.reliability, abs=1e-12)
    assert expected.estimate != pytest.approx(martingale_score(prior, posterior).estimate, abs=1e-6)
