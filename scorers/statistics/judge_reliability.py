"""How far a judge can be relied on: pure functions of arrays of its ratings, all on the scale from 0 to 1."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from inspect_ai.scorer import SampleScore, Score, krippendorff_alpha
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.interval import LEVEL, Headline, cluster_codes, mean_headline, quantile

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Figure:
    """An estimate with its 95 % interval and the number of units it rests on. NaN where it is not defined."""

    estimate: float
    lower: float
    upper: float
    n: int

    def metrics(self, name: str) -> dict[str, float]:
        """The estimate and its interval as `name`, `name_lower`, `name_upper`."""
        return {name: self.estimate, f"{name}_lower": self.lower, f"{name}_upper": self.upper}


NOTHING = Figure(np.nan, np.nan, np.nan, 0)


def retest(first: ArrayLike, second: ArrayLike, cluster: Sequence[Hashable] | None = None) -> tuple[Figure, float]:
    r"""Reliability of one rating: the intraclass correlation ICC(1,1) of two, and the standard deviation of noise.

    $$\mathrm{ICC}=\frac{MS_B-MS_W}{MS_B+MS_W},\qquad \mathrm{sd}=\sqrt{MS_W}$$

    1 is a judge that says the same again, 0 one whose ratings tell trajectories apart no better than chance. It depends
    on how different the trajectories are: compare judges on the same ones. Where every pair is a cluster of its own,
    the interval is Shrout and Fleiss's, from F. Epochs of a question, and judges of one text, are no pairs of their
    own: there it is that of the jackknife over clusters of Fisher's z, with Student's t.

    Args:
        first: Ratings (n). NaN leaves the pair out.
        second: Ratings of the same trajectories, asked again (n).
        cluster: Names of the clusters of the pairs (n). None: each its own.

    Returns:
        The correlation; NaN with fewer than three pairs, or where all ratings are equal; its interval with fewer than
        three clusters. And the standard deviation.

    References:
        Shrout and Fleiss (1979). Intraclass correlations. Psychological Bulletin 86. Ukoumunne, O. C. (2002). A
        comparison of confidence interval methods for the intraclass correlation coefficient in cluster randomized
        trials. Statistics in Medicine 21.
    """
    pairs = np.stack([np.asarray(first, dtype=float), np.asarray(second, dtype=float)], axis=-1)
    kept = np.isfinite(pairs).all(axis=1)
    names = list(range(len(pairs))) if cluster is None else list(cluster)
    codes = cluster_codes([name for name, keep in zip(names, kept, strict=True) if keep])
    pairs = pairs[kept]
    n = len(pairs)
    if n == 0:
        return NOTHING, np.nan
    within = float(np.mean(np.square(pairs[:, 0] - pairs[:, 1])) / 2)
    if n < 3:
        return Figure(np.nan, np.nan, np.nan, n), within**0.5
    between = float(2 * np.var(pairs.mean(axis=1), ddof=1))
    if between + within < 1e-15:
        return Figure(np.nan, np.nan, np.nan, n), 0.0
    icc = (between - within) / (between + within)
    if within < 1e-15:
        return Figure(icc, icc, icc, n), 0.0
    if codes.max() + 1 < n:
        return Figure(icc, *_jackknifed(pairs, codes), n), within**0.5
    from scipy.special import fdtri  # scipy.stats loads for half a second more

    tail, ratio = (1 + LEVEL) / 2, between / within
    low, high = ratio / fdtri(n - 1, n, tail), ratio * fdtri(n, n - 1, tail)
    return Figure(icc, float((low - 1) / (low + 1)), float((high - 1) / (high + 1)), n), within**0.5


def _jackknifed(pairs: Floats, codes: NDArray[np.int_]) -> tuple[float, float]:
    """Interval of the intraclass correlation of pairs, from leaving out each cluster once. NaN where it is not told."""
    clusters = int(codes.max()) + 1
    if clusters < 3:
        return np.nan, np.nan
    mean, half_square = pairs.mean(axis=1), np.square(pairs[:, 0] - pairs[:, 1]) / 2
    sums = np.stack([np.bincount(codes, held, clusters) for held in (np.ones(len(pairs)), half_square, mean, mean**2)])

    def z(count: Floats, within: Floats, total: Floats, squares: Floats) -> Floats:
        between = 2 * (squares - total**2 / count) / (count - 1)
        held: Floats = np.log(between / (within / count)) / 2  # the inverse hyperbolic tangent of the correlation
        return held

    with np.errstate(divide="ignore", invalid="ignore"):
        whole, without = z(*sums.sum(axis=1)), z(*(sums.sum(axis=1, keepdims=True) - sums))
        error = np.sqrt((clusters - 1) / clusters * np.sum(np.square(without - without.mean())))
        half = quantile((1 + LEVEL) / 2, clusters - 1) * error
    return float(np.tanh(whole - half)), float(np.tanh(whole + half))


def order_spread(over_orders: Sequence[ArrayLike], noise: float) -> float:
    r"""Standard deviation that the order of the examples adds to a rating, beyond what asking again does.

    $$\sqrt{\max(0,\ \overline{s^2}-\mathrm{sd}_{retest}^2)}$$

    Args:
        over_orders: For each trajectory its ratings in all orders, one an order.
        noise: Standard deviation of a rating asked again; NaN where it is not known, and then nothing is.
    """
    rows = [row[np.isfinite(row)] for row in (np.asarray(row, dtype=float) for row in over_orders)]
    rows = [row for row in rows if row.size > 1]
    if not rows or np.isnan(noise):
        return np.nan
    free = sum(row.size - 1 for row in rows)
    pooled = sum(float(np.sum(np.square(row - row.mean()))) for row in rows) / free
    return float(np.sqrt(max(0.0, pooled - noise**2)))


def slope_on_last(ratings: ArrayLike, last: ArrayLike) -> float:
    """Slope of one trajectory's ratings on the rating of the example shown last, over orders. 0 is right.

    Args:
        ratings: One an order; NaN is left out.
        last: The mean rating of the last example in each.

    Returns:
        NaN where the last example is always rated the same.
    """
    y, x = np.asarray(ratings, dtype=float), np.asarray(last, dtype=float)
    kept = np.isfinite(y) & np.isfinite(x)
    centred = x[kept] - x[kept].mean() if kept.any() else x[:0]
    total = float(np.sum(centred**2))
    return float(np.sum(centred * y[kept]) / total) if total > 1e-12 else np.nan


def rank_correlation(x: ArrayLike, y: ArrayLike) -> Figure:
    r"""Spearman's rank correlation, with Fisher's interval for ranks, $\mathrm{SE}=\sqrt{(1+\rho^2/2)/(n-3)}$.

    NaN with fewer than three pairs or where one side does not vary; the interval with fewer than four.

    References:
        Bonett and Wright (2000). Sample size requirements for estimating correlations. Psychometrika 65.
    """
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    kept = np.isfinite(a) & np.isfinite(b)
    n = int(kept.sum())
    if n < 3 or np.ptp(a[kept]) == 0 or np.ptp(b[kept]) == 0:
        return Figure(np.nan, np.nan, np.nan, n)
    rho = float(np.corrcoef(_ranks(a[kept]), _ranks(b[kept]))[0, 1])
    if n < 4 or abs(rho) > 1 - 1e-12:
        return Figure(rho, np.nan, np.nan, n)
    half = quantile((1 + LEVEL) / 2, 10**9) * np.sqrt((1 + rho**2 / 2) / (n - 3))
    return Figure(rho, float(np.tanh(np.arctanh(rho) - half)), float(np.tanh(np.arctanh(rho) + half)), n)


def _ranks(values: Floats) -> Floats:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return (ends - (count - 1) / 2)[place]


def agreement(ratings: ArrayLike) -> tuple[float, int]:
    """Krippendorff's alpha of several judges, for an interval scale: Inspect's.

    1 is full agreement, 0 what chance would give, below 0 systematic disagreement. A judge who is only more lenient
    lowers it.

    Args:
        ratings: Trajectories x judges; NaN where one gave none.

    Returns:
        Alpha, and the number of trajectories that two judges or more rated. NaN for fewer than two of those.
    """
    rows = [row[np.isfinite(row)].tolist() for row in np.asarray(ratings, dtype=float)]
    rows = [row for row in rows if len(row) > 1]
    if len(rows) < 2:
        return np.nan, len(rows)
    scores = [SampleScore(score=Score(value=row), sample_id=str(i)) for i, row in enumerate(rows)]
    alpha = krippendorff_alpha(level="interval")(scores)  # type: ignore[arg-type]
    return float(alpha), len(rows)  # type: ignore[arg-type]


def difference_of_means(x: ArrayLike, y: ArrayLike, cluster: Sequence[Hashable] | None = None) -> Figure:
    """Mean of x less mean of y, two independent sets, with Welch's interval.

    Args:
        x: Values; NaN is left out.
        y: Values of the other set.
        cluster: Names of the clusters of x.

    Returns:
        The difference; n is that of the smaller set. The interval is NaN where one has fewer than two clusters.
    """
    one, other = mean_headline(x, cluster), mean_headline(y)
    n = min(one.n, other.n)
    if n == 0:
        return NOTHING
    names = list(cluster) if cluster is not None else list(range(np.asarray(x).size))
    kept = np.isfinite(np.asarray(x, dtype=float))
    groups = int(cluster_codes([name for name, keep in zip(names, kept, strict=True) if keep]).max(initial=-1)) + 1
    errors = [_error(one, groups), _error(other, other.n)]
    estimate = one.estimate - other.estimate
    total = float(np.sum(np.square(errors)))
    if not np.isfinite(total) or total < 1e-24:
        bound = estimate if total < 1e-24 else np.nan
        return Figure(estimate, bound, bound, n)
    degrees = total**2 / sum(error**4 / (k - 1) for error, k in zip(errors, (groups, other.n), strict=True))
    half = quantile((1 + LEVEL) / 2, degrees) * total**0.5
    return Figure(estimate, estimate - half, estimate + half, n)


def _error(headline: Headline, clusters: int) -> float:
    if clusters < 2:
        return np.nan
    return (headline.upper - headline.estimate) / quantile((1 + LEVEL) / 2, clusters - 1)
