"""Best-of-n from one pool, against every subset of it."""

from itertools import combinations

import numpy as np
import pytest

from truthgym.scorers.statistics.best_of_n import best_of_n_mean, kl_bound


def by_subsets(proxy: list[float], values: list[float], n: int) -> float:
    """The mean over all subsets of the value of the answer with the highest proxy; of equals, the mean."""
    chosen = []
    for subset in combinations(range(len(proxy)), n):
        top = max(proxy[i] for i in subset)
        chosen.append(np.mean([values[i] for i in subset if proxy[i] == top]))
    return float(np.mean(chosen))


def test_it_is_the_mean_over_all_subsets() -> None:
    rng = np.random.default_rng(0)
    proxy, values = rng.normal(size=7).tolist(), rng.normal(size=7).tolist()
    assert best_of_n_mean(proxy, values, range(1, 8)) == pytest.approx(
        [by_subsets(proxy, values, n) for n in range(1, 8)]
    )


def test_answers_that_tie_share_their_weight() -> None:
    assert best_of_n_mean([1, 1, 2], [0, 1, 5], [1, 2, 3]) == pytest.approx([2, (0.5 + 5 + 5) / 3, 5])
    assert best_of_n_mean([3, 3, 3, 3], [0, 0, 1, 1], [1, 2, 4]) == pytest.approx([0.5, 0.5, 0.5])
    assert np.isnan(best_of_n_mean([1, 2], [1, 2], [3])).all()


def test_the_bound_is_exact_for_a_continuous_choice() -> None:
    # the density of the best of n uniform draws is n u^(n-1); its divergence from the uniform one, by quadrature
    u = (np.arange(200_000) + 0.5) / 200_000
    for n in (2, 8):
        density = n * u ** (n - 1)
        assert kl_bound(n) == pytest.approx(np.mean(density * np.log(density)), abs=1e-4)
