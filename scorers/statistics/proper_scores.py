"""Proper scores of a stated probability: pure functions of arrays."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.calibration import checked
from truthgym.scorers.statistics.direction import CLIP
from truthgym.scorers.statistics.interval import UNKNOWN, Estimate, mean_estimate


def brier_score(p: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Brier score $(p-y)^2$ in [0, 1]. Lower is better; 0.25 at p = 0.5. NaN in either gives NaN.

    >>> brier_score([0.7, 0.5], [1, 0]).round(2).tolist()
    [0.09, 0.25]
    """
    p, y = checked(p, y)
    return np.square(p - y)


def log_score(p: ArrayLike, y: ArrayLike, clip: float = CLIP) -> NDArray[np.float64]:
    r"""Logarithmic score $-\ln p_y$ in nats, p clipped to [clip, 1 - clip]. Lower is better; 0.693 at p = 0.5.

    >>> log_score([0.5, 0.0], [1, 1]).round(3).tolist()
    [0.693, 5.298]
    """
    p, y = checked(p, y)
    clipped = np.clip(p, clip, 1 - clip)
    return -np.log(np.where(np.isnan(y), np.nan, np.where(y == 1, clipped, 1 - clipped)))


def spherical_score(p: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    r"""Spherical score $p_y / \sqrt{p^2 + (1-p)^2}$ in [0, 1]. Higher is better; 0.707 at p = 0.5.

    >>> spherical_score([0.5, 1.0], [1, 1]).round(3).tolist()
    [0.707, 1.0]
    """
    p, y = checked(p, y)
    p_outcome = np.where(np.isnan(y), np.nan, np.where(y == 1, p, 1 - p))
    return p_outcome / np.hypot(p, 1 - p)


def accuracy_score(p: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """1 if the likelier side happened, 0 if it did not, 0.5 at p = 0.5. Higher is better."""
    p, y = checked(p, y)
    return np.where(p == 0.5, 0.5 + 0 * y, np.where(np.isnan(p + y), np.nan, (p > 0.5) == (y == 1)))


EDGE = 1e-6
"""Precision of a bound of a skill."""
LEAST_SKILL = 1e3
"""Skill below which a bound is not looked for: the reference may be 0."""
RULES: dict[str, Callable[[ArrayLike, ArrayLike], NDArray[np.float64]]] = {
    "brier_score": brier_score,
    "accuracy": accuracy_score,
    "log_score": log_score,
    "spherical_score": spherical_score,
}
"""Keys of a sample's score besides the belief, rounded to four decimals. Metrics use the unrounded belief."""


def choice_scores(p: ArrayLike, y: ArrayLike) -> dict[str, float]:
    """The mean scores of a question with choices; `accuracy` is whether the likeliest choice is right.

    >>> choice_scores([0.7, 0.1, 0.2], [1, 0, 0])["brier_score"], choice_scores([0.5, 0.5, 0], [1, 0, 0])["accuracy"]
    (0.0467, 0.5)
    """
    p, y = checked(p, y)
    means = {name: round(float(np.mean(rule(p, y))), 4) for name, rule in RULES.items()}
    return means | {"accuracy": float(np.mean(y[p == p.max()]))}


OTHER: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "brier_score": lambda score: (1 - np.sqrt(score)) ** 2,
    "accuracy": lambda score: 1 - score,
    "log_score": lambda score: -np.log(np.clip(1 - np.exp(-score), CLIP, 1 - CLIP)),
    "spherical_score": lambda score: np.sqrt(np.clip(1 - score**2, 0, 1)),
}
"""What each score of a belief would be if the question had ended otherwise."""


def skill_score(
    score: ArrayLike, reference: ArrayLike, cluster: list[str], others: tuple[ArrayLike, ArrayLike] | None = None
) -> Estimate:
    r"""Skill against a reference, $1-\bar s/\bar r$, with Fieller's interval, clustered as in `mean_estimate`.

    1 is perfect, 0 equals the reference, below 0 is worse. The interval holds each c for which that of the mean of
    $s-(1-c)\,r$ holds 0; it ends at 1, and has no lower end (NaN) where the reference may be 0. `others` are both, if
    the questions had ended otherwise. Fieller (1954). JRSS B 16.
    """
    s, r = np.broadcast_arrays(np.asarray(score, dtype=float), np.asarray(reference, dtype=float))
    kept = np.isfinite(s) & np.isfinite(r)
    if not kept.any() or r[kept].mean() == 0:
        return UNKNOWN
    names = [name for name, keep in zip(cluster, kept, strict=True) if keep]
    s, r = s[kept], r[kept]
    t, u = (s, r) if others is None else (np.asarray(each, dtype=float)[kept] for each in others)
    ratio = s.mean() / r.mean()
    linear = mean_estimate(1 - ratio - (s - ratio * r) / r.mean(), names)
    if not np.isfinite(linear.lower):
        return linear

    def excess(skill: float, side: int) -> float:
        """An end of the interval of the score beyond its part of the reference."""
        more, left = (np.maximum, np.minimum) if side > 0 else (np.minimum, np.maximum)
        one = None if others is None else more(s, t) - (1 - skill) * left(r, u)
        at = mean_estimate(s - (1 - skill) * r, names, None, one, s > t)
        return at.upper if side > 0 else at.lower

    step = max(linear.estimate - linear.lower, EDGE)
    lower = _crossing(lambda skill: excess(skill, 1), linear.estimate, -step, -LEAST_SKILL)
    upper = _crossing(lambda skill: excess(skill, -1), linear.estimate, step, 1.0)
    return replace(linear, lower=lower, upper=1.0 if np.isnan(upper) else upper)


def _crossing(bound: Callable[[float], float], start: float, step: float, last: float) -> float:
    """Where a function changes its sign on the way from a start to the last point. NaN: nowhere."""
    from scipy.optimize import brentq

    near, far = start, start
    while (far - last) * step < 0:
        near, far, step = far, (min if step > 0 else max)(far + step, last), 2 * step
        if bound(far) * step > 0:
            return float(brentq(bound, near, far, xtol=EDGE))
    return np.nan


def clipped_logit(p: NDArray[np.float64], clip: float = CLIP) -> NDArray[np.float64]:
    """Log-odds in nats of probabilities clipped to [clip, 1 - clip]: those of 0 and 1 are infinite."""
    clipped = np.clip(p, clip, 1 - clip)
    return np.log(clipped / (1 - clipped))


def row_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of each row without its NaNs; NaN for a row of nothing but NaN."""
    finite = np.isfinite(values)
    count = finite.sum(axis=1)
    total = np.where(finite, values, 0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def finite_mean(values: NDArray[np.float64]) -> float:
    """Mean of a vector without its NaNs; NaN if nothing is left."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else np.nan


def share_true(flags: ArrayLike) -> float:
    """Share of flags that are true; NaN if there are none."""
    return finite_mean(np.asarray(flags, dtype=float).ravel())
