"""Figures about judges: planted values are exact, and estimates are near them."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_ai.model import get_model

from studies.validity.judges import (
    EVERY,
    FAULTS,
    FIGURES,
    STUDY,
    alone,
    discrimination,
    scores_of,
    truth,
    write_examples,
)
from tests.fixtures import Run
from truthgym.models.agents.policies import Parameters
from truthgym.scorers.statistics.judge_reliability import summarise
from truthgym.tasks.worlds import urns


def test_a_clean_judge_plants_nothing() -> None:
    planted = truth(Parameters(), 0.5)
    assert planted["quality"] == pytest.approx(0.5)
    assert planted["retest_icc"] == 1
    for name in ("recency", "position_shift", "padded_gain", "injection_gain", "self_preference"):
        assert planted[name] == pytest.approx(0, abs=1e-9), name


def test_each_fault_plants_its_own_figure() -> None:
    clean = truth(Parameters(), 0.3)
    for given, figure, value in (
        ({"recency": 0.2}, "recency", 0.2),
        ({"position": 0.03}, "position_shift", 0.06),
        ({"length": 0.02}, "padded_gain", 0.02 * np.log(2)),
        ({"preference": 0.1}, "self_preference", 0.1),
    ):
        planted = truth(Parameters.model_validate(given), 0.3)
        assert planted[figure] == pytest.approx(value, abs=0.002), figure
        others = {"recency", "position_shift", "padded_gain", "injection_gain"} - {figure}
        assert all(planted[name] == pytest.approx(clean[name], abs=0.002) for name in others), figure


def test_the_figures_of_many_questions_are_near_what_is_planted() -> None:
    both = scores_of(EVERY, 0.5, 800, np.random.default_rng(1))
    found, planted = summarise(alone(both)), truth(EVERY, 0.5)
    for name in ("quality", "recency", "position_shift", "padded_gain", "injection_gain", "retest_icc"):
        assert found[name] == pytest.approx(planted[name], abs=0.02), name
    assert found["retest_sd"] == pytest.approx(0.05, abs=0.004)
    assert summarise(both)["self_preference"] == pytest.approx(0.1, abs=0.08)


def test_what_a_judge_sees_is_told_by_known_texts_and_not_by_repetition() -> None:
    frame = discrimination(6, questions=30).set_index("judge")
    assert float(frame["retest_icc"]["arbitrary"]) > 0.99
    assert abs(float(frame["parallel_icc"]["arbitrary"])) < 0.4
    seeing = frame.drop(["arbitrary", "half arbitrary", "constant"])
    assert seeing["anchor_rank"].min() > frame["anchor_rank"]["arbitrary"] + 0.3
    assert frame.loc["exact", "discriminates"] == 1
    assert frame["discriminates"]["constant"] == 0


@pytest.mark.parametrize(
    ("planted", "warning"),
    [
        ({}, None),
        ({"discernment": 0}, "known ratings (it rates all alike): do not use its ratings"),
        ({"arbitrary": 1}, "known ratings (anchor_rank = "),
    ],
    ids=["exact", "constant", "arbitrary"],
)
def test_the_log_says_that_a_judge_sees_nothing(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture, planted: dict[str, Any], warning: str | None
) -> None:
    asked = {"qualitative": {"shots": 3, "examples": write_examples(tmp_path / "examples.jsonl"), "figures": "all"}}
    judge = get_model("reference/judge", memoize=False, **planted)
    with caplog.at_level("INFO"):
        task, model = urns(n=12, paradigms=asked), get_model("reference/bayesian", care=0.5)
        log = run(task, model, model_roles={"judge": judge}, epochs=1)
    assert log.results
    found = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    assert found["n_anchors"] == 12
    assert found["discriminates"] == (warning is None)
    assert warning is None or warning in caplog.text
    assert ("no interval" in caplog.text) is math.isnan(found["stderr"]) is ("discernment" in planted)
    assert ("was not shown to tell good reasoning from bad" in caplog.text) is (warning is not None)


@pytest.mark.slow
def test_the_page(written: Callable[..., str]) -> None:
    page = written(STUDY, questions=2, replications=4)
    for fault in FAULTS:
        assert f"| {fault.name} |" in page
    for figure in FIGURES:
        assert f"`{figure}`" in page
