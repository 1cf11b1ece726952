"""Movement and what it was worth: exact against enumeration, and on readers whose look-ahead is planted."""

from itertools import product

import numpy as np
import pytest

from truthgym.scorers.statistics.belief_movement import brier_gain, corrected_posterior, leak, movement
from truthgym.scorers.statistics.instrumented_slope import Codes, Floats, cross_epoch_slope, first_stage
from truthgym.scorers.statistics.martingale_score import martingale_score


def even(rng: np.random.Generator, deviation: float, *shape: int) -> Floats:
    drawn: Floats = rng.uniform(-1, 1, shape) * deviation * np.sqrt(3)
    return drawn


def one_group(n: int) -> Codes:
    return np.zeros(n, dtype=np.intp)


def bayesian(
    seed: int, n: int, epochs: int, noise: tuple[float, float], shared: float, news: float = 0.1
) -> tuple[Floats, Floats]:
    """A reader whose belief moves by news of mean 0, and reports of it with errors of two sizes that share a part."""
    rng = np.random.default_rng(seed)
    belief = rng.uniform(0.35, 0.65, (n, 1))
    first = even(rng, 1, n, epochs)
    second = shared * first + np.sqrt(1 - shared**2) * even(rng, 1, n, epochs)
    return belief + noise[0] * first, belief + even(rng, news, n, epochs) + noise[1] * second


