"""Reliability of a judge: pure functions of arrays of its ratings, all on the scale from 0 to 1."""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from inspect_ai.scorer import SampleScore, Score, krippendorff_alpha
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.instrumented_slope import Floats
from truthgym.scorers.statistics.interval import LEVEL, UNKNOWN, Estimate, cluster_codes, mean_estimate, quantile

MIN_CLUSTERS_AGREEING = 6
"""Clusters of units below which Krippendorff's alpha has no interval."""


def retest(first: ArrayLike, second: ArrayLike, cluster: Sequence[Hashable] | None = None) -> tuple[Estimate, float]:
    r"""Reliability of one rating: the intraclass correlation ICC(1,1) of two, and the standard deviation of noise.

    $$\mathrm{ICC}=\frac{MS_B-MS_W}{MS_B+MS_W},\qquad \mathrm{sd}=\sqrt{MS_W}$$

    1 is a judge that repeats its ratings, 0 one whose ratings distinguish trajectories no better than chance. It is no
    validity: a judge that gives each text an arbitrary number, and always the same one, has 1. It depends on how
    different the trajectories are: compare judges on the same ones. If every pair is a cluster of its own, the interval
    is that of Shrout and Fleiss, from F. Epochs of a question, and several judges of one text, share a cluster: then it
    is a jackknife over clusters of Fisher's z, with Student's t.

    Args:
        first: Ratings, one per trajectory. A pair with NaN is left out.
        second: Ratings of the same trajectories, requested again.
        cluster: Cluster name of each pair. None: each is its own.

    Returns:
        The correlation, and the standard deviation. The correlation is NaN with fewer than three pairs or if all
        ratings are equal, its interval with fewer than three clusters.

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
        return UNKNOWN, np.nan
    within = float(np.mean(np.square(pairs[:, 0] - pairs[:, 1])) / 2)
    if n < 3:
        return replace(UNKNOWN, n=n), within**0.5
    between = float(2 * np.var(pairs.mean(axis=1), ddof=1))
    if between + within < 1e-15:
        return replace(UNKNOWN, n=n), 0.0
    icc = (between - within) / (between + within)
    if within < 1e-15:
        return Estimate(icc, icc, icc, n=n), 0.0
    if codes.max() + 1 < n:
        return Estimate(icc, *_jackknifed(pairs, codes), n=n), within**0.5
    from scipy.special import fdtri  # scipy.stats takes half a second longer to load

    tail, ratio = (1 + LEVEL) / 2, between / within
    low, high = ratio / fdtri(n - 1, n, tail), ratio * fdtri(n, n - 1, tail)
    return Estimate(icc, float((low - 1) / (low + 1)), float((high - 1) / (high + 1)), n=n), within**0.5


def _jackknifed(pairs: Floats, codes: NDArray[np.int_]) -> tuple[float, float]:
    """Interval of the intraclass correlation of pairs, leaving out one cluster at a time. NaN if it is not defined."""
    clusters = int(codes.max()) + 1
    if clusters < 3:
        return np.nan, np.nan
    mean, half_square = pairs.mean(axis=1), np.square(pairs[:, 0] - pairs[:, 1]) / 2
    weights = np.ones(len(pairs)), half_square, mean, mean**2
    sums = np.stack([np.bincount(codes, weight, clusters) for weight in weights])

    def z(count: Floats, within: Floats, total: Floats, squares: Floats) -> Floats:
        """The inverse hyperbolic tangent of the correlation."""
        between = 2 * (squares - total**2 / count) / (count - 1)
        return np.asarray(np.log(between / (within / count)) / 2)

    with np.errstate(divide="ignore", invalid="ignore"):
        whole, without = z(*sums.sum(axis=1)), z(*(sums.sum(axis=1, keepdims=True) - sums))
        error = np.sqrt((clusters - 1) / clusters * np.sum(np.square(without - without.mean())))
        half = quantile((1 + LEVEL) / 2, clusters - 1) * error
    return float(np.tanh(whole - half)), float(np.tanh(whole + half))


def order_spread(over_orders: Sequence[ArrayLike], noise: float) -> float:
    r"""Standard deviation that the order of the examples adds to a rating, beyond its retest noise.

    $$\sqrt{\max(0,\ \overline{s^2}-\mathrm{sd}_{retest}^2)}$$

    Args:
        over_orders: For each trajectory, its rating in each order.
        noise: Standard deviation of a rating that is requested again. If it is NaN, so is the result.
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
        ratings: One per order. NaN is left out.
        last: Mean rating of the example shown last in each order.

    Returns:
        The slope; NaN if all last examples have the same rating.
    """
    y, x = np.asarray(ratings, dtype=float), np.asarray(last, dtype=float)
    kept = np.isfinite(y) & np.isfinite(x)
    centred = x[kept] - x[kept].mean() if kept.any() else x[:0]
    total = float(np.sum(centred**2))
    return float(np.sum(centred * y[kept]) / total) if total > 1e-12 else np.nan


def rank_correlation(x: ArrayLike, y: ArrayLike) -> Estimate:
    r"""Spearman's rank correlation, with Fisher's interval for ranks, $\mathrm{SE}=\sqrt{(1+\rho^2/2)/(n-3)}$.

    Where at most one pair of neighbours is out of order, the interval reaches to 1 and begins where it would with one
    such pair. NaN with fewer than three pairs or if one variable is constant; the interval with fewer than four.

    References:
        Bonett and Wright (2000). Sample size requirements for estimating correlations. Psychometrika 65.
    """
    from scipy.stats import spearmanr

    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    kept = np.isfinite(a) & np.isfinite(b)
    n = int(kept.sum())
    if n < 3 or np.ptp(a[kept]) == 0 or np.ptp(b[kept]) == 0:
        return replace(UNKNOWN, n=n)
    rho = float(spearmanr(a[kept], b[kept]).statistic)
    if n < 4:
        return replace(UNKNOWN, estimate=rho, n=n)
    most = 1 - 12 / (n * (n**2 - 1))  # with one pair of neighbours out of order
    centre = min(max(rho, -most), most)
    half = quantile((1 + LEVEL) / 2, 10**9) * np.sqrt((1 + centre**2 / 2) / (n - 3))
    lower, upper = (float(np.tanh(np.arctanh(centre) + sign * half)) for sign in (-1, 1))
    almost = most - 1e-12
    return Estimate(rho, -1.0 if rho <= -almost else lower, 1.0 if rho >= almost else upper, n=n)


def agreement(ratings: ArrayLike) -> tuple[float, int]:
    """Krippendorff's alpha of several judges, for an interval scale, as Inspect computes it.

    1 is full agreement, 0 agreement by chance, below 0 systematic disagreement. A judge that is merely more lenient
    lowers it too.

    Args:
        ratings: Trajectories x judges; NaN if a judge gave no rating.

    Returns:
        Alpha, and the number of trajectories that at least two judges rated. Alpha is NaN if that is less than two.
    """
    rows = [row[np.isfinite(row)].tolist() for row in np.asarray(ratings, dtype=float)]
    rows = [row for row in rows if len(row) > 1]
    if len(rows) < 2:
        return np.nan, len(rows)
    scores = [SampleScore(score=Score(value=row), sample_id=str(i)) for i, row in enumerate(rows)]
    alpha = krippendorff_alpha(level="interval")(scores)  # type: ignore[arg-type]
    return float(alpha), len(rows)  # type: ignore[arg-type]


def difference_of_means(x: ArrayLike, y: ArrayLike, cluster: Sequence[Hashable] | None = None) -> Estimate:
    """Mean of x minus mean of y, two independent sets, with Welch's interval.

    Args:
        x: Values. NaN is left out.
        y: Values of the other set.
        cluster: Cluster name of each value of x.

    Returns:
        The difference; n is that of the smaller set. The interval is NaN if either has fewer than three effective
        clusters.
    """
    one, other = mean_estimate(x, cluster), mean_estimate(y)
    n = min(one.n, other.n)
    if n == 0:
        return UNKNOWN
    estimate, total = one.estimate - other.estimate, one.stderr**2 + other.stderr**2
    if np.isnan(total) or total < 1e-24:
        bound = estimate if total < 1e-24 else np.nan
        return Estimate(estimate, bound, bound, n=n)
    degrees = total**2 / sum(each.stderr**4 / (each.effective_clusters - 1) for each in (one, other))
    half = quantile((1 + LEVEL) / 2, degrees) * total**0.5
    return Estimate(estimate, estimate - half, estimate + half, n=n)


def agreement_estimate(ratings: ArrayLike, cluster: Sequence[Hashable] | None = None) -> Estimate:
    r"""Krippendorff's alpha, as `agreement`, with a jackknife interval of $\ln(1-\alpha)$ over clusters.

    With 15 clusters a percentile bootstrap over clusters holds the truth less often; the tests compare the two.

    Args:
        ratings: Units x raters; NaN if a rater gave no rating.
        cluster: Cluster name of each unit. None: each is its own.

    Returns:
        `n` is the number of units with two ratings or more. NaN with fewer than two of them or if all ratings are
        equal, which alpha says nothing about; the interval with fewer than six clusters.
    """
    table = np.asarray(ratings, dtype=float)
    names: Sequence[Hashable] = range(len(table)) if cluster is None else cluster
    usable = np.isfinite(table).sum(axis=1) > 1
    alpha, n = agreement(table)
    codes = cluster_codes([name for name, keep in zip(names, usable, strict=True) if keep])
    clusters = int(codes.max()) + 1 if codes.size else 0
    rows = table[usable]
    if n < 2 or np.nanmax(rows) == np.nanmin(rows):
        return replace(UNKNOWN, n=n, clusters=clusters)
    if clusters < MIN_CLUSTERS_AGREEING:
        return replace(UNKNOWN, estimate=alpha, n=n, clusters=clusters)
    count = np.isfinite(rows).sum(axis=1).astype(float)
    total, squares = np.nansum(rows, axis=1), np.nansum(rows**2, axis=1)
    within = 2 * count * (squares - total**2 / count) / (count - 1)
    sums = np.stack([np.bincount(codes, one, clusters) for one in (count, total, squares, within)])
    m, total, squares, within = sums.sum(axis=1, keepdims=True) - sums
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(within / m) - np.log(2 * (squares - total**2 / m) / (m - 1))
        centre = np.log(1 - alpha)
    if not np.isfinite(logs).all():  # no disagreement at all, or in one cluster alone
        return replace(UNKNOWN, estimate=alpha, n=n, clusters=clusters)
    error = np.sqrt((clusters - 1) / clusters * np.sum(np.square(logs - logs.mean())))
    reach = quantile((1 + LEVEL) / 2, clusters - 1) * error
    lower, upper = (float(1 - np.exp(centre + sign * reach)) for sign in (1, -1))
    return Estimate(alpha, lower, upper, n=n, clusters=clusters)
