"""Correlation of two measures, given others and freed of their errors, with an interval by clusters."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from truthgym.scorers.statistics.instrumented_slope import ROUNDING_ERROR, Codes, Floats
from truthgym.scorers.statistics.interval import LEVEL, UNKNOWN, Estimate, cluster_codes, quantile

MIN_CLUSTERS_CORRELATED = 6
"""Clusters below which a correlation has no interval: with five, one that is 0 looks like 0.8 in one of ten runs."""
MIN_RELIABILITY = 0.3
"""Reliability of a measure below which its correlations are not corrected: the correction would be mostly noise."""


@dataclass(frozen=True)
class Correlated:
    """How strongly two measures move together."""

    plain: Estimate
    """Of the measures as they are, in [-1, 1]."""
    p: float
    """Two-sided p value of no correlation."""
    corrected: Estimate
    """Of what they measure, without their errors. NaN if an error is not known or a reliability is below 0.3."""
    reliability: tuple[float, float]
    """Share of each measure's variance that is not error, given the controls. NaN if its error is not known."""


def correlate(
    x: ArrayLike,
    y: ArrayLike,
    cluster: Sequence[Hashable] | None = None,
    controls: ArrayLike | None = None,
    errors: tuple[ArrayLike, ArrayLike] | None = None,
) -> Correlated:
    r"""Pearson's correlation; with controls the partial one, and with errors also the disattenuated one.

    $$\rho=\frac{r}{\sqrt{\lambda_x\lambda_y}},\qquad \lambda_x=1-\frac{\overline{\mathrm{SE}_x^2}}{s_x^2}$$

    with the variance $s_x^2$ of what the controls leave of x. The interval of r is a jackknife of Fisher's z over
    clusters, with Student's t. Its bounds, corrected as r is, are those of $\rho$. The correction assumes that the
    errors of x and y are independent of each other. Two scores of the same answers can share an error, which the
    correction then makes larger, not smaller.

    Args:
        x: One number per unit. A unit with NaN in either measure is left out.
        y: The other measure.
        cluster: Cluster name of each unit. None: each is its own.
        controls: Units x numbers that are design constant, without a constant: indicators of a category, for example.
        errors: The standard error of each unit, in x and in y. None: unknown.

    Returns:
        NaN for a measure that is constant given the controls; no interval with fewer than six clusters.

    Raises:
        ValueError: Arguments of different lengths.

    References:
        Spearman, C. (1904). The proof and measurement of association between two things. American Journal of
        Psychology 15. Charles, E. P. (2005). The correction for attenuation due to measurement error. Psychological
        Methods 10.
    """
    first, second = (np.asarray(values, dtype=float).ravel() for values in (x, y))
    names: Sequence[Hashable] = range(first.size) if cluster is None else cluster
    design = (
        np.zeros((first.size, 0)) if controls is None else np.asarray(controls, dtype=float).reshape(first.size, -1)
    )
    unknown = np.full(first.size, np.nan)
    noise = [np.asarray(one, dtype=float).ravel() for one in errors] if errors else [unknown, unknown]
    if len({first.size, second.size, len(names), len(design), *(one.size for one in noise)}) > 1:
        raise ValueError(f"correlate: {first.size} values of x and {second.size} of y; give one of each for a unit")
    kept = np.isfinite(first + second)
    codes = cluster_codes([name for name, keep in zip(names, kept, strict=True) if keep])
    first, second, design = first[kept], second[kept], design[kept]
    n, clusters = codes.size, int(codes.max()) + 1 if codes.size else 0
    (xx, xy), (_, yy) = _moments(first, second, design)
    r = float(xy / np.sqrt(xx * yy))
    of_x, of_y = (
        float(1 - np.mean(one[kept] ** 2) / s) if n else np.nan for one, s in zip(noise, (xx, yy), strict=True)
    )
    reliability = (of_x, of_y)
    nothing = replace(UNKNOWN, n=n, clusters=clusters)
    factor = 1 / np.sqrt(np.prod(reliability)) if min(reliability) >= MIN_RELIABILITY else np.nan
    plain, corrected = (replace(nothing, estimate=float(np.clip(one, -1, 1))) for one in (r, r * factor))
    if clusters < MIN_CLUSTERS_CORRELATED or np.isnan(r):
        return Correlated(plain, np.nan, corrected, reliability)
    rs = np.array([r, *_without_each(first, second, design, codes)])
    z, *zs = np.arctanh(np.clip(rs, ROUNDING_ERROR - 1, 1 - ROUNDING_ERROR))
    error = float(np.sqrt((clusters - 1) / clusters * np.sum(np.square(zs - np.mean(zs)))))
    reach = quantile((1 + LEVEL) / 2, clusters - 1) * error
    bounds = np.tanh([z - reach, z + reach])
    plain, corrected = (
        replace(one, lower=float(lower), upper=float(upper))
        for one, (lower, upper) in ((plain, bounds), (corrected, np.clip(bounds * factor, -1, 1)))
    )
    return Correlated(plain, _p(float(z), error, clusters - 1), corrected, reliability)


