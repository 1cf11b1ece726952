import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.multiplicity import holm, p_value, rank_ranges, simultaneous


def test_a_p_value_is_that_of_a_t_test() -> None:
    values = np.random.default_rng(0).normal(0.2, 1, 30)
    assert p_value(mean_estimate(values)) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert p_value(mean_estimate(values), 0.5) == pytest.approx(stats.ttest_1samp(values, 0.5).pvalue)
    assert p_value(mean_estimate([0.1] * 12)) < 1e-99
    assert np.isnan(p_value(mean_estimate([0.1, 0.2])))


def test_the_p_value_of_equal_values_is_that_of_their_interval() -> None:
    equal = mean_estimate([0.3] * 12, None, (-1, 1))
    # From mean 0 a value of 0.3 has a chance of at most 1 / 1.3 in [-1, 1], by Markov.
    assert p_value(equal) == pytest.approx(2 * (1 / 1.3) ** 12)
    assert p_value(equal, equal.lower) == pytest.approx(0.05)
    assert p_value(mean_estimate([0.0] * 12, None, (-1, 1))) == 1


@pytest.mark.parametrize("values", [np.random.default_rng(1).normal(0.2, 0.3, 15), [0.3] * 15])
def test_simultaneous_intervals_are_bonferronis(values: list[float]) -> None:
    mean = mean_estimate(values, None, (-2, 2))
    wide = simultaneous(mean, 10, 2)
    assert p_value(mean, wide.lower) == pytest.approx(0.05 / 10)
    if mean.stderr:
        ends = stats.t.interval(1 - 0.05 / 10, 14, np.mean(values), stats.sem(values))
        assert (wide.lower, wide.upper) == pytest.approx(ends)
    assert simultaneous(mean, 1, 2) == mean
    assert simultaneous(mean, 10, mean.upper).upper == mean.upper < wide.upper
    assert np.isnan(simultaneous(mean_estimate([0.1, 0.2]), 10).lower)


def test_holm_multiplies_the_smallest_by_their_number() -> None:
    assert holm([0.01, np.nan, 0.04, 0.03]) == pytest.approx([0.03, np.nan, 0.06, 0.06], nan_ok=True)
    p = np.random.default_rng(2).random(20) ** 3
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert np.isnan(holm([np.nan])).all()


def test_ranks_that_no_test_tells_apart_are_shared() -> None:
    assert rank_ranges(["a", "b", "c"], []) == dict.fromkeys("abc", (1, 3))
    assert rank_ranges(["a", "b", "c"], [("a", "b"), ("a", "c"), ("b", "c")]) == {"a": (1, 1), "b": (2, 2), "c": (3, 3)}
