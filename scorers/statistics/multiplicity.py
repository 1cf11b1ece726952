"""Many comparisons at once: corrected p values, and the ranks that they leave open."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.interval import LEVEL, Estimate, two_sided_p

ALPHA = 1 - LEVEL
"""Probability of one or more false alarms in a family of tests whose null hypotheses all hold."""


def p_value(mean: Estimate, null: float = 0.0) -> float:
    """Two-sided p value of the hypothesis that a mean is `null`, by Student's t, as its interval is.

    1 if the estimate equals `null` exactly, as it does if one policy is compared with itself. NaN without a standard
    error.

    >>> p_value(Estimate(0.0, 0.0, 0.0, stderr=0.0, effective_clusters=20.0))
    1.0
    """
    distance = abs(mean.estimate - null)
    if not np.isfinite(distance + mean.stderr):
        return np.nan
    if distance == 0:
        return 1.0
    return two_sided_p(distance / mean.stderr if mean.stderr > 0 else np.inf, mean.effective_clusters - 1)


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Holm's corrected p values: below 0.05 in a family without any effect with probability 0.05 or less.

    NaN is a test that could not be made: it stays NaN and does not count.

    References:
        Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6.
    """
    from statsmodels.stats.multitest import multipletests

    values = np.asarray(p, dtype=float)
    corrected = np.full(values.shape, np.nan)
    tested = np.isfinite(values)
    if tested.any():
        corrected[tested] = multipletests(values[tested], ALPHA, method="holm")[1]
    return corrected


def rank_ranges(names: Sequence[str], better: Sequence[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """The ranks that each name can have, given which pairs differ. 1 is the best.

    The best rank is 1 plus the number of names that are better; the worst is the number of names minus those that are
    worse. If the pairs were tested with a familywise error of 5 %, all ranges hold the true ranks at once with
    probability 0.95 or more. Names that no test tells apart share a range: a tie.

    References:
        Mogstad, Romano, Shaikh and Wilhelm (2024). Inference for ranks with applications to mobility across
        neighbourhoods and academic achievement across countries. Review of Economic Studies 91.

    >>> rank_ranges(["a", "b", "c"], [("a", "c")])
    {'a': (1, 2), 'b': (1, 3), 'c': (2, 3)}
    """
    above = {name: sum(worse == name for _, worse in better) for name in names}
    below = {name: sum(best == name for best, _ in better) for name in names}
    return {name: (1 + above[name], len(names) - below[name]) for name in names}
