import numpy as np
import pytest

from truthgym.scorers.statistics.multiplicity import p_value
from truthgym.scorers.statistics.regression import clustered_fit, correlate, crossing, mediated, two_stage

QUESTION = np.repeat(np.arange(40), 6)
MODE = np.tile([0, 0, 1, 1, 2, 2], 40)
INSTRUMENTS = np.stack([MODE == 1, MODE == 2], axis=1).astype(float)
ONE = np.ones((240, 1))


def draw(seed: int, strength: float, slope: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """x that modes move, and y that x moves. Something else moves both x and y."""
    rng = np.random.default_rng(seed)
    hidden, question = rng.normal(size=240), rng.normal(size=40)[QUESTION]
    x = strength * (2 * INSTRUMENTS[:, 0] + INSTRUMENTS[:, 1]) + hidden + rng.normal(size=240)
    return x, slope * x - hidden + question + rng.normal(size=240)


def test_a_fit_equals_a_paired_difference_and_widens_with_clusters() -> None:
    rng = np.random.default_rng(0)
    treated = np.tile([0.0, 1.0], 30)
    y = np.repeat(rng.normal(size=30), 2) + 0.3 * treated + rng.normal(0, 0.1, 60)
    pairs = clustered_fit(y, np.stack([np.ones(60), treated], axis=1), np.repeat(np.arange(30), 2).tolist())
    change = y[1::2] - y[::2]
    assert pairs.estimate[1] == pytest.approx(change.mean())
    half = 2.045 * change.std(ddof=1) / np.sqrt(30)  # Student's t with 29 degrees of freedom
    assert (pairs.upper[1] - pairs.lower[1]) / 2 == pytest.approx(half, rel=0.05)
    few = clustered_fit(y[:18], np.stack([np.ones(18), treated[:18]], axis=1), np.repeat(np.arange(9), 2).tolist())
    assert np.isnan(few.lower).all()
    assert np.isfinite(few.estimate).all()


def test_a_column_that_one_cluster_identifies_has_no_interval() -> None:
    rng = np.random.default_rng(0)
    alone = (np.arange(60) < 2).astype(float)
    fit = clustered_fit(
        rng.normal(size=60), np.stack([np.ones(60), alone], axis=1), np.repeat(np.arange(30), 2).tolist()
    )
    assert np.isnan(fit.lower[1])
    assert np.isfinite(fit.lower[0])


def test_two_stages_find_the_effect_that_least_squares_miss() -> None:
    drawn = [draw(seed, 1.5) for seed in range(30)]
    result = [two_stage(y, x, INSTRUMENTS, ONE, QUESTION.tolist()) for x, y in drawn]
    assert min(entry.first_stage for entry in result) > 10
    assert np.mean([entry.slope.estimate for entry in result]) == pytest.approx(0.5, abs=0.05)
    assert np.mean([entry.slope.lower < 0.5 < entry.slope.upper for entry in result]) >= 0.83
    assert np.mean([np.polyfit(x, y, 1)[0] for x, y in drawn]) < 0.4
    assert np.mean([entry.p < 0.05 for entry in result]) > 0.9


def test_weak_instruments_give_no_effect_and_rarely_an_alarm() -> None:
    result = [
        two_stage(y, x, INSTRUMENTS, ONE, QUESTION.tolist()) for x, y in (draw(seed, 0.0, 0.0) for seed in range(30))
    ]
    assert all(np.isnan(entry.slope.estimate) == (not entry.first_stage >= 10) for entry in result)
    assert np.mean([np.isnan(entry.slope.estimate) for entry in result]) > 0.9
    assert np.mean([entry.p < 0.05 for entry in result]) <= 0.13


def test_mediated_parts_have_intervals_that_hold_the_truth() -> None:
    inside, tiny = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        treated, cluster = np.tile([-0.5, 0.5], 36), np.repeat(np.arange(12), 6)
        x = 2 * treated + rng.normal(size=72)
        y = 0.5 * x + 0.3 * treated + rng.normal(size=72)
        parts = mediated(treated, x, y, cluster.tolist())
        inside.append([parts["mediated"].lower < 1.0 < parts["mediated"].upper,
                       parts["direct"].lower < 0.3 < parts["direct"].upper])  # fmt: skip
        tiny.append(p_value(parts["mediated"]))
    assert np.mean(inside, axis=0).min() >= 0.87  # three standard errors below 0.95
    assert min(tiny) < 0.002  # below that of 500 simulated draws
    few = mediated(treated[:54], x[:54], y[:54], cluster[:54].tolist())["mediated"]
    assert np.isnan(few.lower)
    assert np.isfinite(few.estimate)


def test_where_a_line_crosses_a_level_has_an_interval() -> None:
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(60):
        x = rng.uniform(0, 0.4, 40)
        result = crossing(x, 0.15 + 0.5 * x + rng.normal(0, 0.02, 40), range(40), 0.25)
        inside.append(result.lower < 0.2 < result.upper)
    assert np.mean(inside) >= 0.87
    assert 0.0 < result.upper - result.lower < 0.1


RNG = np.random.default_rng(0)


def test_a_partial_correlation_is_of_what_the_control_leaves() -> None:
    control = RNG.normal(size=200)
    x, y = control + RNG.normal(size=200), control + RNG.normal(size=200)
    assert correlate(x, y).p < 0.001
    held = correlate(x, y, controls=control[:, None])
    x_rest, y_rest = (entry - np.polyval(np.polyfit(control, entry, 1), control) for entry in (x, y))
    assert held.plain.estimate == pytest.approx(np.corrcoef(x_rest, y_rest)[0, 1])
    assert held.p > 0.05


def test_the_corrected_one_is_that_of_what_is_measured() -> None:
    truth = RNG.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 2000)
    x, y = (truth + RNG.normal(0, [0.5, 1.0], (2000, 2))).T
    entry = correlate(x, y, errors=(np.full(2000, 0.5), np.full(2000, 1.0)))
    assert entry.reliability == pytest.approx((0.8, 0.5), abs=0.03)
    assert entry.plain.estimate == pytest.approx(0.6 * np.sqrt(0.8 * 0.5), abs=0.04)
    assert entry.corrected.lower < 0.6 < entry.corrected.upper
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
        entry = correlate(x, y, model.tolist(), errors=(np.full(54, 0.5), np.full(54, 0.5)))
        inside.append(entry.plain.lower <= 0.8 * rho <= entry.plain.upper)
        corrected.append(entry.corrected.lower <= rho <= entry.corrected.upper)
    assert np.mean(inside) >= 0.875  # three standard errors below 0.95
    assert np.mean(corrected) >= 0.875


def test_too_few_or_constant_is_nan() -> None:
    few = correlate([1, 2, 3, 5, 4], [1, 2, 3, 4, 5])
    assert few.plain.estimate == pytest.approx(0.9)
    assert np.isnan([few.plain.lower, few.p]).all()
    assert np.isnan(correlate([1.0] * 9, np.arange(9)).plain.estimate)
    assert np.isnan(correlate([], []).plain.estimate)
    with pytest.raises(ValueError, match="broadcast"):
        correlate([1, 2, 3], [1, 2])


@pytest.mark.parametrize("controlled", [False, True])
def test_what_varies_in_one_cluster_alone_has_no_p_value(controlled: bool) -> None:
    rng = np.random.default_rng(0)
    x, cluster = np.zeros(40), [i // 4 for i in range(40)]
    x[:4] = [0.1, 0.2, 0.3, 0.7]
    result = correlate(x, rng.normal(size=40), cluster, rng.normal(size=(40, 1)) if controlled else None)
    assert np.isnan([result.p, result.plain.lower, result.plain.upper]).all()
    assert np.isfinite(result.plain.estimate)
