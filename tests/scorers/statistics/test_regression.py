import numpy as np
import pytest

from truthgym.scorers.statistics.multiplicity import p_value
from truthgym.scorers.statistics.regression import clustered_fit, crossing, mediated, two_stage

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
    found = [two_stage(y, x, INSTRUMENTS, ONE, QUESTION.tolist()) for x, y in (draw(seed, 1.5) for seed in range(30))]
    assert min(one.first_stage for one in found) > 10
    assert np.mean([one.slope.estimate for one in found]) == pytest.approx(0.5, abs=0.05)
    assert np.mean([one.slope.lower < 0.5 < one.slope.upper for one in found]) >= 0.83
    assert np.mean([one.least_squares for one in found]) < 0.4
    assert np.mean([one.p < 0.05 for one in found]) > 0.9


def test_weak_instruments_give_no_effect_and_rarely_an_alarm() -> None:
    found = [
        two_stage(y, x, INSTRUMENTS, ONE, QUESTION.tolist()) for x, y in (draw(seed, 0.0, 0.0) for seed in range(30))
    ]
    assert all(np.isnan(one.slope.estimate) == (not one.first_stage >= 10) for one in found)
    assert np.mean([np.isnan(one.slope.estimate) for one in found]) > 0.9
    assert np.mean([one.p < 0.05 for one in found]) <= 0.13


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
        found = crossing(x, 0.15 + 0.5 * x + rng.normal(0, 0.02, 40), range(40), 0.25)
        inside.append(found.lower < 0.2 < found.upper)
    assert np.mean(inside) >= 0.87
    assert 0.0 < found.upper - found.lower < 0.1
