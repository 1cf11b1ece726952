"""From Inspect's scores to arrays: one row a question, one column an epoch. Where every measure over samples begins."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from inspect_ai.scorer import SampleScore
from numpy.typing import NDArray


@dataclass(frozen=True)
class Table:
    """Values of many samples, with what is known of each question."""

    question: list[str]
    """Sample ids, in order of appearance: the rows."""
    values: NDArray[np.float64]
    """Questions x epochs; NaN where nothing could be read, or the epoch was not run."""
    outcome: NDArray[np.float64]
    """1 for yes, 0 for no, NaN where unknown."""
    cluster: list[str]
    """The question's `event`."""
    base_rate: NDArray[np.float64]
    crowd: NDArray[np.float64]
    share_scored: float
    """Share of the scores, over questions and epochs, that hold a value; NaN for none at all. A sample that failed has
    no score and is not among them: Inspect counts it as an error."""


def tabulate(scores: list[SampleScore], key: str, most: float = 1.0, least: float = 0.0) -> Table:
    """Put one value of dict scores into a table.

    Scores come in any order, and during a run only some of them: the table is what there is so far. It never fails:
    what is no number between `least` and `most` becomes NaN, and a score that stands twice counts once, the last.

    Args:
        scores: Unreduced scores, one a sample and epoch, whose metadata hold `epoch`, `event`, `outcome`,
            `base_rate` and `crowd`.
        key: The key of `Score.value` to read.
        most: The greatest value that it can have.
        least: The least.
    """
    facts: dict[str | int | None, dict[str, Any]] = {}
    cells: dict[tuple[str | int | None, int], float] = {}
    for item in scores:
        metadata = item.score.metadata or {}
        known = facts.setdefault(item.sample_id, {})
        known.update({name: fact for name, fact in metadata.items() if fact is not None})
        epoch = metadata.get("epoch")
        if not isinstance(epoch, int) or epoch < 1:
            epoch = 1 + sum(sample == item.sample_id for sample, _ in cells)
        value = item.score.value.get(key) if isinstance(item.score.value, dict) else None
        cells[item.sample_id, epoch] = _within(value, most, least)
    row = {identity: i for i, identity in enumerate(facts)}
    values = np.full((len(row), max((epoch for _, epoch in cells), default=0)), np.nan)
    for (identity, epoch), value in cells.items():
        values[row[identity], epoch - 1] = value
    return Table(
        question=[str(identity) for identity in facts],
        values=values,
        outcome=np.array(
            [value if (value := _within(fact.get("outcome"))) in (0, 1) else np.nan for fact in facts.values()]
        ),
        cluster=[str(fact.get("event", identity)) for identity, fact in facts.items()],
        base_rate=np.array([_within(fact.get("base_rate")) for fact in facts.values()]),
        crowd=np.array([_within(fact.get("crowd")) for fact in facts.values()]),
        share_scored=float(np.mean(np.isfinite(list(cells.values())))) if cells else np.nan,
    )


def _within(value: object, most: float = 1.0, least: float = 0.0) -> float:
    return float(value) if isinstance(value, int | float) and least <= value <= most else np.nan
