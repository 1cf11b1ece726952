"""Slopes of changes on levels that are measured with error. Pure functions of arrays.

Arrays are questions x epochs, or questions x epochs x steps; NaN if missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from truthgym.scorers.statistics.interval import LEVEL, MIN_CLUSTERS, POWER, Estimate, quantile, two_sided_p

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.intp]

MIN_QUESTIONS = 10
MIN_F = 10.0
"""First-stage F below which intervals are unreliable: the rule of thumb of Staiger and Stock (1997)."""
ROUNDING_ERROR = 1e-8
"""Standard deviation below which differences between beliefs are rounding errors."""


@dataclass(frozen=True)
class Slope(Estimate):
    """A slope with its uncertainty. NaN if undefined. Its effective clusters are those of the slope's weights."""

    p: float = np.nan
    """Two-sided p value of a slope of 0, from the scores under that hypothesis. For an instrumented slope this is the
    Anderson-Rubin test, which is valid however weak the instrument."""
    influence: Floats = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)
    """What each cluster adds to the estimate, by cluster number. The standard error is the root of the sum of their
    squares. Empty if undefined."""


def cross_epoch_slope(change: Floats, level: Floats, instrument: Floats, cluster: Codes, group: Codes) -> Slope:
    r"""Slope of a change on a level, instrumented by a measurement in another epoch of the same question.

    $$\hat\beta=\frac{\sum_{i\ne j}\sum_q\tilde z_{qj}\,\Delta_{qi}}{\sum_{i\ne j}\sum_q\tilde z_{qj}\,x_{qi}}$$

    with $\tilde z$ centred over the questions of each pair of epochs (and of each group). The error of $x_{qi}$ is also
    in the change, which biases an OLS slope; it is not in $z_{qj}$. A question that is alone in its group is left out.
    The interval holds every slope that the Anderson-Rubin test does not reject, however weak the instrument:

    $$\Big(\sum_g s_g(\beta)\Big)^2\le t^2_{0.975,\,\nu}\sum_g\big(A_gs_g(\beta)-\overline{As(\beta)}\big)^2,\qquad
    s_g(\beta)=\sum_{q\in g}\sum_{i\ne j}\tilde z_{qj}(\Delta_{qi}-\beta x_{qi}),\qquad
    A_g^2=\Big(1-\sum_k\frac{b_{gk}^2}{n_k c_g}\Big)^{-1}$$

    where $w_q=\sum\tilde z_{qj}$ is a question's weight, $b_{gk}$ their sum over the questions of cluster g in group k
    of $n_k$, and $c_g$ the sum of their squares. $A_g$ corrects for what the intercepts absorb (CR2), and $\nu$ are
    Satterthwaite's degrees of freedom, $\mathrm{tr}(M)^2/\mathrm{tr}(M^2)$ with $M=A\,(\mathrm{diag}(c)-\sum_k b_k
    b_k'/n_k)\,A$.
    """
    parts = []
    for i, j, s in _pairs(level):
        q, d, x, z = _complete(change[:, i, s], level[:, i, s], instrument[:, j])
        shared = _in_shared_group(group[q])
        q, d, x, z = q[shared], d[shared], x[shared], z[shared]
        parts.append((q, _centred(d, group[q]), _centred(x, group[q]), _centred(z, group[q])))
    return _slope(parts, cluster, group)


def ols_slope(change: Floats, level: Floats, cluster: Codes, group: Codes) -> Slope:
    """Slope of a change on a level by least squares, over all epochs and steps, with an intercept for each group."""
    question = np.broadcast_to(np.arange(len(level))[:, None, None], level.shape)
    kept = np.isfinite(change + level)
    q = question[kept]
    d, x = (_centred(values[kept], group[q]) for values in (change, level))
    return _slope([(q, d, x, x)], cluster, group)


