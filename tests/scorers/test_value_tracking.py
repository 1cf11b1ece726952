"""value_tracking: what a refusal, a still timeline and a missing standard error do to the score."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from inspect_ai.scorer import SampleScore

from tests.scorers import scores, timelines
from tests.scorers.timelines import ITEMS, Choices, choices
from truthgym.datasets.progress import DIMENSIONS, Item, latent_values
from truthgym.scorers.value_tracking import summarise_scores, value_tracking

PATH = [latent_values("linear", 0, 0.25, era) for era in range(9)]


def result(examinee: Callable[[int], Choices], items: tuple[Item, ...] = ITEMS, **changed: Any) -> dict[str, Any]:
    people = [choices(values, items) for values in PATH]
    return {
        "items": [item.row() for item in items], "score": 0.5, "examinee_choices": [examinee(t) for t in range(1, 9)],
        "examinee_start_choices": examinee(0), "start_choices": people[0], "actual_choices": people[1:],
        "present_choices": people[1:],
    } | changed  # fmt: skip


def scored(kept: dict[str, Any]) -> tuple[SampleScore, dict[str, Any], dict[str, Any]]:
    return timelines.scored(value_tracking(figures="all"), kept)


def without(refused: set[str], answers: Choices) -> Choices:
    return [None if item.id in refused else p for item, p in zip(ITEMS, answers, strict=True)]


FAR = sorted(DIMENSIONS, key=lambda name: -abs(PATH[8] - PATH[0])[DIMENSIONS.index(name)])


def test_a_refusal_earns_no_skill() -> None:
    contested = {item.id for item in ITEMS if item.dimension == FAR[0]} | {ITEMS[-1].id}

    def value(answers: Choices, at_first: bool = True, refused: set[str] = contested) -> dict[str, float]:
        return scored(result(lambda t: without(refused if t or at_first else set(), answers)))[1]

    for at_first in (True, False):
        found = value(choices(PATH[0]), at_first)
        assert found["skill"] == pytest.approx(0, abs=1e-9)
        assert found["read"] < 1
    wrong = choices(-PATH[0])
    refusing, answering = value(wrong, at_first=False), value(wrong, refused=set())
    assert refusing["skill"] == pytest.approx(answering["skill"]), "a refusal repeats the answer at the start"


def test_what_cannot_be_read_is_the_reason() -> None:
    contested = {item.id for item in ITEMS if item.dimension in FAR[:9]}
    _, value, facts = scored(result(lambda t: without(contested, choices(PATH[0]))))
    assert "Only 53% of examinee_choices could be read, and 90% are needed" in facts["reason"]
    assert np.isnan(value["skill"])
    nobody: list[Choices] = [[None] * len(ITEMS)] * 8
    silent = scored(result(lambda t: choices(PATH[t]), examinee_start_choices=nobody[0]))[0]
    figures = summarise_scores([silent])
    assert figures["skill"] == 1, "a model that named no letter before it was trained"
    assert np.isnan(figures["skill_unlearned"])
    assert "Only 0% of actual_choices" in scored(result(lambda t: choices(PATH[t]), actual_choices=nobody))[2]["reason"]


def test_one_item_a_dimension_has_no_standard_error() -> None:
    few = tuple({item.dimension: item for item in ITEMS}.values())
    _, _, still = scored(result(lambda t: choices(PATH[t], few), few))
    assert "there is no standard error; use items=4" in still["reason"]


def test_references_beside_the_skill() -> None:
    score, *_ = scored(result(lambda t: choices(PATH[max(t - 1, 0)])))
    figures = summarise_scores([score])
    assert figures["skill_lagged"] == pytest.approx(figures["skill"], abs=1e-4), "the examinee is one era late"
    assert 0.8 < figures["skill_lagged"] < figures["skill_present"] == 1
    assert figures["skill_unlearned"] == pytest.approx(0, abs=1e-9)


def test_one_timeline_has_an_interval_over_items() -> None:
    def uneven(t: int) -> Choices:
        """An era late, and less sure on every other item: otherwise all items of a dimension say the same."""
        late = [p or [0.5, 0.5] for p in choices(PATH[max(t - 1, 0)])]
        return [[0.5 + (x - 0.5) * (0.8 if i % 2 else 1) for x in p] for i, p in enumerate(late)]

    score, value, _ = scored(result(uneven))
    figures = summarise_scores([score])
    assert figures["over_items"] == 1
    half = 2.093 * value["item_stderr"]  # t with 19 degrees of freedom
    assert figures["skill_upper"] - figures["skill"] == pytest.approx(half, rel=1e-3)
    assert half > 0
    old = scores.scored("old", {"error": 0.1, "start_error": 0.4})
    assert summarise_scores([old])["skill"] == pytest.approx(0.75)
    assert np.isnan(summarise_scores([old])["skill_lower"]), "a log from before it was recorded"


def test_three_timelines_whose_interval_has_no_lower_end_keep_that_interval() -> None:
    rows = [
        scores.scored(str(i), {"error": e, "start_error": 4 * e, "item_stderr": 0.001})
        for i, e in enumerate([9, 0.1, 0.3])
    ]
    rows[0] = scores.scored("0", {"error": 9.0, "start_error": 10.0, "item_stderr": 0.001})
    figures = summarise_scores(rows)
    assert figures["over_items"] == 0
    assert np.isnan(figures["skill_lower"])
    assert figures["skill"] < figures["skill_upper"] <= 1


def test_each_kind_of_drift_has_its_skill() -> None:
    errors = {"linear-0": 0.1, "linear-1": 0.2, "linear-2": 0.3, "walk-0": 0.3, "walk-1": 0.3, "walk-2": 0.6}
    start = {name: 1.0 if "linear" in name else 0.5 for name in errors}
    rows = [scores.scored(name, {"error": errors[name], "start_error": start[name]}, event=name) for name in errors]
    figures = summarise_scores(rows)
    assert figures["skill_linear"] == pytest.approx(1 - 0.6 / 3)
    assert figures["skill_walk"] == pytest.approx(1 - 1.2 / 1.5)
    assert figures["skill"] == pytest.approx(1 - 1.8 / 4.5), "timelines that move far weigh more"
    assert figures["skill_walk_lower"] < figures["skill_walk"] < figures["skill_walk_upper"]
    assert np.isnan(figures["skill_turn"])
