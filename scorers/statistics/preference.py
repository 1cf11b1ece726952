"""What two answers of a judge about one pair say, and its biases apart from quality."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.interval import UNKNOWN, Estimate
from truthgym.scorers.statistics.regression import linear_effects

STEPS = 30
"""Newton steps of `fit_bradley_terry` at most. Eight are usual."""


def preference_of(forward: float, swapped: float) -> tuple[int, float]:
    """The label of a pair that a judge saw in both orders, and the mean probability that its first reply is better.

    1 or -1 if both answers prefer the pair's first or second reply, else 0 (a tie).

    >>> preference_of(0.75, 0.25), preference_of(0.75, 0.75)
    ((1, 0.75), (0, 0.5))
    """
    sides = np.sign([forward - 0.5, 0.5 - swapped])
    return int(sides[0]) if sides[0] == sides[1] else 0, (forward + 1 - swapped) / 2


def label_biases(
    label: ArrayLike, gold: ArrayLike, longer: ArrayLike, own: ArrayLike, cluster: Sequence[Hashable]
) -> dict[str, Estimate]:
    r"""How far labels go by length and origin, beyond what the quality of the replies explains.

    The coefficients of l and o in the regression

    $$s=\beta_g\,\mathrm{sign}(d)+\beta_r\,\mathrm{sign}(d)\,\mathrm{rank}|d|+\beta_l l+\beta_o o$$

    over the pairs, with the label s, l and o 1 for the first reply, -1 for the second and 0 for neither, and d gold's
    signed difference: a judge that errs is more often right about large differences, and longer replies are often
    better by far. If all differences are of one size, the term with the rank is left out. Where gold is noisy, such as
    a Brier score against one outcome, quality leaks into both. A judge that takes its own reply with probability $\pi$,
    else the longer one with probability $\lambda$, and else the better one with probability a, has $\beta_o=\pi$,
    $\beta_l=(1-\pi)\lambda$ and $\beta_g=(1-\pi)(1-\lambda)(2a-1)$, all times the share of answers that it does not
    give by position.
    """
    s, d, first, second = (np.asarray(values, dtype=float) for values in (label, gold, longer, own))
    used = np.isfinite(s) & np.isfinite(d) & (d != 0)
    names = [name for name, keep in zip(cluster, used, strict=True) if keep]
    if not names:
        return {"length_bias": UNKNOWN, "self_preference": UNKNOWN}
    from scipy.stats import rankdata

    sign, size = np.sign(d[used]), rankdata(np.round(np.abs(d[used]), 12)) / used.sum()
    quality = [sign, sign * size] if np.ptp(size) else [sign]
    length, origin = linear_effects(s[used], [*quality, first[used], second[used]], names)[-2:]
    return {"length_bias": length, "self_preference": origin}


def fit_bradley_terry(differences: ArrayLike, penalty: float = 1.0) -> NDArray[np.float64]:
    r"""Weights of a reward that is linear in features, from pairs with a winner.

    `differences` are pairs x features, winner minus loser:

    $$\hat w=\arg\max_w\sum_i\log\sigma(w^\top(x_i^+-x_i^-))-\tfrac{\lambda}{2}\lVert w\rVert^2$$

    Without the ridge `penalty` separable pairs have no solution. Bradley and Terry (1952). Biometrika 39.
    """
    x = np.asarray(differences, dtype=float)
    weights = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -500, 500)))
        gradient = x.T @ (1 - p) - penalty * weights
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + penalty * np.eye(len(weights)), gradient)
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return weights