def r_squared(change: Floats, level: Floats, group: Codes) -> float:
    """Share of the change's variance that the least-squares line explains, in [0, 1]; NaN if nothing varies."""
    question = np.broadcast_to(np.arange(len(level))[:, None, None], level.shape)
    kept = np.isfinite(change + level)
    d, x = (_centred(values[kept], group[question[kept]]) for values in (change, level))
    varies = min(np.sum(d**2), np.sum(x**2)) > ROUNDING_ERROR**2 * max(d.size, 1)
    return min(float(np.sum(d * x) ** 2 / (np.sum(d**2) * np.sum(x**2))), 1.0) if varies else np.nan


def first_stage(level: Floats, instrument: Floats, cluster: Codes, group: Codes) -> float:
    """Cluster-robust F statistic of the regression of a level on its instrument in other epochs.

    It is the F that, with endless clusters, has the p value of ours: infinite if the instrument determines the level.
    """
    from scipy.special import ndtri

    parts = []
    for i, j, s in _pairs(level):
        q, x, z, _ = _complete(level[:, i, s], instrument[:, j], instrument[:, j])
        shared = _in_shared_group(group[q])
        q, x, z = q[shared], _centred(x[shared], group[q[shared]]), _centred(z[shared], group[q[shared]])
        parts.append((q, x, z, z))
    slope = _slope(parts, cluster, group)
    if not slope.stderr > 0:
        return np.inf * abs(slope.estimate) if slope.stderr == 0 else np.nan
    return float(ndtri(two_sided_p(slope.estimate / slope.stderr, slope.effective_clusters - 1) / 2) ** 2)


def reliability(level: Floats, other: Floats, group: Codes) -> float:
    """Correlation of a level with the same or another measurement in another epoch: 1 is noiseless, 0 uninformative."""
    covariance = first = second = 0.0
    number = 0
    for i, j, s in _pairs(level):
        q, x, z, _ = _complete(level[:, i, s], other[:, j], other[:, j])
        x, z = _centred(x, group[q]), _centred(z, group[q])
        covariance += float(np.sum(x * z))
        first += float(np.sum(x**2))
        second += float(np.sum(z**2))
        number += q.size
    # Centring equal numbers leaves rounding errors.
    varies = min(first, second) > ROUNDING_ERROR**2 * max(number, 1)
    return covariance / float(np.sqrt(first * second)) if varies else np.nan


