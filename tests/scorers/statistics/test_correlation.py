import numpy as np
import pytest
from scipy import stats

from truthgym.scorers.statistics.correlation import correlate

RNG = np.random.default_rng(0)


def test_it_is_pearsons_with_a_t_interval_of_fishers_z() -> None:
    x, y = RNG.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 40).T
    found = correlate(x, y).plain
    expected = stats.pearsonr(x, y)
    assert found.estimate == pytest.approx(expected.statistic)
    assert (found.lower, found.upper) == pytest.approx(tuple(expected.confidence_interval()), abs=0.1)


def test_a_partial_correlation_is_of_what_the_control_leaves() -> None:
    control = RNG.normal(size=200)
    x, y = control + RNG.normal(size=200), control + RNG.normal(size=200)
    assert correlate(x, y).p < 0.001
    held = correlate(x, y, controls=control[:, None])
    x_rest, y_rest = (one - np.polyval(np.polyfit(control, one, 1), control) for one in (x, y))
    assert held.plain.estimate == pytest.approx(np.corrcoef(x_rest, y_rest)[0, 1])
    assert held.p > 0.05


def test_the_corrected_one_is_that_of_what_is_measured() -> None:
    truth = RNG.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 2000)
    x, y = (truth + RNG.normal(0, [0.5, 1.0], (2000, 2))).T
    one = correlate(x, y, errors=(np.full(2000, 0.5), np.full(2000, 1.0)))
    assert one.reliability == pytest.approx((0.8, 0.5), abs=0.03)
    assert one.plain.estimate == pytest.approx(0.6 * np.sqrt(0.8 * 0.5), abs=0.04)
    assert one.corrected.lower < 0.6 < one.corrected.upper
    unreliable = correlate(x[:40], y[:40], errors=(np.full(40, 0.5), np.full(40, 1.3)))
    assert np.isnan(unreliable.corrected.estimate)
    assert np.isfinite(unreliable.plain.estimate)


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_intervals_over_clusters_hold_the_truth(rho: float) -> None:
    """Of 54 setups of 9 models, with a reliability of 0.8."""
    inside, corrected = [], []
    model = np.arange(54) % 9
    for _ in range(80):
        shared, own = (RNG.multivariate_normal([0, 0], [[1, rho], [rho, 1]], k) for k in (9, 54))
        x, y = (0.6 * shared[model] + 0.8 * own + RNG.normal(0, 0.5, (54, 2))).T
        one = correlate(x, y, model.tolist(), errors=(np.full(54, 0.5), np.full(54, 0.5)))
        inside.append(one.plain.lower <= 0.8 * rho <= one.plain.upper)
        corrected.append(one.corrected.lower <= rho <= one.corrected.upper)
    assert np.mean(inside) >= 0.875  # three standard errors below 0.95
    assert np.mean(corrected) >= 0.875


def test_too_few_or_constant_is_nan() -> None:
    few = correlate([1, 2, 3, 5, 4], [1, 2, 3, 4, 5])
    assert few.plain.estimate == pytest.approx(0.9)
    assert np.isnan([few.plain.lower, few.p]).all()
    assert np.isnan(correlate([1.0] * 9, np.arange(9)).plain.estimate)
    assert np.isnan(correlate([], []).plain.estimate)
    with pytest.raises(ValueError, match="3 values of x and 2 of y"):
        correlate([1, 2, 3], [1, 2])


@pytest.mark.parametrize("controlled", [False, True])
def test_what_varies_in_one_cluster_alone_has_no_p_value(controlled: bool) -> None:
    rng = np.random.default_rng(0)
    x, cluster = np.zeros(40), [i // 4 for i in range(40)]
    x[:4] = [0.1, 0.2, 0.3, 0.7]
    found = correlate(x, rng.normal(size=40), cluster, rng.normal(size=(40, 1)) if controlled else None)
    assert np.isnan([found.p, found.plain.lower, found.plain.upper]).all()
    assert np.isfinite(found.plain.estimate)
