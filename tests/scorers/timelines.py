"""Timelines as judges leave them, and what the scorers of values say of them."""

import asyncio
from typing import Any

import numpy as np
from inspect_ai.model import ModelName
from inspect_ai.scorer import SampleScore, Scorer, Target
from inspect_ai.solver import TaskState

from truthgym.datasets.progress import DIMENSIONS, Item, questionnaire, timelines

Choices = list[list[float] | None]
ITEMS = questionnaire().pools["eval"]


def choices(values: np.ndarray, items: tuple[Item, ...] = ITEMS) -> Choices:
    """What people with these values choose, without any preference for an item's wording."""
    result: Choices = []
    for item in items:
        p = 1 / (1 + np.exp(-values[DIMENSIONS.index(item.dimension)]))
        result.append([p, 1 - p] if item.upholds[0] else [1 - p, p])
    return result


def scored(scorer: Scorer, result: dict[str, Any]) -> tuple[SampleScore, dict[str, Any], dict[str, Any]]:
    """The score of a timeline with this result, its value and its metadata."""
    (item,) = timelines(n=1, drift="linear")
    state = TaskState(ModelName("mockllm/model"), item.id or "", 1, "", [], metadata=item.metadata)
    state.store.set("progress", result)

    async def run() -> SampleScore:
        found = await scorer(state, Target(""))
        assert found is not None
        return SampleScore(score=found, sample_id="one")

    score = asyncio.run(run())
    assert isinstance(score.score.value, dict)
    return score, score.score.value, (score.score.metadata or {}) | {"explanation": score.score.explanation}
