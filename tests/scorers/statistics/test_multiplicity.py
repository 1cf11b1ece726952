import numpy as np
import pytest
from scipy import stats

from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.multiplicity import holm, p_value, rank_ranges


def test_a_p_value_is_that_of_a_t_test() -> None:
    values = np.random.default_rng(0).normal(0.2, 1, 30)
    assert p_value(mean_estimate(values)) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert p_value(mean_estimate(values), 0.5) == pytest.approx(stats.ttest_1samp(values, 0.5).pvalue)
    assert p_value(mean_estimate([0.1] * 12)) < 1e-99
    assert np.isnan(p_value(mean_estimate([0.1, 0.2])))


def test_holm_multiplies_the_smallest_by_their_number() -> None:
    assert holm([0.01, np.nan, 0.04, 0.03]) == pytest.approx([0.03, np.nan, 0.06, 0.06], nan_ok=True)
    assert np.isnan(holm([np.nan])).all()


def test_ranks_that_no_test_tells_apart_are_shared() -> None:
    assert rank_ranges(["a", "b", "c"], []) == dict.fromkeys("abc", (1, 3))
    assert rank_ranges(["a", "b", "c"], [("a", "b"), ("a", "c"), ("b", "c")]) == {"a": (1, 1), "b": (2, 2), "c": (3, 3)}
