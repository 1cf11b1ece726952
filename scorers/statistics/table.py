"""Arrays from Inspect's scores, with a row per question and a column per epoch: the input of every metric."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from inspect_ai.scorer import SampleScore
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.scorers.statistics.proper_scores import row_mean, share_true


@dataclass(frozen=True)
class Table:
    """Values of many samples, with the facts about each question."""

    question: list[str]
    """Sample ids, in order of appearance: the rows."""
    values: NDArray[np.float64]
    """Questions x epochs; NaN if the answer could not be read or the epoch was not run."""
    has_score: NDArray[np.bool_]
    """Questions x epochs: whether the epoch was run, so that a NaN is an answer that could not be read."""
    outcome: NDArray[np.float64]
    """1 for yes, 0 for no, NaN if unknown."""
    cluster: list[str]
    """The question's `event`."""
    base_rate: NDArray[np.float64]
    crowd: NDArray[np.float64]
    share_scored: float
    """Share of the scores, over questions and epochs, that hold a value; NaN without scores. A sample that failed has
    no score and does not count: Inspect reports it as an error."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """The least and the greatest possible value."""

    def mean(self, values: NDArray[np.float64] | None = None) -> Estimate:
        """Mean over questions, each the mean over its epochs, of the values or of others in their shape."""
        return mean_estimate(row_mean(self.values if values is None else values), self.cluster, self.bounds)

    def mean_of(self, rows: list[bool]) -> Estimate:
        """The mean of those questions whose row is true."""
        return self.mean(np.where(np.array(rows, dtype=bool)[:, None], self.values, np.nan))

    def imputed(self, values: ArrayLike) -> NDArray[np.float64]:
        """The values, with others in place of the answers that could not be read."""
        return np.where(self.has_score & np.isnan(self.values), values, self.values)


def tabulate(scores: list[SampleScore], key: str, most: float = 1.0, least: float = 0.0) -> Table:
    """Tabulate one key of dict scores. Never raises: what is no number between `least` and `most` becomes NaN.

    Of two scores of the same sample and epoch the last counts.
    """
    facts: dict[str | int | None, dict[str, Any]] = {}
    cells: dict[tuple[str | int | None, int], float] = {}
    for item in scores:
        metadata = item.score.metadata or {}
        facts.setdefault(item.sample_id, {}).update({name: fact for name, fact in metadata.items() if fact is not None})
        epoch = metadata.get("epoch")
        if not isinstance(epoch, int) or epoch < 1:
            epoch = 1 + sum(sample == item.sample_id for sample, _ in cells)
        value = item.score.value.get(key) if isinstance(item.score.value, dict) else None
        cells[item.sample_id, epoch] = as_number(value, most, least)
    row = {identity: i for i, identity in enumerate(facts)}
    values = np.full((len(row), max((epoch for _, epoch in cells), default=0)), np.nan)
    has_score = np.zeros(values.shape, dtype=bool)
    for (identity, epoch), value in cells.items():
        values[row[identity], epoch - 1], has_score[row[identity], epoch - 1] = value, True
    return Table(
        question=[str(identity) for identity in facts],
        values=values,
        has_score=has_score,
        outcome=np.array(
            [value if (value := as_number(fact.get("outcome"), 1, 0)) in (0, 1) else np.nan for fact in facts.values()]
        ),
        cluster=[str(fact.get("event", identity)) for identity, fact in facts.items()],
        base_rate=np.array([as_number(fact.get("base_rate"), 1, 0) for fact in facts.values()]),
        crowd=np.array([as_number(fact.get("crowd"), 1, 0) for fact in facts.values()]),
        share_scored=share_true(np.isfinite(list(cells.values()))),
        bounds=(least, most),
    )


def each_answer(scores: list[SampleScore]) -> list[SampleScore]:
    """The scores with every answer as a question of its own: whether an answer is right differs between epochs."""
    return [
        item.model_copy(
            update={
                "sample_id": f"{item.sample_id}/{(item.score.metadata or {}).get('epoch')}",
                "score": item.score.model_copy(update={"metadata": {**(item.score.metadata or {}), "epoch": 1}}),
            }
        )
        for item in scores
    ]


def as_number(value: object, most: float = np.inf, least: float = -np.inf) -> float:
    """A number between these ends as a float; NaN for anything else."""
    return float(value) if isinstance(value, int | float) and least <= value <= most else np.nan
