"""What best-of-n would have chosen, for every n at once, from one pool of answers to each question."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def best_of_n_mean(proxy: ArrayLike, values: ArrayLike, sizes: Sequence[int]) -> NDArray[np.float64]:
    r"""Expected value of the answer that the proxy puts first among n, without sampling again; NaN beyond the pool.

    With the N answers of a pool sorted by the proxy, the i-th smallest is the best of a random n of them in
    $\binom{i-1}{n-1}$ of $\binom{N}{n}$ cases. Answers that tie share their weight. Nakano et al. (2021),
    arXiv:2112.09332, appendix I.

    >>> best_of_n_mean([1.0, 2.0, 3.0], [0.0, 1.0, 0.0], [1, 2, 3]).round(3).tolist()
    [0.333, 0.333, 0.0]
    """
    order, ranks = np.unique(np.asarray(proxy, dtype=float), return_inverse=True)
    answers = np.asarray(values, dtype=float)
    tied = np.bincount(ranks, minlength=order.size)
    mean = np.bincount(ranks, weights=answers, minlength=order.size) / np.maximum(tied, 1)
    below = np.cumsum(tied)
    total = answers.size

    def none_above(n: int) -> NDArray[np.float64]:
        """Probability that n draws without replacement are all among the `below` lowest."""
        steps = np.arange(n)
        shares: NDArray[np.float64] = np.prod(np.maximum(below[:, None] - steps, 0) / (total - steps), axis=1)
        return shares

    means = [np.nan if n > total else float(np.diff(none_above(n), prepend=0.0) @ mean) for n in sizes]
    return np.array(means)


def kl_bound(n: ArrayLike) -> NDArray[np.float64]:
    r"""$\log n-(n-1)/n$ nats: an upper bound on the divergence of best-of-n from the model that it samples.

    It is exact where no two answers tie and each is unlikely; else the true one is smaller. Beirami et al. (2024),
    arXiv:2401.01879.

    >>> kl_bound([1, 4]).round(4).tolist()
    [0.0, 0.6363]
    """
    sizes = np.asarray(n, dtype=float)
    bound: NDArray[np.float64] = np.log(sizes) - (sizes - 1) / sizes
    return bound
