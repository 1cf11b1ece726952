"""Many comparisons at once: corrected p values, and the ranks that they leave open."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.interval import LEVEL, POWER, Estimate, quantile, two_sided_p

ALPHA = 1 - LEVEL
"""Probability of one or more false alarms in a family of tests whose null hypotheses all hold."""


def p_value(mean: Estimate, null: float = 0.0) -> float:
    """Two-sided p value of the hypothesis that a mean is `null`: below 0.05 where its interval leaves `null` out.

    It is that of Student's t, with the standard error or, if it is longer, the interval's side towards `null` in units
    of t. Values that are all equal have p = 2 (1 - x)^G, with x the distance of `null` as a share of the range.

    >>> p_value(Estimate(0.0, 0.0, 0.0, stderr=0.0, effective_clusters=20.0))
    1.0
    """
    distance = abs(mean.estimate - null)
    if not np.isfinite(distance + mean.stderr):
        return np.nan
    if distance == 0:
        return 1.0
    side = mean.estimate - mean.lower if null < mean.estimate else mean.upper - mean.estimate
    degrees = mean.effective_clusters - 1
    if mean.stderr == 0:
        reach = side / _equal_share(1, degrees + 1) if side > 0 else 0.0  # as far as the range goes
        return float(min(2 * max(1 - distance / reach, 0.0) ** (degrees + 1), 1.0)) if reach else 0.0
    error = float(np.fmax(side / quantile((1 + LEVEL) / 2, degrees), mean.stderr))
    return two_sided_p(distance / error, degrees)


def simultaneous(mean: Estimate, intervals: int, reach: float = np.inf) -> Estimate:
    r"""An estimate whose interval is one of several that all hold their true values at once, in 95 % of runs or more.

    By Bonferroni: each side is longer by $t_{1-0.025/m,\,\nu}/t_{0.975,\,\nu}$ for m intervals, and `mde` is that of
    the longer interval. An estimate that was chosen among them after a look at the data is covered too, if m counts all
    that could have been chosen. `reach` is the size that no mean exceeds.

    >>> simultaneous(Estimate(0.5, 0.4, 0.6), 1).upper
    0.6
    """
    if intervals < 2 or not mean.lower <= mean.upper:
        return mean
    degrees = mean.effective_clusters - 1
    if mean.stderr == 0:
        factor = _equal_share(intervals, degrees + 1) / _equal_share(1, degrees + 1)
    else:
        factor = quantile(1 - (1 - LEVEL) / 2 / intervals, degrees) / quantile((1 + LEVEL) / 2, degrees)
    below, above = ((mean.estimate - mean.lower) * factor, (mean.upper - mean.estimate) * factor)
    power = quantile(POWER, degrees) * mean.stderr if mean.stderr else 0.0
    return replace(
        mean,
        lower=max(mean.estimate - below, -reach),
        upper=min(mean.estimate + above, reach),
        mde=(mean.mde - power) * factor + power,
    )


def _equal_share(intervals: int, clusters: float) -> float:
    """The share of the range beyond equal values that their interval reaches, see `mean_estimate`."""
    return float(1 - ((1 - LEVEL) / 2 / intervals) ** (1 / clusters))


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Holm's corrected p values (1979); NaN is a test that could not be made, and does not count."""
    values = np.asarray(p, dtype=float)
    corrected = np.full(values.shape, np.nan)
    tested = np.flatnonzero(np.isfinite(values))
    order = tested[np.argsort(values[tested], kind="stable")]  # statsmodels' collects garbage at every call
    steps = values[order] * np.arange(order.size, 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if order.size else steps
    return corrected


def rank_ranges(names: Sequence[str], better: Sequence[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """The ranks that each name can have, given which pairs differ. 1 is the best.

    If the pairs were tested with a familywise error of 5 %, all ranges hold the true ranks at once with probability
    0.95 or more. Mogstad, Romano, Shaikh and Wilhelm (2024). Review of Economic Studies 91.

    >>> rank_ranges(["a", "b", "c"], [("a", "c")])
    {'a': (1, 2), 'b': (1, 3), 'c': (2, 3)}
    """
    above = {name: sum(worse == name for _, worse in better) for name in names}
    below = {name: sum(best == name for best, _ in better) for name in names}
    return {name: (1 + above[name], len(names) - below[name]) for name in names}
