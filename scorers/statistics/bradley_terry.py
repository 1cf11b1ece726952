"""Bradley and Terry's model of preferences, linear in stated features of the two sides."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

STEPS = 30
"""Newton steps at most. Eight are usual."""


def fit_bradley_terry(differences: ArrayLike, penalty: float = 1.0) -> NDArray[np.float64]:
    r"""Weights of the features from pairs with a winner.

    $$\hat w=\arg\max_w\sum_i\log\sigma(w^\top(x_i^+-x_i^-))-\tfrac{\lambda}{2}\lVert w\rVert^2$$

    There is no constant: with the sides swapped, the probability is the complement.

    Args:
        differences: Pairs x features: those of the winner minus those of the loser. Scale them alike beforehand.
        penalty: The ridge penalty $\lambda$, above 0, without which separable pairs have no solution.

    Returns:
        The weights. `differences @ weights` are log-odds of the winner, that is, signed margins of reward.

    Raises:
        ValueError: There is no pair, or the penalty is not above 0.

    References:
        Bradley and Terry (1952). Rank analysis of incomplete block designs. Biometrika 39.
    """
    x = np.asarray(differences, dtype=float)
    if x.ndim != 2 or not len(x) or penalty <= 0:
        raise ValueError(f"fit_bradley_terry: {x.shape} differences and penalty {penalty}; give pairs, and one above 0")
    weights = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -500, 500)))
        gradient = x.T @ (1 - p) - penalty * weights
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + penalty * np.eye(len(weights)), gradient)
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return weights
