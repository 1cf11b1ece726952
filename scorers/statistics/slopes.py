"""Slopes of changes on levels that are measured with error. Pure functions of arrays.

Arrays are questions x epochs, or questions x epochs x steps; NaN if missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from truthgym.scorers.statistics.interval import LEVEL, POWER, quantile

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

MIN_QUESTIONS = 10
MIN_F = 10.0
"""First-stage F below which intervals are unreliable: the rule of thumb of Staiger and Stock (1997)."""
ROUNDING_ERROR = 1e-8
"""Standard deviation below which differences between beliefs are rounding errors."""


@dataclass(frozen=True)
class Slope:
    """A slope with its uncertainty. NaN if undefined."""

    estimate: float
    lower: float
    upper: float
    error: float
    """Standard error."""
    p: float
    """Two-sided p value of a slope of 0, from the scores under that hypothesis. For an instrumented slope this is the
    Anderson-Rubin test, which is valid however weak the instrument."""
    mde: float
    """Smallest true slope that a run of this size detects at 5 % with probability 0.8."""
    n: int
    """Questions used."""
    clusters: int
    degrees: int
    """Questions minus the intercepts that cost a degree of freedom."""
    influence: Floats = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)
    """What each cluster adds to the estimate, by cluster number. The standard error is the root of the sum of their
    squares. Empty if undefined."""


def cross_epoch_slope(change: Floats, level: Floats, instrument: Floats, cluster: Codes, group: Codes) -> Slope:
    r"""Slope of a change on a level, instrumented by a measurement in another epoch of the same question.

    $$\hat\beta=\frac{\sum_{i\ne j}\sum_q\tilde z_{qj}\,\Delta_{qi}}{\sum_{i\ne j}\sum_q\tilde z_{qj}\,x_{qi}}$$

    with $\tilde z$ centred over the questions of each pair of epochs (and of each group). The error of $x_{qi}$ is also
    in the change, which biases an OLS slope; it is not in $z_{qj}$. The interval uses the scores
    $s_q=\sum_{i\ne j}\tilde z_{qj}\hat e_{qi}$, summed by cluster, and t with G - 1 degrees of freedom. A question that
    is alone in its group carries no information about a slope and is left out.

    Args:
        change: Questions x epochs x steps.
        level: The same shape.
        instrument: Questions x epochs.
        cluster: Cluster number of each question.
        group: Group number of each question; each group has its own intercept.
    """
    parts = []
    for i, j, s in _pairs(level):
        q, d, x, z = _complete(change[:, i, s], level[:, i, s], instrument[:, j])
        shared = _in_shared_group(group[q])
        q, d, x, z = q[shared], d[shared], x[shared], z[shared]
        parts.append((q, _centred(d, group[q]), _centred(x, group[q]), _centred(z, group[q])))
    return _slope(parts, cluster, group)


def ols_slope(change: Floats, level: Floats, cluster: Codes, group: Codes) -> Slope:
    """Slope of a change on a level by least squares, over all epochs and steps, with an intercept for each group.

    Args, as in `cross_epoch_slope`. The interval is clustered and does not account for the bias.
    """
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

    Args, as in `cross_epoch_slope`.

    Returns:
        0 or more; infinite if the instrument determines the level exactly; NaN if nothing varies.
    """
    parts = []
    for i, j, s in _pairs(level):
        q, x, z, _ = _complete(level[:, i, s], instrument[:, j], instrument[:, j])
        shared = _in_shared_group(group[q])
        q, x, z = q[shared], _centred(x[shared], group[q[shared]]), _centred(z[shared], group[q[shared]])
        parts.append((q, x, z, z))
    found = _slope(parts, cluster, group)
    return (found.estimate / found.error) ** 2 if found.error > 0 else np.inf * abs(found.estimate)


def reliability(level: Floats, other: Floats, group: Codes) -> float:
    """Correlation of a level with the same or another measurement in another epoch: 1 is noiseless, 0 uninformative.

    Args:
        level: Questions x epochs x steps.
        other: Questions x epochs. If it is the level itself, the result is the test-retest reliability: the share of
            the level's variance that is not error.
        group: As in `cross_epoch_slope`.
    """
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
    """Unbiased variance of the first and covariance of both, between the epochs of each question.

    Args:
        first: Questions x epochs.
        second: The same shape.

    Returns:
        Variance and covariance, one per question; NaN if fewer than two epochs have both.
    """
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


def _intercepts(cluster: Codes, group: Codes) -> int:
    """Number of intercepts that cost a degree of freedom: not those inside one cluster, whose sum absorbs them."""
    pairs = np.unique(np.stack([group, cluster]), axis=1)
    return max(1, int(np.sum(np.bincount(pairs[0]) > 1))) if group.size else 0


def _in_shared_group(group: Codes) -> "NDArray[np.bool_]":
    shared: NDArray[np.bool_] = np.bincount(group)[group] > 1 if group.size else np.zeros(0, dtype=bool)
    return shared


def _slope(parts: list[tuple[Codes, Floats, Floats, Floats]], cluster: Codes, group: Codes) -> Slope:
    """Slope from parts of (question, change, level, instrument): sum their moments, and the scores by cluster."""
    questions = len(group)
    product = np.zeros(questions)
    square = np.zeros(questions)
    size = 0.0
    used = np.zeros(questions, dtype=bool)
    for q, d, x, z in parts:
        product += np.bincount(q, weights=z * d, minlength=questions)
        square += np.bincount(q, weights=z * x, minlength=questions)
        size += float(np.sum(np.abs(z * x)))
        used[q] = True
    n, clusters = int(used.sum()), len(np.unique(cluster[used]))
    degrees = n - _intercepts(cluster[used], group[used])
    total = square.sum()
    if n == 0 or abs(total) <= ROUNDING_ERROR * max(size, ROUNDING_ERROR):
        return Slope(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, n, clusters, degrees)
    estimate = float(product.sum() / total)
    if clusters < 2 or degrees < 1:
        return Slope(estimate, np.nan, np.nan, np.nan, np.nan, np.nan, n, clusters, degrees)
    # Each intercept costs a degree of freedom; G / (G - 1) accounts for the first.
    scores = np.bincount(cluster, weights=product - estimate * square).astype(float)
    error = float(np.sqrt(clusters / (clusters - 1) * (n - 1) / degrees * np.sum(scores**2))) / abs(total)
    half, power = (float(quantile(at, clusters - 1) * error) for at in ((1 + LEVEL) / 2, POWER))
    p = _p_value(np.bincount(cluster, weights=product).astype(float), clusters, (n - 1) / degrees)
    influence = scores * (np.sign(total) * error / np.sqrt(np.sum(scores**2))) if error else np.zeros_like(scores)
    return Slope(estimate, estimate - half, estimate + half, error, p, half + power, n, clusters, degrees, influence)


def _p_value(scores: Floats, clusters: int, correction: float) -> float:
    """P value of a sum of 0, from a t test on the clusters' scores."""
    from scipy.special import stdtr

    # Unused cluster numbers leave zeros in the scores, so the mean is the sum over the clusters used.
    mean = scores.sum() / clusters
    squares = np.sum(scores**2) - clusters * mean**2
    if squares <= ROUNDING_ERROR * np.sum(scores**2):
        return float(mean == 0)
    t = scores.sum() / np.sqrt(clusters / (clusters - 1) * correction * squares)
    return float(2 * stdtr(clusters - 1, -abs(t)))