def _moments(x: Floats, y: Floats, design: Floats) -> Floats:
    """Variances and covariance of what the controls leave of x and y. NaN if that is nothing."""
    n = x.size
    constant = np.hstack([np.ones((n, 1)), design])
    free = n - (int(np.linalg.matrix_rank(constant)) if n else 0)
    if free < 2:
        return np.full((2, 2), np.nan)
    values = np.stack([x, y], axis=1)
    rest = values - constant @ np.linalg.lstsq(constant, values, rcond=None)[0]
    moments = rest.T @ rest / free
    return moments if np.diag(moments).min() > ROUNDING_ERROR**2 else np.full((2, 2), np.nan)


def _without_each(x: Floats, y: Floats, design: Floats, codes: Codes) -> Floats:
    """The correlation without each cluster in turn."""
    clusters = int(codes.max()) + 1
    if design.shape[1]:
        parts = [_moments(x[codes != one], y[codes != one], design[codes != one]) for one in range(clusters)]
        (xx, xy), (_, yy) = np.moveaxis(np.array(parts), 0, -1)
    else:  # from sums, for there may be thousands of clusters
        x, y = x - x.mean(), y - y.mean()
        sums = np.stack([np.bincount(codes, one, clusters) for one in (np.ones(x.size), x, y, x * x, x * y, y * y)])
        n, sx, sy, xx, xy, yy = sums.sum(axis=1, keepdims=True) - sums
        xx, xy, yy = xx - sx**2 / n, xy - sx * sy / n, yy - sy**2 / n
        # Sums of squares that are rounding errors of the whole ones: the measure is constant without the cluster.
        xx, yy = (np.where(one > ROUNDING_ERROR * (v @ v), one, np.nan) for one, v in ((xx, x), (yy, y)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(xy / np.sqrt(xx * yy))


def _p(estimate: float, error: float, degrees: int) -> float:
    from scipy.special import stdtr  # scipy.stats takes half a second longer to load

    if not np.isfinite(error):
        return np.nan
    return float(2 * stdtr(degrees, -abs(estimate) / error)) if error > 0 else 0.0


def cross_epoch_correlation(
    x: ArrayLike, y: ArrayLike, cluster: Sequence[Hashable], group: Sequence[Hashable]
) -> Correlated:
    r"""Correlation of two measures over questions, with what varies between epochs taken out.

    $$\rho=\frac{S_{xy}}{\sqrt{S_{xx}S_{yy}}},\qquad S_{ab}=\sum_q\sum_{i\ne j}a_{qi}b_{qj}$$

    of numbers from which the mean of their group is taken. An answer's x never meets the same answer's y, so that an
    error that both share does no harm. The interval is a jackknife over clusters with Student's t.

    Args:
        x: Questions x epochs. NaN if missing.
        y: The same of the other measure.
        cluster: Cluster name of each question.
        group: Group of each question: model and setup.

    Returns:
        `plain` is the correlation of the means over epochs, and `reliability` that of a single answer.
    """
    first, second = (np.array(values, dtype=float) for values in (x, y))
    both = np.isfinite(first) & np.isfinite(second)
    of_group = cluster_codes(group)
    for values in (first, second):
        values[~both] = 0
        count = np.bincount(of_group, both.sum(axis=1))
        values -= (np.bincount(of_group, values.sum(axis=1)) / np.maximum(count, 1))[of_group][:, None] * both
    epochs = both.sum(axis=1)
    used = epochs > 1
    codes = cluster_codes([name for name, keep in zip(cluster, used, strict=True) if keep])
    first, second, epochs = first[used], second[used], epochs[used].astype(float)
    means = correlate(first.sum(axis=1) / epochs, second.sum(axis=1) / epochs, codes.tolist())
    clusters = means.plain.clusters
    products = [(first, second), (first, first), (second, second)]
    same = np.stack([np.bincount(codes, (a * b).sum(axis=1), clusters) for a, b in products])
    cross = np.stack([np.bincount(codes, a.sum(axis=1) * b.sum(axis=1), clusters) for a, b in products]) - same
    pairs, answers = (np.bincount(codes, one, clusters).sum() for one in (epochs * (epochs - 1), epochs))
    with np.errstate(divide="ignore", invalid="ignore"):
        xx, yy = (float(cross[i].sum() / pairs / (same[i].sum() / answers)) for i in (1, 2))
        whole, without = (
            np.asarray(a / np.sqrt(b * c)) for a, b, c in (cross.sum(axis=1), cross.sum(axis=1, keepdims=True) - cross)
        )
    if not min(xx, yy) >= MIN_RELIABILITY or clusters < MIN_CLUSTERS_CORRELATED or not np.isfinite(without).all():
        return replace(means, reliability=(xx, yy))
    rho, error = float(whole), float(np.sqrt((clusters - 1) / clusters * np.sum(np.square(without - without.mean()))))
    reach = quantile((1 + LEVEL) / 2, clusters - 1) * error
    lower, upper = (float(np.clip(rho + sign * reach, -1, 1)) for sign in (-1, 1))
    estimate = float(np.clip(rho, -1, 1))
    corrected = Estimate(estimate, lower, upper, np.nan, means.plain.n, error, clusters, float(clusters))
    return replace(means, corrected=corrected, reliability=(xx, yy))
