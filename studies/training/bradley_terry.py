"""A reward that is linear in features, from pairs of which one won."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

STEPS = 30
"""Newton steps at most. Eight are usual."""


def fit_bradley_terry(differences: ArrayLike, penalty: float = 1.0) -> NDArray[np.float64]:
    r"""Weights of the features from pairs with a winner (differences: pairs x features, winner minus loser).

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