def within(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Unbiased variance of the first and covariance of both, between the epochs of each question; NaN with one."""
    both = np.isfinite(first + second)
    count = both.sum(axis=1)
    enough = count > 1
    a, b = (np.where(both, values, 0.0) for values in (first, second))
    a, b = (np.where(both, v - (v.sum(axis=1) / np.maximum(count, 1))[:, None], 0.0) for v in (a, b))
    variance, covariance = (np.sum(a * v, axis=1) / np.maximum(count - 1, 1) for v in (a, b))
    return np.where(enough, variance, np.nan), np.where(enough, covariance, np.nan)


def _pairs(level: Floats) -> Iterator[tuple[int, int, int]]:
    epochs, steps = level.shape[1:]
    return ((i, j, s) for i in range(epochs) for j in range(epochs) if i != j for s in range(steps))


def _complete(first: Floats, second: Floats, third: Floats) -> tuple[Codes, Floats, Floats, Floats]:
    kept = np.flatnonzero(np.isfinite(first + second + third))
    return kept, first[kept], second[kept], third[kept]


def _centred(values: Floats, group: Codes) -> Floats:
    if not values.size:
        return values
    count = np.bincount(group)
    return values - (np.bincount(group, weights=values) / np.maximum(count, 1))[group]


def _in_shared_group(group: Codes) -> "NDArray[np.bool_]":
    shared: NDArray[np.bool_] = np.bincount(group)[group] > 1 if group.size else np.zeros(0, dtype=bool)
    return shared


def _slope(parts: list[tuple[Codes, Floats, Floats, Floats]], cluster: Codes, group: Codes) -> Slope:
    """Slope from parts of (question, change, level, instrument): sum their moments, and the scores by cluster."""
    questions = len(group)
    product, square, weight = np.zeros(questions), np.zeros(questions), np.zeros(questions)
    size = 0.0
    used = np.zeros(questions, dtype=bool)
    for q, d, x, z in parts:
        product += np.bincount(q, weights=z * d, minlength=questions)
        square += np.bincount(q, weights=z * x, minlength=questions)
        weight += np.bincount(q, weights=z, minlength=questions)
        size += float(np.sum(np.abs(z * x)))
        used[q] = True
    present, code = np.unique(cluster[used], return_inverse=True)
    n, clusters = int(used.sum()), present.size
    correction, effective = _small_sample(weight[used], code, group[used])
    total = float(square.sum())
    unknown = Slope(np.nan, np.nan, np.nan, n=n, clusters=clusters, effective_clusters=effective)
    if n == 0 or abs(total) <= ROUNDING_ERROR * max(size, ROUNDING_ERROR):
        return unknown
    estimate = float(product.sum() / total)
    if not round(effective, 6) >= MIN_CLUSTERS:
        return replace(unknown, estimate=estimate)
    adjust = np.sqrt(correction)
    products, squares = (
        adjust * np.bincount(code, weights=moments[used]).astype(float) for moments in (product, square)
    )
    scores = products - estimate * squares
    error = float(np.sqrt(np.sum(scores**2))) / abs(total)
    reach, power = quantile((1 + LEVEL) / 2, effective - 1), quantile(POWER, effective - 1)
    lower, upper = _anderson_rubin(float(product.sum()), total, products, squares, reach)
    spread = _spread(products, products)
    t = float(product.sum() / np.sqrt(spread)) if spread > 0 else np.inf if product.sum() else 0.0
    influence = np.zeros(cluster.max() + 1)
    influence[present] = scores / total
    mde, p = (reach + power) * error, two_sided_p(t, effective - 1)
    return Slope(estimate, lower, upper, mde, n, error, clusters, effective, p, influence)


def _small_sample(weight: Floats, cluster: Codes, group: Codes) -> tuple[Floats, float]:
    """The squares of `A_g` for each cluster number, and the effective number of clusters. See `cross_epoch_slope`."""
    if not weight.size:
        return np.zeros(0), 0.0
    squares = np.bincount(cluster, weights=weight**2).astype(float)
    sums = np.zeros((squares.size, group.max() + 1))
    np.add.at(sums, (cluster, group), weight)
    sums /= np.sqrt(np.maximum(np.bincount(group, minlength=sums.shape[1]), 1))
    absorbed = np.sum(sums**2, axis=1)
    inside = squares > 0
    share = np.divide(absorbed, squares, out=np.zeros_like(squares), where=inside)
    # A cluster that fills its groups has a share of 1 only if it has no weight there.
    correction = 1 / (1 - np.minimum(share, 1 - ROUNDING_ERROR))
    trace = float(np.sum(correction * (squares - absorbed)))
    inner = sums.T @ (correction[:, None] * sums)
    product = float(np.sum(correction**2 * squares * (squares - 2 * absorbed)) + np.sum(inner**2))
    return correction, trace**2 / product + 1 if product > 0 else 0.0


def _anderson_rubin(product: float, square: float, products: Floats, squares: Floats, t: float) -> tuple[float, float]:
    """Bounds of the slopes whose scores have a sum within t standard errors of 0. NaN if they are unbounded."""
    a = square**2 - t**2 * _spread(squares, squares)
    b = product * square - t**2 * _spread(products, squares)
    c = product**2 - t**2 * _spread(products, products)
    if not a > 0:
        return np.nan, np.nan
    root = np.sqrt(max(b**2 - a * c, 0.0))
    return float((b - root) / a), float((b + root) / a)


def _spread(first: Floats, second: Floats) -> float:
    return float(np.sum(first * (second - second.mean())))
