"""Proper scores of a stated probability: pure functions of arrays."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.calibration import (
    checked,
)
from truthgym.scorers.statistics.interval import Headline, mean_headline

CLIP = 0.005
"""Half a percentage point: as far as a belief stated in integer percent can be trusted near 0 and 1."""


def brier_score(p: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    r"""Brier score $(p-y)^2$ in [0, 1]. Lower is better; 0.25 at p = 0.5.

    This is the binary form; the sum over both classes is twice as large.

    Args:
        p: Probability of "yes" in [0, 1]. NaN gives NaN.
        y: Outcome, 0 or 1. NaN gives NaN.

    Raises:
        ValueError: Shapes differ, p outside [0, 1], or y other than 0 and 1.

    >>> brier_score([0.7, 0.5], [1, 0]).round(2).tolist()
    [0.09, 0.25]
    """
    p, y = checked(p, y)
    return np.square(p - y)


def log_score(p: ArrayLike, y: ArrayLike, clip: float = CLIP) -> NDArray[np.float64]:
    r"""Logarithmic score $-\ln p_y$ in nats, p held in [clip, 1 - clip]. Lower is better; 0.693 at p = 0.5.

    Args, errors: as `brier_score`. Without the clip one certain error would be infinite.

    >>> log_score([0.5, 0.0], [1, 1]).round(3).tolist()
    [0.693, 5.298]
    """
    p, y = checked(p, y)
    held = np.clip(p, clip, 1 - clip)
    return -np.log(np.where(np.isnan(y), np.nan, np.where(y == 1, held, 1 - held)))


def spherical_score(p: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    r"""Spherical score $p_y / \sqrt{p^2 + (1-p)^2}$ in [0, 1]. Higher is better; 0.707 at p = 0.5.

    Args, errors: as `brier_score`.

    >>> spherical_score([0.5, 1.0], [1, 1]).round(3).tolist()
    [0.707, 1.0]
    """
    p, y = checked(p, y)
    chosen = np.where(np.isnan(y), np.nan, np.where(y == 1, p, 1 - p))
    return chosen / np.hypot(p, 1 - p)


def accuracy_score(p: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """1 where the likelier side happened, 0 where not, 0.5 at p = 0.5. Higher is better.

    Args, errors: as `brier_score`.
    """
    p, y = checked(p, y)
    return np.where(p == 0.5, 0.5 + 0 * y, np.where(np.isnan(p + y), np.nan, (p > 0.5) == (y == 1)))


RULES: dict[str, Callable[[ArrayLike, ArrayLike], NDArray[np.float64]]] = {
    "brier_score": brier_score,
    "accuracy": accuracy_score,
    "log_score": log_score,
    "spherical_score": spherical_score,
}
"""What a sample's score shows besides the belief, to four decimals. Metrics are computed from the belief itself."""


def skill_score(score: ArrayLike, reference: ArrayLike, cluster: list[str]) -> Headline:
    r"""Skill against a reference, $1-\bar s/\bar r$, with a delta-method interval clustered as in `mean_headline`.

    1 is perfect, 0 as good as the reference, below 0 worse. Pairs with NaN are left out.

    Args:
        score: Negatively oriented scores, one a question.
        reference: The reference's scores on the same questions.
        cluster: For each question the name of its cluster.
    """
    s, r = np.broadcast_arrays(np.asarray(score, dtype=float), np.asarray(reference, dtype=float))
    kept = np.isfinite(s) & np.isfinite(r)
    if not kept.any() or r[kept].mean() == 0:
        return Headline(np.nan, np.nan, np.nan, np.nan, 0)
    ratio = s[kept].mean() / r[kept].mean()
    linear = 1 - ratio - (s - ratio * r) / r[kept].mean()
    return mean_headline(np.where(kept, linear, np.nan), cluster)


def row_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of each row over what is not NaN; NaN for a row with nothing else."""
    held = np.isfinite(values)
    count = held.sum(axis=1)
    total = np.where(held, values, 0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
