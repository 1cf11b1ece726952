"""The martingale score: what it is worth on readers whose slope, noise and shared error are planted."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from truthgym.scorers.statistics.instrumented_slope import Codes, Floats, cross_epoch_slope, first_stage
from truthgym.scorers.statistics.martingale_score import (
    REASONS,
    MartingaleScore,
    brier_gain,
    corrected_posterior,
    foreseen_share,
    martingale_score,
    movement,
)

LOST = ("estimate", "lower", "upper", "p", "mde")
MANY = 5000


def even(rng: np.random.Generator, deviation: float, *shape: int) -> Floats:
    """Bounded errors, so that no belief leaves [0, 1] and no clipping bends the line."""
    drawn: Floats = rng.uniform(-1, 1, shape) * deviation * np.sqrt(3)
    return drawn


def reader(
    rng: np.random.Generator,
    n: int,
    epochs: int = 3,
    *,
    slope: float = 0.0,
    spread: float = 0.12,
    error: float = 0.06,
    shared: float = 0.0,
) -> tuple[Floats, Floats]:
    """Prior and posterior. Reliability of the prior is spread² / (spread² + error²); `shared` is kappa."""
    belief = 0.5 + even(rng, spread, n, 1)
    first = even(rng, error, n, epochs)
    after = belief + slope * (belief - 0.5) + even(rng, 0.06, n, epochs)
    return belief + first, after + shared * first + (1 - shared) * even(rng, error, n, epochs)


def test_known_values_by_hand() -> None:
    # Priors of two epochs. In each the mean is 0.5; the reader ends at what it believed, 0.3 or 0.7, whatever it said.
    x = np.array([[0.2, 0.4], [0.4, 0.2], [0.6, 0.8], [0.8, 0.6]] * 3)
    y = np.array([[0.3, 0.3], [0.3, 0.3], [0.7, 0.7], [0.7, 0.7]] * 3)
    result = martingale_score(x, y)
    # Across epochs, of four questions: sum z d = -.01 + .03 + .03 - .01 = .04 and sum z x = .12; d = .1 -.1 .1 -.1
    assert result.estimate == pytest.approx(1 / 3)
    # On single reports: sum x d = -.04 and sum x² = .2
    assert result.ols == pytest.approx(-0.2)
    assert result.ols_half == pytest.approx(-0.2)
    assert result.reliability == pytest.approx(0.12 / 0.2)
    assert result.r_squared == pytest.approx(0.04**2 / (0.2 * 0.04))
    assert result.shared_error == pytest.approx(0, abs=1e-9)
    assert (result.n, result.epochs, result.identified, result.reason) == (12, 2, True, None)
    # Every question has the score -.01 + .03 = .02 over both pairs: all the same, and none of them 0.
    assert result.p == 0
    # Residuals d - x / 3 cancel within each question: the crossed slope of each is 1/3.
    assert [result.lower, result.upper] == pytest.approx([1 / 3, 1 / 3])


def test_a_known_p_value_by_hand() -> None:
    x = np.array([[0.2, 0.4], [0.4, 0.2], [0.6, 0.8], [0.8, 0.6]] * 3)
    # Four questions of each kind of end: 0.3 or 0.7 as believed, the same 0.1 further out, and 0.5 whatever was said.
    believed = np.array([0.3, 0.3, 0.7, 0.7])[:, None]
    y = np.concatenate([np.repeat(end, 2, axis=1) for end in (believed, 1.5 * believed - 0.25, 0 * believed + 0.5)])
    result = martingale_score(x, y)
    # z is (-.3, -.1), (-.1, -.3), (.1, .3), (.3, .1) and d, which has mean 0 in every epoch, (.1, -.1), (-.1, .1), ...
    # shifted outwards by 0, .1 and -.2: scores of -.01 + .03 = .02, and .04 more for each .1.
    scores = np.repeat([0.02, 0.06, -0.06], 4)
    assert result.estimate == pytest.approx(scores.mean() / 0.06)
    assert result.p == pytest.approx(stats.ttest_1samp(scores, 0).pvalue)
    # Each question is a cluster that the intercept takes a twelfth of.
    degrees = 12**2 / (12 + 12 / 11)
    residual = (scores - result.estimate * 0.06) * np.sqrt(12 / 11)
    assert result.stderr == pytest.approx(np.sqrt(np.sum(residual**2)) / (12 * 0.06))
    assert result.effective_clusters == pytest.approx(12)
    # The slopes b at which the t statistic of the scores less .06 b is at its quantile: every square is .06.
    half = stats.t.ppf(0.975, degrees) * np.std(scores, ddof=1) / np.sqrt(12) / 0.06
    assert (result.lower, result.upper) == pytest.approx((result.estimate - half, result.estimate + half))


def test_an_exact_line_without_noise_is_found_exactly() -> None:
    x = np.repeat(np.linspace(0.1, 0.9, 20)[:, None], 2, axis=1)
    result = martingale_score(x, x + 0.1 * (x - 0.5))
    assert [result.estimate, result.lower, result.upper, result.ols, result.ols_half] == pytest.approx([0.1] * 5)
    assert result.p < 0.001
    assert result.r_squared == pytest.approx(1)
    assert result.r_squared <= 1
    assert result.reliability == pytest.approx(1)
    assert np.isnan(result.shared_error)


def test_the_slope_through_one_half_sees_a_shift_of_all_beliefs() -> None:
    x = np.repeat(np.linspace(0.6, 0.8, 20)[:, None], 2, axis=1)
    result = martingale_score(x, x + 0.1)
    assert result.estimate == pytest.approx(0, abs=1e-9)
    assert result.ols_half > 0.3


@pytest.mark.parametrize("slope", [0.1, -0.2])
@pytest.mark.parametrize(("spread", "error"), [(0.12, 0.04), (0.08, 0.08)])
@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_least_squares_has_the_bias_of_its_formula(slope: float, spread: float, error: float, shared: float) -> None:
    x, y = reader(np.random.default_rng(1), MANY, slope=slope, spread=spread, error=error, shared=shared)
    result = martingale_score(x, y)
    reliability = spread**2 / (spread**2 + error**2)
    assert result.estimate == pytest.approx(slope, abs=0.025)
    assert result.lower <= slope <= result.upper
    assert result.ols == pytest.approx(reliability * slope - (1 - reliability) * (1 - shared), abs=0.015)
    assert result.reliability == pytest.approx(reliability, abs=0.015)
    assert result.shared_error == pytest.approx(shared, abs=0.025)


def errs_alike(seed: int, n: int = MANY) -> tuple[Floats, Floats, Floats]:
    """A rational reader whose first elicitor errs about each question in the same way every time, and a second one."""
    rng = np.random.default_rng(seed)
    belief = 0.5 + even(rng, 0.12, n, 1)
    prior = belief + even(rng, 0.06, n, 1) + even(rng, 0.03, n, 3)
    return prior, belief + even(rng, 0.06, n, 3), belief + even(rng, 0.05, n, 1) + even(rng, 0.03, n, 3)


def test_a_second_elicitor_removes_a_constant_error() -> None:
    prior, posterior, other = errs_alike(9)
    alone, both = martingale_score(prior, posterior), martingale_score(prior, posterior, other)
    # What no other epoch can tell from belief pulls as noise pulls least squares: -.06² / (.12² + .06²)
    assert alone.estimate == pytest.approx(-0.2, abs=0.02)
    assert both.estimate == pytest.approx(0, abs=0.02)
    assert both.lower <= 0 <= both.upper
    assert both.ols == alone.ols, "the published score knows no instrument"
    variances = [0.12**2 + 0.06**2 + 0.03**2, 0.12**2 + 0.05**2 + 0.03**2]
    assert both.reliability == pytest.approx(0.12**2 / np.sqrt(np.prod(variances)), abs=0.02)


def stepwise(n: int = MANY, slope: float = 0.1) -> tuple[Floats, Floats, Floats]:
    """Beliefs before and after each of two steps, reported with noise that all steps of an epoch share, and a prior."""
    rng = np.random.default_rng(11)
    path = [0.5 + even(rng, 0.1, n, 1)]
    for _ in range(2):
        path.append(path[-1] + slope * (path[-1] - 0.5) + even(rng, 0.04, n, 3))
    reports = np.stack([np.broadcast_to(belief, (n, 3)) for belief in path], axis=-1) + even(rng, 0.04, n, 3, 3)
    return reports[:, :, :-1], reports[:, :, 1:], reports[:, :, 0]


def test_steps_need_an_instrument_and_are_right_with_one() -> None:
    before, after, prior = stepwise()
    with pytest.raises(ValueError, match="with steps an instrument"):
        martingale_score(before, after)
    result = martingale_score(before, after, prior)
    assert result.estimate == pytest.approx(0.1, abs=0.02)
    assert result.ols < 0
    assert (result.n, result.epochs) == (MANY, 3)
    single = martingale_score(before[:, :, :1], after[:, :, :1])
    assert single == martingale_score(before[:, :, 0], after[:, :, 0]), "a single step needs no instrument"
    assert single == martingale_score(before[:, :, 0], after[:, :, 0], prior)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_what_leaves_the_score_as_it_is(missing: float) -> None:
    rng = np.random.default_rng(13)
    x, y = (np.where(rng.random(v.shape) < missing, np.nan, v) for v in reader(rng, 60, slope=0.2, error=0.04))
    names, domains = [f"e{i // 2}" for i in range(60)], [f"d{i % 3}" for i in range(60)]
    order, epochs = rng.permutation(60), rng.permutation(3)
    plain = vars(martingale_score(x, y, cluster=names, group=domains)) | {"influence": None}

    def same(**changed: Any) -> None:
        arguments: dict[str, Any] = {"prior": x, "posterior": y, "cluster": names, "group": domains}
        result = martingale_score(**arguments | changed)
        assert vars(result) | {"influence": None} == pytest.approx(plain)

    same(prior=1 - x, posterior=1 - y)
    same(prior=x[:, epochs], posterior=y[:, epochs])
    same(prior=x[order], posterior=y[order], cluster=[names[i] for i in order], group=[domains[i] for i in order])
    same(cluster=[(name, 7) for name in names], group=[f"{name}!" for name in domains])
    same(prior=x.tolist(), posterior=y.tolist(), instrument=x)
    same(cluster=np.array(names), group=np.array(domains))
    same(group=np.arange(60) % 3)
    assert plain["reason"] is None


def test_questions_alone_in_their_domain_are_not_counted() -> None:
    x, y = reader(np.random.default_rng(21), 12, error=0.03)
    result = martingale_score(x, y, group=["a", "a", *(f"alone {i}" for i in range(10))])
    assert result.reason == "few_questions", "two questions, whose residuals cancel: an interval of width 0"
    assert result.n == 2
    none = martingale_score(x, y, group=list(range(12)))
    assert (none.n, none.identified) == (0, False)
    # Two that have lost all but one epoch, and two to whom they were the only company
    x, y = reader(np.random.default_rng(27), 30, error=0.03)
    lonely = [f"pair {i % 2}" if i < 4 else "others" for i in range(30)]
    assert martingale_score(x, y, group=lonely).n == 30
    x[:2, 1:] = np.nan
    result, without = martingale_score(x, y, group=lonely), martingale_score(x[4:], y[4:])
    assert result.n == without.n == 26
    for name in LOST:
        assert getattr(result, name) == pytest.approx(getattr(without, name)), name


def unidentified() -> dict[str, Callable[[], MartingaleScore]]:
    x, y = reader(np.random.default_rng(15), 40)
    random = np.random.default_rng(16).random((200, 3))
    equal = np.full((40, 3), 0.3)
    one_epoch = np.where(np.arange(3) == np.arange(40)[:, None] % 3, x, np.nan)
    few = 9
    first, halves = np.arange(40)[:, None] < few, np.repeat([0.2, 0.6], 20)[:, None] + np.zeros((40, 3))
    return {
        "one_epoch": lambda: martingale_score(x[:, :1], y[:, :1]),
        "unread of each question": lambda: martingale_score(one_epoch, y),
        "unread nothing read": lambda: martingale_score(x * np.nan, y),
        "unread nothing asked": lambda: martingale_score(x[:0], y[:0]),
        "unread no second reading": lambda: martingale_score(x, y, x * np.nan),
        "few_questions": lambda: martingale_score(x[:few], y[:few]),
        "few_questions with two epochs": lambda: martingale_score(np.where(first, x, one_epoch), y),
        "few_questions, or clusters": lambda: martingale_score(x, y, cluster=[i % few for i in range(40)]),
        "few_clusters": lambda: martingale_score(x, y, cluster=[max(i, 30) for i in range(40)]),
        "few_questions, all one cluster": lambda: martingale_score(x, y, cluster=["e"] * 40),
        "saw_reasoning": lambda: martingale_score(x, y, invalid="saw_reasoning"),
        "no_second_wording": lambda: martingale_score(x, y, invalid="no_second_wording"),
        "equal_priors": lambda: martingale_score(equal, y),
        "equal_priors but for rounding": lambda: martingale_score(equal + 1e-16 * np.arange(40)[:, None], y),
        "equal_priors within groups": lambda: martingale_score(halves, y, group=["a"] * 20 + ["b"] * 20),
        "low_reliability": lambda: martingale_score(random, np.full((200, 3), 0.5)),
        "weak_instrument": lambda: martingale_score(*reader(np.random.default_rng(23), 12, 2, spread=0.08, error=0.08)),
        "low_reliability, turned round": lambda: martingale_score(x, y, 1 - x),
    }


@pytest.mark.parametrize("case", unidentified())
def test_what_is_not_identified_has_no_score_and_says_why(case: str) -> None:
    result = unidentified()[case]()
    assert result.reason == case.split()[0].strip(",")
    assert {name.split()[0].strip(",") for name in unidentified()} == set(REASONS)
    assert not result.identified
    assert all(np.isnan(getattr(result, name)) for name in LOST)


def test_the_bounds_of_reliability_and_of_the_first_stage() -> None:
    rng = np.random.default_rng(22)
    # True reliabilities 0.28 and 0.32, of 20,000 questions: a standard error of 0.007
    assert martingale_score(*reader(rng, 20_000, 2, spread=0.05, error=0.0802)).reason == "low_reliability"
    assert martingale_score(*reader(rng, 20_000, 2, spread=0.05, error=0.0729)).identified
    bounds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(60):
        x, y = reader(rng, 20, 2, spread=0.09, error=0.08)
        result = martingale_score(x, y)
        same_group = np.zeros(20, dtype=np.intp)
        if result.reliability >= 0.3:
            bounds[result.identified].append(first_stage(x[:, :, None], x, np.arange(20), same_group))
    assert 10 <= min(bounds[True]) < 15
    assert min(bounds[False]) < 10
    # A second elicitor that hardly tells a prior which tells itself well
    reasons = []
    for _ in range(60):
        clear = 0.5 + even(rng, 0.12, 30, 1) + even(rng, 0.01, 30, 2)
        assert martingale_score(clear, clear).identified
        weak = 0.5 + (clear - 0.5) / 3 + even(rng, 0.08, 30, 2)
        reasons.append(martingale_score(clear, clear, weak).reason)
    assert reasons.count("weak_instrument") > 10


@pytest.mark.parametrize(("n", "epochs", "share"), [(20, 2, 0.97), (100, 2, 0.99)])
def test_random_priors_are_not_identified(n: int, epochs: int, share: float) -> None:
    rng = np.random.default_rng(18)
    turned_down = 0
    for _ in range(200):
        posterior = np.clip(rng.random((n, 1)) + rng.normal(0, 0.1, (n, epochs)), 0, 1)
        result = martingale_score(rng.random((n, epochs)), posterior)
        turned_down += result.reason in ("low_reliability", "weak_instrument")
    assert turned_down / 200 >= share


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"prior": [[0.2, 70.0]], "posterior": [[0.2, 0.3]]}, "70 is not a probability between 0 and 1; divide by 100"),
        ({"prior": [[0.2]], "posterior": [[-0.1]]}, "-0.1 is not a probability"),
        ({"prior": np.zeros((3, 2, 0)), "posterior": np.zeros((3, 2, 0))}, r"priors \(3, 2, 0\)"),
        ({"prior": [0.2], "posterior": [0.2]}, r"priors \(1,\), posteriors \(1,\)"),
        ({"prior": [[0.2]], "posterior": [[0.2]], "instrument": [0.2]}, r"instruments \(1,\)"),
        ({"prior": [[0.2]], "posterior": [[0.2]], "cluster": ["a", "b"]}, "2 clusters"),
        ({"prior": [[0.2]], "posterior": [[0.2]], "group": []}, "0 groups"),
    ],
)
def test_bad_arrays_are_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        martingale_score(**arguments)


def test_beliefs_of_zero_and_one_and_missing_ones_are_taken() -> None:
    x = np.tile([[0.0, 0.0], [1.0, 1.0], [np.nan, 0.5]], (5, 1))
    result = martingale_score(x, np.where(np.isnan(x), np.nan, 0.5))
    assert result.estimate == pytest.approx(-1)
    assert result.n == 10


def one_group(n: int) -> Codes:
    return np.zeros(n, dtype=np.intp)


def worlds(news: tuple[float, ...], errors: list[tuple[float, float]], epochs: int) -> tuple[Floats, Floats]:
    """Every way in which the epochs of one question can go, all equally likely: one row each."""
    attempts = [(0.4 + first, 0.4 + moved + second) for moved in news for first, second in errors]
    rows = np.array(list(product(attempts, repeat=epochs)))
    return rows[:, :, 0], rows[:, :, 1]


NEWS = (-0.2, 0.05, 0.15)
ERRORS = {
    "no errors": [(0.0, 0.0)],
    "independent": [(-0.1, -0.05), (-0.1, 0.05), (0.1, -0.05), (0.1, 0.05)],
    "the same": [(-0.1, -0.1), (0.1, 0.1)],
    "shared in part": [(-0.1, -0.15), (-0.1, 0.05), (0.1, -0.05), (0.1, 0.15)],
    "opposed": [(-0.1, 0.05), (0.1, -0.05)],
}


@pytest.mark.parametrize("epochs", [2, 3])
@pytest.mark.parametrize("errors", ERRORS)
def test_excess_movement_of_a_bayesian_is_exactly_zero(errors: str, epochs: int) -> None:
    prior, posterior = worlds(NEWS, ERRORS[errors], epochs)
    assert movement(prior, posterior).excess.mean() == pytest.approx(0, abs=1e-12)
    raw = (posterior - prior) ** 2 - prior * (1 - prior) + posterior * (1 - posterior)
    # E[raw] = 2 (variance of the prior's error - its covariance with the posterior's)
    first, second = np.array(ERRORS[errors]).T
    assert raw.mean() == pytest.approx(2 * (np.mean(first**2) - np.mean(first * second)), abs=1e-12)


def test_movement_without_noise_is_the_squared_update() -> None:
    prior = np.array([[0.4, 0.4], [0.5, 0.5]])
    posterior = np.array([[0.6, 0.3], [0.5, 0.9]])
    result = movement(prior, posterior)
    assert result.movement == pytest.approx([(0.04 + 0.01) / 2, 0.08])
    assert result.reduction == pytest.approx([(0.24 - 0.24 + 0.24 - 0.21) / 2, (0.25 - 0.09) / 2])
    assert result.excess == pytest.approx(result.movement - result.reduction)


def test_movement_needs_two_epochs() -> None:
    prior = np.array([[0.4, 0.5, np.nan], [0.4, np.nan, 0.5], [0.4, np.nan, np.nan], [np.nan] * 3])
    posterior = np.array([[0.6, 0.5, 0.9], [np.nan, 0.2, 0.9], [0.5, 0.5, 0.5], [0.1, 0.2, 0.3]])
    result = movement(prior, posterior)
    for values in (result.movement, result.reduction, result.excess):
        assert np.isfinite(values).tolist() == [True, False, False, False]
    alone = movement(prior[:1, :2], posterior[:1, :2])
    assert result.excess[0] == pytest.approx(alone.excess[0]), "an epoch without both beliefs does not count"
    assert np.isnan(movement(prior[:, :1], posterior[:, :1]).excess).all()
    for shape in ((0, 0), (0, 3), (3, 0)):
        assert movement(np.zeros(shape), np.zeros(shape)).excess.shape == (shape[0],)


def test_brier_gain_known_values() -> None:
    prior = np.array([[0.5, 0.5], [0.5, 0.4], [0.2, np.nan], [0.2, 0.3], [np.nan, np.nan]])
    posterior = np.array([[0.9, 0.7], [0.5, 0.4], [0.4, 0.9], [0.1, 0.1], [0.1, 0.1]])
    result = brier_gain(prior, posterior, np.array([1.0, 0.0, 1.0, np.nan, 1.0]))
    assert result[:3] == pytest.approx([0.25 - (0.01 + 0.09) / 2, 0, 0.64 - 0.36])
    assert np.isnan(result[3:]).all()
    assert brier_gain(np.zeros((1, 1)), np.ones((1, 1)), np.ones(1)).tolist() == [1], "the most there is"


def test_the_corrected_posterior_by_hand() -> None:
    prior = np.array([[0.2, 0.4], [0.5, np.nan], [0.9, 0.9]])
    posterior = np.array([[0.1, 0.2], [0.5, 0.6], [0.95, np.nan]])
    # Mean priors .3, .5, .9 in groups 0, 0, 1: centres .4, .4, .9
    result = corrected_posterior(prior, posterior, 0.5, np.array([0, 0, 1]))
    assert result == pytest.approx(np.array([[0.15, 0.25], [0.45, 0.55], [0.95, np.nan]]), nan_ok=True)


def test_a_correction_of_nothing_and_of_nobody_knows_what() -> None:
    prior, posterior = reader(np.random.default_rng(7), 20, slope=0.3)
    assert corrected_posterior(prior, posterior, 0.0, one_group(20)) == pytest.approx(posterior)
    assert np.isnan(corrected_posterior(prior, posterior, np.nan, one_group(20))).all()
    unread = np.where(np.arange(20)[:, None] == 3, np.nan, prior)
    unknown = np.isnan(corrected_posterior(unread, posterior, 0.1, one_group(20))).any(axis=1)
    assert np.flatnonzero(unknown).tolist() == [3]
    for shape in ((0, 0), (0, 3)):
        assert corrected_posterior(np.zeros(shape), np.zeros(shape), 0.1, one_group(0)).shape == shape
    assert np.isnan(corrected_posterior(prior * np.nan, posterior, 0.1, one_group(20))).all()


def jointly(seed: int, n: int, ahead: float, epochs: int = 3, error: float = 0.04) -> tuple[Floats, Floats, Floats]:
    """Beliefs read apart, and a prior that was read together with an end common to all epochs. All with noise."""
    rng = np.random.default_rng(seed)
    belief, update = 0.5 + even(rng, 0.06, n, 1), even(rng, 0.08, n, 1) + even(rng, 0.02, n, epochs)
    prior, posterior = (values + even(rng, error, n, epochs) for values in (belief, belief + update))
    return prior, posterior, belief + ahead * update + even(rng, error, n, epochs)


@pytest.mark.parametrize("ahead", [0.0, 0.4])
def test_leak_is_the_planted_share_of_the_update(ahead: float) -> None:
    prior, posterior, joint = jointly(8, 20000, ahead)
    result = foreseen_share(prior, posterior, joint, np.arange(20000), one_group(20000))
    assert result.estimate == pytest.approx(ahead, abs=0.02)
    assert result.lower <= ahead <= result.upper
    # The separate prior's own error stands in both differences: least squares on them sees a look-ahead in all of it.
    seen, update = (joint - prior).ravel(), (posterior - prior).ravel()
    if ahead == 0:
        assert np.polyfit(update, seen, 1)[0] > 0.1


def test_leak_needs_a_strong_first_stage() -> None:
    rng = np.random.default_rng(10)
    expected, cluster, same_group = [], np.arange(30), one_group(30)
    for _ in range(80):
        prior = 0.5 + even(rng, 0.06, 30, 3)
        update = even(rng, 0.035, 30, 1) + even(rng, 0.05, 30, 3)
        joint = prior + 0.4 * update + even(rng, 0.03, 30, 3)
        result = foreseen_share(prior, prior + update, joint, cluster, same_group)
        surely = first_stage(update[:, :, None], update, cluster, same_group)
        assert (result.n, result.clusters) == (30, 30)
        assert np.isnan([getattr(result, name) for name in LOST]).tolist() == [surely < 10] * 5
        if surely >= 10:
            plain = cross_epoch_slope((joint - prior)[:, :, None], update[:, :, None], update, cluster, same_group)
            assert vars(result) | {"influence": None} == pytest.approx(vars(plain) | {"influence": None})
        expected.append(surely >= 10)
    assert 10 < sum(expected) < 70, "both sides of the bound were seen"


def test_leak_leaves_out_what_was_not_read_jointly() -> None:
    prior, posterior, joint = jointly(11, 40, 0.3)
    joint[:20, 1] = np.nan
    cluster, same_group = np.arange(40), one_group(40)
    expected = foreseen_share(np.where(np.isnan(joint), np.nan, prior), posterior, joint, cluster, same_group)
    assert np.isfinite(expected.estimate)
    result = foreseen_share(prior, posterior, joint, cluster, same_group)
    assert (result.estimate, result.lower, result.n) == pytest.approx((expected.estimate, expected.lower, expected.n))


def test_leak_of_one_epoch_or_none_is_not_known() -> None:
    prior, posterior, joint = jointly(9, 30, 0.2)
    single = foreseen_share(prior[:, :1], posterior[:, :1], joint[:, :1], np.arange(30), one_group(30))
    assert np.isnan([single.estimate, single.lower, single.upper]).all()
    none = foreseen_share(prior[:0], posterior[:0], joint[:0], one_group(0), one_group(0))
    assert np.isnan(none.estimate)
    assert none.n == 0
