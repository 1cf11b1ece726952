"""The score of an answer by a rubric, from the grades that a judge gave in one or more votes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class RubricScore:
    """An answer's score. NaN if no criterion was graded."""

    score: float
    """Weighted mean of the criteria's grades, in [0, 1]; higher is better."""
    criteria: NDArray[np.float64]
    """Mean grade of each criterion over votes, in [0, 1]; NaN if every vote says that it does not apply."""
    votes: NDArray[np.float64]
    """Score of each vote by itself; NaN if it graded nothing."""


def rubric_score(grades: ArrayLike, weights: Sequence[float]) -> RubricScore:
    r"""Score an answer by its grades.

    $$s=\frac{\sum_c w_c\,\bar g_c}{\sum_c w_c},\qquad \bar g_c=\frac1{|V_c|}\sum_{v\in V_c} g_{vc}$$

    over the criteria c that at least one vote $V_c$ graded. A criterion that does not apply leaves both sums. With
    fixed missing grades the score never falls if a grade rises.

    Args:
        grades: Votes x criteria, in [0, 1]; NaN where the criterion does not apply.
        weights: One for each criterion, 0 or more. If those of all graded criteria are 0, they count the same.

    >>> rubric_score([[1, 0, np.nan], [1, 1, np.nan]], [3, 1, 2]).score
    0.875
    """
    table = np.atleast_2d(np.asarray(grades, dtype=float))
    weight = np.asarray(weights, dtype=float)
    graded = np.isfinite(table)
    sums = np.where(graded, table, 0).sum(axis=0)
    criteria = np.divide(sums, graded.sum(axis=0), out=np.full(weight.size, np.nan), where=graded.any(axis=0))
    votes = np.array([_weighted(row, weight) for row in table])
    return RubricScore(_weighted(criteria, weight), criteria, votes)


def _weighted(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    graded = np.isfinite(values)
    if not graded.any():
        return np.nan
    kept = weights[graded]
    return float(np.average(values[graded], weights=kept if kept.sum() > 0 else None))


def repeat_sd(votes: Sequence[Sequence[float | None]]) -> float:
    """Standard deviation of one vote's score about the answer's own mean; 0 is a judge that repeats itself.

    The root of the mean variance (n - 1). NaN if no answer has two votes.

    Args:
        votes: Of each answer, the score of each vote; None where it graded nothing.
    """
    read = [[vote for vote in one if vote is not None] for one in votes]
    variances = [np.var(one, ddof=1) for one in read if len(one) > 1]
    return float(np.sqrt(np.mean(variances))) if variances else np.nan
