"""The length scorer: its figures from known values, and what it reads in runs, with an asked length and without."""

import math
from typing import Any

import numpy as np
import pytest
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import ChatMessage, Model
from inspect_ai.scorer import SampleScore
from inspect_ai.solver import Solver

from tests.fixtures import Run, metrics, rain, samples, says, score_of, task_of
from tests.scorers.main_figures import MAIN_FIGURES
from tests.scorers.scores import scored
from truthgym.scorers.length import KEYS, length, summarise
from truthgym.scorers.statistics.table import tabulate
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.length_control import length_control
from truthgym.tasks.worlds import urns

ESTIMATE = list(MAIN_FIGURES["length"])
ASKED = ["asked", "achieved", "achieved_p10", "achieved_p50", "achieved_p90", "kept", "revisions"]


def scores(words: list[list[float | None]], **controlled: list[list[float]]) -> list[SampleScore]:
    """Scores of questions x epochs, each question an event of its own; None is an answer that is not there."""
    result = []
    for q, row in enumerate(words):
        for epoch, number in enumerate(row, start=1):
            value = dict.fromkeys(KEYS, math.nan)
            if number is not None:
                value |= {"words": number, "characters": 5 * number}
                value |= {name: rows[q][epoch - 1] for name, rows in controlled.items()}
            result.append(scored(f"q{q}", value, epoch))
    return result


def first_score(log: EvalLog, name: str = "length") -> tuple[EvalSample, Any]:
    return samples(log)[0], score_of(samples(log)[0], name)


def test_known_values() -> None:
    result = summarise(scores([[10, 20], [40, 50], [None, 90]]))
    assert list(result)[: len(ESTIMATE)] == ESTIMATE
    assert result["words"] == pytest.approx((15 + 45 + 90) / 3), "epochs first, then questions"
    assert (result["n"], result["epochs"]) == (3, 2)
    assert result["share_scored"] == pytest.approx(5 / 6)
    # three clusters of means 15, 45, 90: t with two degrees of freedom, 4.303, times their standard error
    half = 4.302653 * np.std([15, 45, 90], ddof=1) / 3**0.5
    assert result["words_lower"] == 0, "cut off, since 50 - half is below"
    assert result["words_upper"] == pytest.approx(50 + half)
    assert result["mde"] > half / 2
    assert all(math.isnan(result[name]) for name in ASKED)


def test_what_was_asked_for_and_what_came_of_it() -> None:
    achieved = [[80.0, 100.0], [110.0, 100.0], [90.0, 150.0]]
    kept = [[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
    tries = [[2.0, 0.0], [0.0, 1.0], [1.0, 2.0]]
    targets = [[100.0, 100.0]] * 3
    result = summarise(scores(achieved, asked=targets, achieved=achieved, kept=kept, revisions=tries))  # type: ignore[arg-type]
    assert result["asked"] == 100
    assert result["achieved"] == pytest.approx(105)
    assert result["kept"] == pytest.approx(2 / 3)
    assert result["kept_lower"] < 2 / 3 < result["kept_upper"]
    assert result["revisions"] == 1
    ordered = sorted(value for row in achieved for value in row)
    assert [result[f"achieved_p{p}"] for p in (10, 50, 90)] == np.quantile(ordered, [0.1, 0.5, 0.9]).tolist()
    assert result["achieved_p50"] == 100


@pytest.mark.parametrize(
    ("bounds", "values"),
    [
        ({}, [0.5, math.nan, 1, 0, math.nan, math.nan]),
        ({"most": 70}, [0.5, 70, 1, 0, math.nan, math.nan]),
        ({"most": 69.9, "least": -1}, [0.5, math.nan, 1, 0, -1, math.nan]),
        ({"most": math.inf}, [0.5, 70, 1, 0, math.nan, math.inf]),
    ],
)
def test_a_table_keeps_what_is_within_its_bounds(bounds: dict[str, float], values: list[float]) -> None:
    table = tabulate(scores([[0.5], [70], [1], [0], [-1], [math.inf]]), "words", **bounds)
    assert table.values[:, 0].tolist() == pytest.approx(values, nan_ok=True)


def ask(run: Run, model: Model, solver: Solver | list[Solver], item: Sample, **given: Any) -> EvalLog:
    return run(task_of(item, solver, length(figures="all"), epochs=1), model, **given)


def test_the_answer_alone_is_measured(run: Run) -> None:
    def reply(messages: list[ChatMessage]) -> str:
        return "One two\nthree. " if r"\finalBeliefProb" in messages[-1].text else "Some long reasoning before it."

    done, result = first_score(ask(run, says(reply), chain_of_thought(steps=2), rain()))
    assert (result.value["words"], result.value["characters"]) == (3, 15)
    assert all(math.isnan(result.value[key]) for key in KEYS[2:])
    assert list(result.value) == list(KEYS)
    assert result.explanation == "3 words, 15 characters."
    assert result.metadata == {"epoch": 1, "event": "e", "unit": "words", "reason": None, "figures": "all"}
    assert set(done.store) == {"Trajectory:steps"}, "a scorer leaves the store as it was"


def test_a_length_that_was_asked_for_is_read_from_the_run(run: Run) -> None:
    """Ten words are asked for, give or take one; the first answer has 15, each further one two fewer."""

    def reply(messages: list[ChatMessage]) -> str:
        return " ".join(["word"] * (15 - 2 * sum(m.role == "assistant" for m in messages)))

    for attempts, achieved, kept, tries in ((0, 15, 0, 0), (1, 13, 0, 1), (2, 11, 1, 2), (5, 11, 1, 2)):
        log = ask(run, says(reply), length_control(10, attempts=attempts), rain())
        _, result = first_score(log)
        expected = achieved, 5 * achieved - 1, 10, achieved, kept, tries
        assert result.value == dict(zip(KEYS, expected, strict=True))
        assert result.explanation == f"{achieved} words, {5 * achieved - 1} characters, asked for 10 words."
        assert (metrics(log)["asked"], metrics(log)["kept"], metrics(log)["revisions"]) == (10, kept, tries)


def test_the_unit_is_the_one_that_was_asked_for(run: Run) -> None:
    for unit, achieved in (("characters", 21), ("sentences", 2), ("words", 5)):
        _, result = first_score(ask(run, says("It rains. Take a hat."), length_control(50, unit, attempts=0), rain()))  # type: ignore[arg-type]
        assert result.metadata["unit"] == unit
        assert result.value["achieved"] == achieved
        assert result.value["words"] == 5


def test_reference_agents_keep_a_requested_length(run: Run) -> None:
    task = urns(n=12, paradigms={"length": {"figures": "all"}})
    free, kept = (metrics(run(task, solver=by, epochs=2)) for by in (None, length_control(60, tolerance=0)))
    assert math.isnan(free["kept"])
    assert free["words_upper"] < 40
    assert (kept["words"], kept["asked"], kept["achieved"], kept["kept"]) == (60, 60, 60, 1)
    assert (kept["achieved_p10"], kept["achieved_p90"], kept["n"], kept["epochs"]) == (60, 60, 12, 2)
    assert 0 < kept["revisions"] <= 1
