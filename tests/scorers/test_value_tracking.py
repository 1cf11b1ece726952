"""value_tracking: what a refusal, a still timeline and a missing standard error do to the score."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelName
from inspect_ai.scorer import SampleScore, Score, Target
from inspect_ai.solver import TaskState

from truthgym.datasets.progress import DIMENSIONS, Item, latent_values, questionnaire, timelines
from truthgym.scorers.value_tracking import summarise_scores, value_tracking

Choices = list[list[float] | None]
ITEMS = questionnaire().pools["eval"]
PATH = [latent_values("linear", 0, 0.25, era) for era in range(9)]


def state(result: dict[str, Any]) -> TaskState:
    (expected,) = timelines(n=1, drift="linear")
    assert isinstance(expected, Sample)
    made = TaskState(ModelName("mockllm/model"), expected.id or "", 1, "", [], metadata=expected.metadata)
    made.store.set("progress", result)
    return made


def choices(values: np.ndarray, items: tuple[Item, ...] = ITEMS) -> Choices:
    """What people with these values choose, without any preference for an item's wording."""
    result: Choices = []
    for item in items:
        p = 1 / (1 + np.exp(-values[DIMENSIONS.index(item.dimension)]))
        result.append([p, 1 - p] if item.upholds[0] else [1 - p, p])
    return result


def result(examinee: Callable[[int], Choices], items: tuple[Item, ...] = ITEMS, **changed: Any) -> dict[str, Any]:
    people = [choices(values, items) for values in PATH]
    return {
        "items": [item.row() for item in items], "score": 0.5, "examinee_choices": [examinee(t) for t in range(1, 9)],
        "examinee_start_choices": examinee(0), "start_choices": people[0], "actual_choices": people[1:],
        "present_choices": people[1:],
    } | changed  # fmt: skip


def scored(kept: dict[str, Any]) -> Score:
    async def score() -> Score | None:
        return await value_tracking(figures="all")(state(kept), Target(""))

    result = asyncio.run(score())
    assert result is not None
    return result


def numbers(score: Score) -> dict[str, Any]:
    assert isinstance(score.value, dict)
    return score.value


def without(refused: set[str], answers: Choices) -> Choices:
    return [None if item.id in refused else p for item, p in zip(ITEMS, answers, strict=True)]


FAR = sorted(DIMENSIONS, key=lambda name: -abs(PATH[8] - PATH[0])[DIMENSIONS.index(name)])


def test_a_refusal_earns_no_skill() -> None:
    contested = {item.id for item in ITEMS if item.dimension == FAR[0]} | {ITEMS[-1].id}
    frozen = choices(PATH[0])
    always = scored(result(lambda t: without(contested, frozen)))
    later = scored(result(lambda t: without(contested if t else set(), frozen)))
    for score in (always, later):
        assert isinstance(score.value, dict)
        assert score.value["skill"] == pytest.approx(0, abs=1e-9)
        assert score.value["read"] < 1
    wrong = choices(-PATH[0])
    assert isinstance((score := scored(result(lambda t: without(contested if t else set(), wrong)))).value, dict)
    answering = (scored(result(lambda t: wrong))).value
    assert isinstance(answering, dict)
    assert score.value["skill"] == pytest.approx(answering["skill"]), "a refusal repeats the answer at the start"


def test_who_refuses_the_contested_half_is_not_scored() -> None:
    contested = {item.id for item in ITEMS if item.dimension in FAR[:9]}
    score = scored(result(lambda t: without(contested, choices(PATH[0]))))
    assert "Only 53% of examinee_choices could be read, and 90% are needed" in (score.metadata or {})["reason"]
    assert isinstance(score.value, dict)
    assert np.isnan(score.value["skill"])


def test_people_who_cannot_be_read_are_the_reason() -> None:
    nobody: list[Choices] = [[None] * len(ITEMS)] * 8
    score = scored(result(lambda t: choices(PATH[t]), actual_choices=nobody))
    assert "Only 0% of actual_choices" in (score.metadata or {})["reason"]


def test_one_item_a_dimension_has_no_standard_error() -> None:
    few = tuple({item.dimension: item for item in ITEMS}.values())
    still = scored(result(lambda t: choices(PATH[t], few), few))
    assert "there is no standard error; use items=4" in (still.metadata or {})["reason"]


def test_references_beside_the_skill() -> None:
    score = scored(result(lambda t: choices(PATH[max(t - 1, 0)])))
    figures = summarise_scores([SampleScore(score=score, sample_id="one")])
    assert figures["skill_lagged"] == pytest.approx(figures["skill"], abs=1e-4), "the examinee is one era late"
    assert 0.8 < figures["skill_lagged"] < figures["skill_present"] == 1
    assert figures["skill_unlearned"] == pytest.approx(0, abs=1e-9)


def test_one_timeline_has_an_interval_over_items() -> None:
    def uneven(t: int) -> Choices:
        """An era late, and less sure on every other item: otherwise all items of a dimension say the same."""
        late = [p or [0.5, 0.5] for p in choices(PATH[max(t - 1, 0)])]
        return [[0.5 + (x - 0.5) * (0.8 if i % 2 else 1) for x in p] for i, p in enumerate(late)]

    score = scored(result(uneven))
    figures = summarise_scores([SampleScore(score=score, sample_id="one")])
    assert figures["over_items"] == 1
    half = 2.093 * numbers(score)["item_stderr"]  # t with 19 degrees of freedom
    assert figures["skill_upper"] - figures["skill"] == pytest.approx(half, rel=1e-3)
    assert half > 0
    old = SampleScore(score=Score(value={"error": 0.1, "start_error": 0.4}, metadata={"event": "x"}), sample_id="old")
    assert summarise_scores([old])["skill"] == pytest.approx(0.75)
    assert np.isnan(summarise_scores([old])["skill_lower"]), "a log from before it was recorded"


def test_each_kind_of_drift_has_its_skill() -> None:
    errors = {"linear-0": 0.1, "linear-1": 0.2, "linear-2": 0.3, "walk-0": 0.3, "walk-1": 0.3, "walk-2": 0.6}
    scores = [
        SampleScore(
            score=Score(
                value={"error": error, "start_error": 1.0 if "linear" in name else 0.5}, metadata={"event": name}
            ),
            sample_id=name,
        )
        for name, error in errors.items()
    ]
    figures = summarise_scores(scores)
    assert figures["skill_linear"] == pytest.approx(1 - 0.6 / 3)
    assert figures["skill_walk"] == pytest.approx(1 - 1.2 / 1.5)
    assert figures["skill"] == pytest.approx(1 - 1.8 / 4.5), "timelines that move far weigh more"
    assert figures["skill_walk_lower"] < figures["skill_walk"] < figures["skill_walk_upper"]
    assert np.isnan(figures["skill_turn"])