def worlds(news: tuple[float, ...], errors: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    """Every way in which two epochs of one question can go, all equally likely: one row each."""
    attempts = [(0.4 + first, 0.4 + moved + second) for moved in news for first, second in errors]
    both = np.array(list(product(attempts, repeat=2)))
    return both[:, :, 0], both[:, :, 1]


NEWS = (-0.2, 0.05, 0.15)
ERRORS = {
    "no errors": [(0.0, 0.0)],
    "independent": [(-0.1, -0.05), (-0.1, 0.05), (0.1, -0.05), (0.1, 0.05)],
    "the same": [(-0.1, -0.1), (0.1, 0.1)],
    "shared in part": [(-0.1, -0.15), (-0.1, 0.05), (0.1, -0.05), (0.1, 0.15)],
    "opposed": [(-0.1, 0.05), (0.1, -0.05)],
}


@pytest.mark.parametrize("errors", ERRORS)
def test_excess_movement_of_a_bayesian_is_exactly_zero(errors: str) -> None:
    prior, posterior = worlds(NEWS, ERRORS[errors])
    assert movement(prior, posterior).excess.mean() == pytest.approx(0, abs=1e-12)
    raw = (posterior - prior) ** 2 - prior * (1 - prior) + posterior * (1 - posterior)
    # E[raw] = 2 (variance of the prior's error - its covariance with the posterior's)
    first, second = np.array(ERRORS[errors]).T
    assert raw.mean() == pytest.approx(2 * (np.mean(first**2) - np.mean(first * second)), abs=1e-12)


@pytest.mark.parametrize("epochs", [2, 3])
@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("noise", [(0.0, 0.0), (0.05, 0.05), (0.08, 0.02), (0.02, 0.08)])
def test_excess_movement_of_a_bayesian_is_zero_in_the_mean(
    epochs: int, shared: float, noise: tuple[float, float]
) -> None:
    prior, posterior = bayesian(1, 20000, epochs, noise, shared)
    excess = movement(prior, posterior).excess
    error = excess.std() / np.sqrt(len(excess))
    assert abs(excess.mean()) < 3.5 * error
    raw = (posterior - prior) ** 2 - prior * (1 - prior) + posterior * (1 - posterior)
    if noise[0] > shared * noise[1] + 0.02:
        assert raw.mean() > 10 * error, "without the correction it is not"


def test_movement_without_noise_is_the_squared_update() -> None:
    prior = np.array([[0.4, 0.4], [0.5, 0.5]])
    posterior = np.array([[0.6, 0.3], [0.5, 0.9]])
    found = movement(prior, posterior)
    assert found.movement == pytest.approx([(0.04 + 0.01) / 2, 0.08])
    assert found.reduction == pytest.approx([(0.24 - 0.24 + 0.24 - 0.21) / 2, (0.25 - 0.09) / 2])
    assert found.excess == pytest.approx(found.movement - found.reduction)


def test_movement_needs_two_epochs() -> None:
    prior = np.array([[0.4, 0.5, np.nan], [0.4, np.nan, 0.5], [0.4, np.nan, np.nan], [np.nan] * 3])
    posterior = np.array([[0.6, 0.5, 0.9], [np.nan, 0.2, 0.9], [0.5, 0.5, 0.5], [0.1, 0.2, 0.3]])
    found = movement(prior, posterior)
    for values in (found.movement, found.reduction, found.excess):
        assert np.isfinite(values).tolist() == [True, False, False, False]
    alone = movement(prior[:1, :2], posterior[:1, :2])
    assert found.excess[0] == pytest.approx(alone.excess[0]), "an epoch without both beliefs does not count"
    assert np.isnan(movement(prior[:, :1], posterior[:, :1]).excess).all()
    for shape in ((0, 0), (0, 3), (3, 0)):
        assert movement(np.zeros(shape), np.zeros(shape)).excess.shape == (shape[0],)


def test_turning_the_proposition_round_changes_no_companion() -> None:
    prior, posterior = bayesian(3, 50, 3, (0.05, 0.05), 0.5)
    outcome = (np.arange(50) % 2).astype(float)
    one, other = movement(prior, posterior), movement(1 - prior, 1 - posterior)
    for name, values in vars(one).items():
        assert vars(other)[name] == pytest.approx(values)
    assert brier_gain(1 - prior, 1 - posterior, 1 - outcome) == pytest.approx(brier_gain(prior, posterior, outcome))


def test_brier_gain_known_values() -> None:
    prior = np.array([[0.5, 0.5], [0.5, 0.4], [0.2, np.nan], [0.2, 0.3], [np.nan, np.nan]])
    posterior = np.array([[0.9, 0.7], [0.5, 0.4], [0.4, 0.9], [0.1, 0.1], [0.1, 0.1]])
    found = brier_gain(prior, posterior, np.array([1.0, 0.0, 1.0, np.nan, 1.0]))
    assert found[:3] == pytest.approx([0.25 - (0.01 + 0.09) / 2, 0, 0.64 - 0.36])
    assert np.isnan(found[3:]).all()
    assert brier_gain(np.zeros((1, 1)), np.ones((1, 1)), np.ones(1)).tolist() == [1], "the most there is"


def test_brier_gain_of_a_bayesian_is_its_reduction() -> None:
    rng = np.random.default_rng(4)
    belief = rng.uniform(0.2, 0.8, (40000, 1))
    posterior = belief + even(rng, 0.1, 40000, 1)
    outcome = (rng.random(40000) < posterior[:, 0]).astype(float)
    gain = brier_gain(belief, posterior, outcome)
    assert gain.mean() == pytest.approx(0.01, abs=4 * gain.std() / 200)
    assert gain.mean() > 0.005


def entrenched(seed: int, n: int, epochs: int, error: float = 0.03, slope: float = 0.3) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    belief = 0.5 + even(rng, 0.12, n, 1)
    after = belief + slope * (belief - 0.5) + even(rng, 0.04, n, epochs) + even(rng, error, n, epochs)
    return belief + even(rng, error, n, epochs), after


def test_the_corrected_posterior_has_no_slope_left() -> None:
    prior, posterior = entrenched(5, 4000, 3)
    before = martingale_score(prior, posterior)
    corrected = corrected_posterior(prior, posterior, before.estimate, one_group(4000))
    after = martingale_score(prior, corrected)
    assert before.estimate == pytest.approx(0.3, abs=0.02)
    assert after.estimate == pytest.approx(0, abs=0.01)
    assert np.mean(corrected) == pytest.approx(np.mean(posterior)), "the mean stays"


def test_the_corrected_posterior_has_no_slope_in_any_group() -> None:
    rng = np.random.default_rng(6)
    prior = np.repeat(rng.uniform(0.3, 0.7, (60, 1)), 2, axis=1)
    group = np.arange(60) % 3
    posterior = prior + 0.1 * (prior - 0.5) + 0.05 * group[:, None] + even(rng, 0.02, 60, 2)
    slope = martingale_score(prior, posterior, group=group.tolist()).estimate
    corrected = corrected_posterior(prior, posterior, slope, group)
    assert martingale_score(prior, corrected, group=group.tolist()).estimate == pytest.approx(0, abs=1e-9)
    for name in range(3):
        assert corrected[group == name].mean() == pytest.approx(posterior[group == name].mean())


def test_the_corrected_posterior_by_hand() -> None:
    prior = np.array([[0.2, 0.4], [0.5, np.nan], [0.9, 0.9]])
    posterior = np.array([[0.1, 0.2], [0.5, 0.6], [0.95, np.nan]])
    # Mean priors .3, .5, .9 in groups 0, 0, 1: centres .4, .4, .9
    found = corrected_posterior(prior, posterior, 0.5, np.array([0, 0, 1]))
    assert found == pytest.approx(np.array([[0.15, 0.25], [0.45, 0.55], [0.95, np.nan]]), nan_ok=True)


def test_a_correction_of_nothing_and_of_nobody_knows_what() -> None:
    prior, posterior = entrenched(7, 20, 3)
    assert corrected_posterior(prior, posterior, 0.0, one_group(20)) == pytest.approx(posterior)
    assert np.isnan(corrected_posterior(prior, posterior, np.nan, one_group(20))).all()
    unread = np.where(np.arange(20)[:, None] == 3, np.nan, prior)
    assert np.isnan(corrected_posterior(unread, posterior, 0.1, one_group(20))).any(axis=1).tolist() == [
        i == 3 for i in range(20)
    ]
    for shape in ((0, 0), (0, 3)):
        assert corrected_posterior(np.zeros(shape), np.zeros(shape), 0.1, one_group(0)).shape == shape
    assert np.isnan(corrected_posterior(prior * np.nan, posterior, 0.1, one_group(20))).all()


def jointly(seed: int, n: int, ahead: float, epochs: int = 3, error: float = 0.04) -> tuple[Floats, Floats, Floats]:
    """Beliefs read apart, and a prior that was read together with an end common to all epochs. All with noise."""
    rng = np.random.default_rng(seed)
    belief, update = 0.5 + even(rng, 0.06, n, 1), even(rng, 0.08, n, 1) + even(rng, 0.02, n, epochs)
    prior, posterior = (values + even(rng, error, n, epochs) for values in (belief, belief + update))
    return prior, posterior, belief + ahead * update + even(rng, error, n, epochs)


@pytest.mark.parametrize("ahead", [0.0, 0.1, 0.4, 1.0])
def test_leak_is_the_planted_share_of_the_update(ahead: float) -> None:
    prior, posterior, joint = jointly(8, 20000, ahead)
    found = leak(prior, posterior, joint, np.arange(20000), one_group(20000))
    assert found.estimate == pytest.approx(ahead, abs=0.02)
    assert found.lower <= ahead <= found.upper
    # The separate prior's own error stands in both differences: least squares on them sees a look-ahead in all of it.
    seen, update = (joint - prior).ravel(), (posterior - prior).ravel()
    if ahead == 0:
        assert np.polyfit(update, seen, 1)[0] > 0.1


def test_the_interval_of_leak_covers() -> None:
    covered = 0
    for seed in range(300):
        found = leak(*jointly(seed, 60, 0.2), np.arange(60), one_group(60))
        covered += found.lower <= 0.2 <= found.upper
    assert 0.91 <= covered / 300 <= 0.985


def test_leak_needs_a_strong_first_stage() -> None:
    rng = np.random.default_rng(10)
    known, cluster, one = [], np.arange(30), one_group(30)
    for _ in range(80):
        prior = 0.5 + even(rng, 0.06, 30, 3)
        update = even(rng, 0.035, 30, 1) + even(rng, 0.05, 30, 3)
        joint = prior + 0.4 * update + even(rng, 0.03, 30, 3)
        found = leak(prior, prior + update, joint, cluster, one)
        surely = first_stage(update[:, :, None], update, cluster, one)
        assert (found.n, found.clusters) == (30, 30)
        assert np.isnan([found.estimate, found.lower, found.upper, found.p, found.mde]).tolist() == [surely < 10] * 5
        if surely >= 10:
            seen = (joint - prior)[:, :, None]
            plain = cross_epoch_slope(seen, update[:, :, None], update, cluster, one)
            figures = [name for name in vars(plain) if name != "influence"]
            assert [getattr(found, name) for name in figures] == pytest.approx([getattr(plain, n) for n in figures])
        known.append(surely >= 10)
    assert 10 < sum(known) < 70, "both sides of the bound were seen"


def test_leak_leaves_out_what_was_not_read_jointly() -> None:
    prior, posterior, joint = jointly(11, 40, 0.3)
    joint[:20, 1] = np.nan
    cluster, one = np.arange(40), one_group(40)
    expected = leak(np.where(np.isnan(joint), np.nan, prior), posterior, joint, cluster, one)
    assert np.isfinite(expected.estimate)
    found = leak(prior, posterior, joint, cluster, one)
    assert (found.estimate, found.lower, found.n) == pytest.approx((expected.estimate, expected.lower, expected.n))


def test_leak_of_one_epoch_or_none_is_not_known() -> None:
    prior, posterior, joint = jointly(9, 30, 0.2)
    one = leak(prior[:, :1], posterior[:, :1], joint[:, :1], np.arange(30), one_group(30))
    assert np.isnan([one.estimate, one.lower, one.upper]).all()
    none = leak(prior[:0], posterior[:0], joint[:0], one_group(0), one_group(0))
    assert np.isnan(none.estimate)
    assert none.n == 0
