"""Slopes of changes on levels: against statsmodels, against plain loops, and what must leave them as they are."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from truthgym.scorers.statistics.instrumented_slope import (
    Codes,
    Floats,
    Slope,
    cross_epoch_slope,
    first_stage,
    ols_slope,
    r_squared,
    reliability,
    within,
)
from truthgym.scorers.statistics.interval import cluster_codes

Data = tuple[Floats, Floats, Floats, Codes, Codes]
N, EPOCHS, STEPS = 40, 3, 2


def draw(seed: int = 0, missing: float = 0.0, steps: int = STEPS) -> Data:
    """Change, level, instrument, cluster and group of a small messy run."""
    rng = np.random.default_rng(seed)
    cluster, group = cluster_codes(rng.integers(0, 15, N).tolist()), cluster_codes(rng.integers(0, 3, N).tolist())
    belief = rng.normal(0, 1, (N, 1, 1)) + 0.5 * group[:, None, None]
    level = belief + rng.normal(0, 0.5, (N, EPOCHS, steps))
    change = 0.2 * belief + group[:, None, None] + rng.normal(0, 1, (N, EPOCHS, steps))
    instrument = belief[:, :, 0] + rng.normal(0, 0.5, (N, EPOCHS))
    for values in (change, level, instrument):
        values[rng.random(values.shape) < missing] = np.nan
    return change, level, instrument, cluster, group


def by_loops(change: Floats, level: Floats, instrument: Floats, cluster: Codes, group: Codes) -> Slope:
    """The formula of `cross_epoch_slope` again, one number at a time."""
    products, squares, weight = (dict.fromkeys(range(len(level)), 0.0) for _ in range(3))
    entered = set()
    for i, j in permutations(range(level.shape[1]), 2):
        for s in range(level.shape[2]):
            there = np.isfinite(change[:, i, s] + level[:, i, s] + instrument[:, j])
            rows = np.flatnonzero(there).tolist()
            for q in rows:
                alike = [other for other in rows if group[other] == group[q]]
                if len(alike) == 1:
                    continue
                z = instrument[q, j] - np.mean([instrument[other, j] for other in alike])
                d = change[q, i, s] - np.mean([change[other, i, s] for other in alike])
                x = level[q, i, s] - np.mean([level[other, i, s] for other in alike])
                products[q] += z * d
                squares[q] += z * x
                weight[q] += z
                entered.add(q)
    slope = sum(products.values()) / sum(squares.values())
    names = sorted({cluster[q] for q in entered})
    groups = sorted({group[q] for q in entered})
    weights: dict[Any, list[list[float]]] = {name: [[] for _ in groups] for name in names}
    for q in entered:
        weights[cluster[q]][groups.index(group[q])].append(weight[q])
    c = np.array([sum(w**2 for each in weights[name] for w in each) for name in names])
    b = np.array([[sum(each) for each in weights[name]] for name in names])
    sizes = np.array([sum(group[q] == name for q in entered) for name in groups])
    adjust = 1 / np.sqrt(1 - (b**2 / sizes).sum(axis=1) / c)
    m = adjust[:, None] * (np.diag(c) - (b / sizes) @ b.T) * adjust
    degrees = np.trace(m) ** 2 / np.trace(m @ m)

    def sums(of: float) -> Floats:
        return np.array([sum(products[q] - of * squares[q] for q in entered if cluster[q] == name) for name in names])

    def t_statistic(of: float) -> float:
        return float(sums(of).sum() / (np.std(adjust * sums(of)) * np.sqrt(len(names))))

    error = np.sqrt(np.sum((adjust * sums(slope)) ** 2)) / abs(sum(squares.values()))
    reach, power = (float(stats.t.ppf(at, degrees)) for at in (0.975, 0.8))
    sign = np.sign(sum(squares.values()))
    far = slope + 1e6 * error * np.array([-1, 1])
    bounds = [np.nan, np.nan]
    if sign * t_statistic(far[0]) > reach and sign * t_statistic(far[1]) < -reach:
        for side, t in enumerate((reach, -reach)):
            bounds[side] = optimize.brentq(lambda of, t=t: sign * t_statistic(of) - t, far[0], far[1], xtol=1e-14)
    p = 2 * stats.t.sf(abs(t_statistic(0)), degrees)
    low, high, error, p, mde = [*bounds, error, p, (reach + power) * error] if degrees >= 2 else [np.nan] * 5
    return Slope(slope, low, high, mde, len(entered), error, len(names), degrees + 1, p)


def figures(slope: Slope) -> dict[str, float]:
    """All but the influence of each cluster."""
    return {name: value for name, value in vars(slope).items() if name != "influence"}


def same(first: Slope, second: Slope, rel: float = 1e-9) -> None:
    assert figures(first) == pytest.approx(figures(second), rel=rel, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("grouped", [False, True])
def test_least_squares_equals_statsmodels(missing: float, grouped: bool) -> None:
    import statsmodels.api as sm

    change, level, _, cluster, group = draw(1, missing)
    group = group if grouped else np.zeros_like(group)
    result = ols_slope(change, level, cluster, group)
    kept = np.isfinite(change + level)
    row = np.broadcast_to(np.arange(N)[:, None, None], level.shape)[kept]
    intercepts = (group[row][:, None] == np.unique(group)).astype(float)
    fit = sm.OLS(change[kept], np.column_stack([level[kept], intercepts])).fit()
    assert result.estimate == pytest.approx(fit.params[0], rel=1e-9)
    assert (result.n, result.clusters) == (len(np.unique(row)), len(np.unique(cluster[row])))
    without = sm.OLS(change[kept], intercepts).fit()
    assert r_squared(change, level, group) == pytest.approx(1 - fit.ssr / without.ssr, rel=1e-9), "within the groups"


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("steps", [1, 2])
def test_the_cross_epoch_slope_equals_its_formula(missing: float, steps: int) -> None:
    data = draw(3, missing, steps)
    same(result := cross_epoch_slope(*data), by_loops(*data))
    if result.influence.size:
        assert np.sqrt(np.sum(result.influence**2)) == pytest.approx(result.stderr)
    change, level, instrument, cluster, group = data
    pooled = (change, level, instrument, cluster, np.zeros_like(group))
    same(cross_epoch_slope(*pooled), by_loops(*pooled))
    small = (*data[:4], cluster_codes(np.random.default_rng(0).integers(0, 20, N).tolist()))
    if missing < 0.5:
        same(cross_epoch_slope(*small), by_loops(*small))
        assert 15 < cross_epoch_slope(*small).n < N, "some are alone in their group"


def test_shifts_of_groups_do_not_matter() -> None:
    change, level, instrument, cluster, group = draw(10, 0.2)
    shift = np.array([0.0, 5.0, -9.0])[group]
    moved = (change - shift[:, None, None], level + shift[:, None, None], instrument + shift[:, None])
    same(cross_epoch_slope(*moved, cluster, group), cross_epoch_slope(change, level, instrument, cluster, group), 1e-6)
    pooled = cross_epoch_slope(*moved, cluster, np.zeros_like(group))
    assert pooled.estimate < -0.5, "without, the groups' differences are the slope"


def test_every_question_in_a_group_of_its_own_leaves_no_slope() -> None:
    change, level, instrument, cluster, _ = draw(24)
    result = cross_epoch_slope(change, level, instrument, cluster, np.arange(N))
    assert (result.n, result.clusters, result.effective_clusters) == (0, 0, 0)
    assert np.isnan([result.estimate, result.lower, result.upper, result.stderr, result.p, result.mde]).all()
    pooled = ols_slope(change, level, cluster, np.arange(N))
    assert (pooled.n, pooled.clusters) == (N, 15)
    assert np.isfinite(pooled.estimate), "of how attempts at one question differ"


def test_groups_of_two_equal_a_regression_of_differences() -> None:
    import statsmodels.api as sm

    change, level, _, _, _ = draw(25)
    d, x = change[:, :1, :1], level[:, :1, :1]
    result = ols_slope(d, x, np.arange(N), np.arange(N) // 2)
    fit = sm.OLS(d[::2, 0, 0] - d[1::2, 0, 0], x[::2, 0, 0] - x[1::2, 0, 0]).fit(cov_type="HC0")
    assert (result.estimate, result.stderr) == pytest.approx((fit.params[0], fit.bse[0]), rel=1e-9)
    assert (result.n, result.clusters) == (N, N)
    assert result.effective_clusters - 1 <= N / 2, "a pair is one observation"


@pytest.mark.parametrize(
    "change_of_data",
    [
        lambda level: level[:, :1],
        lambda level: np.full_like(level, np.nan),
        lambda level: np.full_like(level, 0.3),
        lambda level: np.full_like(level, 0.3) + 1e-16 * np.arange(N)[:, None, None],
        lambda level: level[:0],
    ],
)
def test_nothing_to_go_by_is_nan_and_no_error(change_of_data: Callable[[Floats], Floats]) -> None:
    change, level, _, cluster, group = draw(14, steps=1)
    level = change_of_data(level)
    change, cluster, group = change[: len(level), : level.shape[1]], cluster[: len(level)], group[: len(level)]
    result = cross_epoch_slope(change, level, level[:, :, 0], cluster, group)
    assert np.isnan([result.estimate, result.lower, result.upper, result.stderr, result.p, result.mde]).all()
    assert np.isnan(reliability(level, level[:, :, 0], group))
    assert np.isnan(first_stage(level, level[:, :, 0], cluster, group))
    if level.size and np.ptp(level) < 0.01:
        assert np.isnan(ols_slope(change, level, cluster, group).estimate)
        assert np.isnan(r_squared(change, level, group))


def test_a_reader_that_never_moves_has_slope_zero_for_certain() -> None:
    _, level, instrument, cluster, group = draw(16)
    result = cross_epoch_slope(np.zeros_like(level), level, instrument, cluster, group)
    assert (result.estimate, result.lower, result.upper, result.stderr, result.p, result.mde) == (0, 0, 0, 0, 1, 0)


def test_reliability_is_the_correlation_between_epochs() -> None:
    _, level, instrument, _, group = draw(18, steps=1)
    one_group = np.zeros_like(group)
    x = level[:, :2, 0]
    covariance = np.cov(x.T)
    assert reliability(x[:, :, None], x, one_group) == pytest.approx(covariance[0, 1] / covariance.diagonal().mean())
    across = [np.cov(level[:, i, 0], instrument[:, j]) for i, j in permutations(range(EPOCHS), 2)]
    size = np.sqrt(np.mean([c[0, 0] for c in across]) * np.mean([c[1, 1] for c in across]))
    assert reliability(level, instrument, one_group) == pytest.approx(np.mean([c[0, 1] for c in across]) / size)
    rng = np.random.default_rng(0)
    noisy = rng.normal(0, 2, (20000, 1)) + rng.normal(0, 1, (20000, 3))
    assert reliability(noisy[:, :, None], noisy, np.zeros(20000, dtype=np.intp)) == pytest.approx(0.8, abs=0.01)
    still = np.repeat(x[:, :1], 3, axis=1)
    assert reliability(still[:, :, None], still, one_group) == pytest.approx(1, abs=1e-12)
    assert reliability(-still[:, :, None], still, one_group) == pytest.approx(-1, abs=1e-12)


def test_the_first_stage_equals_the_f_statistic_of_statsmodels() -> None:
    import statsmodels.api as sm

    level, cluster, one_group = draw(20, steps=1)[1], np.arange(N), np.zeros(N, dtype=np.intp)
    level, instrument = level[:, :2], draw(20, steps=1)[2][:, :2]
    level[:, 1] = instrument[:, 0] = np.nan  # one pair of epochs
    fit = sm.OLS(level[:, 0, 0], sm.add_constant(instrument[:, 1])).fit(cov_type="HC0")
    t = fit.params[1] / fit.bse[1] * np.sqrt((N - 1) / N)  # CR2 corrects each question for the intercept
    degrees = cross_epoch_slope(level, level, instrument, cluster, one_group).effective_clusters - 1
    result = first_stage(level, instrument, cluster, one_group)
    assert stats.norm.sf(np.sqrt(result)) == pytest.approx(stats.t.sf(t, degrees))
    assert 10 < result < t**2


def test_variance_and_covariance_within_a_question() -> None:
    first = np.array([[0.1, 0.4, 0.7], [0.2, np.nan, 0.6], [0.5, 0.5, np.nan], [np.nan, np.nan, 0.1]])
    second = np.array([[0.2, 0.1, 0.6], [0.1, 0.9, 0.3], [0.4, np.nan, 0.8], [0.2, 0.3, 0.1]])
    variance, covariance = within(first, second)
    assert variance[:2] == pytest.approx([0.09, 0.08])
    assert covariance[:2] == pytest.approx([np.cov(first[0], second[0])[0, 1], 0.2 * 0.1 * 2])
    assert np.isnan(variance[2:]).all(), "fewer than two epochs hold both"
    assert np.isnan(covariance[2:]).all()
