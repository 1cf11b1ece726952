"""The martingale score: what it is worth on readers whose slope, noise and shared error are planted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from truthgym.scorers.statistics.instrumented_slope import Floats, cross_epoch_slope, first_stage
from truthgym.scorers.statistics.martingale_score import REASONS, MartingaleScore, martingale_score

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


def lost(score: MartingaleScore) -> bool:
    return all(np.isnan(getattr(score, name)) for name in LOST)


def test_known_values_by_hand() -> None:
    # Priors of two epochs. In each the mean is 0.5; the reader ends at what it believed, 0.3 or 0.7, whatever it said.
    x = np.array([[0.2, 0.4], [0.4, 0.2], [0.6, 0.8], [0.8, 0.6]] * 3)
    y = np.array([[0.3, 0.3], [0.3, 0.3], [0.7, 0.7], [0.7, 0.7]] * 3)
    found = martingale_score(x, y)
    # Across epochs, of four questions: sum z d = -.01 + .03 + .03 - .01 = .04 and sum z x = .12; d = .1 -.1 .1 -.1
    assert found.estimate == pytest.approx(1 / 3)
    # On single reports: sum x d = -.04 and sum x² = .2
    assert found.ols == pytest.approx(-0.2)
    assert found.ols_half == pytest.approx(-0.2)
    assert found.reliability == pytest.approx(0.12 / 0.2)
    assert found.r_squared == pytest.approx(0.04**2 / (0.2 * 0.04))
    assert found.shared_error == pytest.approx(0, abs=1e-9)
    assert (found.n, found.epochs, found.identified, found.reason) == (12, 2, True, None)
    # Every question has the score -.01 + .03 = .02 over both pairs: all the same, and none of them 0.
    assert found.p == 0
    # Residuals d - x / 3 cancel within each question: the crossed slope of each is 1/3.
    assert [found.lower, found.upper] == pytest.approx([1 / 3, 1 / 3])


def test_a_known_p_value_by_hand() -> None:
    x = np.array([[0.2, 0.4], [0.4, 0.2], [0.6, 0.8], [0.8, 0.6]] * 3)
    # Four questions of each kind of end: 0.3 or 0.7 as believed, the same 0.1 further out, and 0.5 whatever was said.
    believed = np.array([0.3, 0.3, 0.7, 0.7])[:, None]
    y = np.concatenate([np.repeat(end, 2, axis=1) for end in (believed, 1.5 * believed - 0.25, 0 * believed + 0.5)])
    found = martingale_score(x, y)
    # z is (-.3, -.1), (-.1, -.3), (.1, .3), (.3, .1) and d, which has mean 0 in every epoch, (.1, -.1), (-.1, .1), ...
    # shifted outwards by 0, .1 and -.2: scores of -.01 + .03 = .02, and .04 more for each .1.
    scores = np.repeat([0.02, 0.06, -0.06], 4)
    assert found.estimate == pytest.approx(scores.mean() / 0.06)
    assert found.p == pytest.approx(stats.ttest_1samp(scores, 0).pvalue)
    # Each question is a cluster that the intercept takes a twelfth of.
    degrees = 12**2 / (12 + 12 / 11)
    residual = (scores - found.estimate * 0.06) * np.sqrt(12 / 11)
    assert found.stderr == pytest.approx(np.sqrt(np.sum(residual**2)) / (12 * 0.06))
    assert found.slope.effective_clusters == pytest.approx(12)
    # The slopes b at which the t statistic of the scores less .06 b is at its quantile: every square is .06.
    half = stats.t.ppf(0.975, degrees) * np.std(scores, ddof=1) / np.sqrt(12) / 0.06
    assert (found.lower, found.upper) == pytest.approx((found.estimate - half, found.estimate + half))


def test_an_exact_line_without_noise_is_found_exactly() -> None:
    x = np.repeat(np.linspace(0.1, 0.9, 20)[:, None], 2, axis=1)
    found = martingale_score(x, x + 0.1 * (x - 0.5))
    assert [found.estimate, found.lower, found.upper, found.ols, found.ols_half] == pytest.approx([0.1] * 5)
    assert found.p < 0.001
    assert found.r_squared == pytest.approx(1)
    assert found.r_squared <= 1
    assert found.reliability == pytest.approx(1)
    assert np.isnan(found.shared_error)


def test_the_slope_through_one_half_sees_a_shift_of_all_beliefs() -> None:
    x = np.repeat(np.linspace(0.6, 0.8, 20)[:, None], 2, axis=1)
    found = martingale_score(x, x + 0.1)
    assert found.estimate == pytest.approx(0, abs=1e-9)
    assert found.ols_half > 0.3


@pytest.mark.parametrize("slope", [0.0, 0.1, -0.2])
@pytest.mark.parametrize(("spread", "error"), [(0.12, 0.04), (0.12, 0.06), (0.08, 0.08)])
@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_least_squares_has_the_bias_of_its_formula(slope: float, spread: float, error: float, shared: float) -> None:
    x, y = reader(np.random.default_rng(1), MANY, slope=slope, spread=spread, error=error, shared=shared)
    found = martingale_score(x, y)
    reliability = spread**2 / (spread**2 + error**2)
    assert found.estimate == pytest.approx(slope, abs=0.025)
    assert found.lower <= slope <= found.upper
    assert found.ols == pytest.approx(reliability * slope - (1 - reliability) * (1 - shared), abs=0.015)
    assert found.reliability == pytest.approx(reliability, abs=0.015)
    assert found.shared_error == pytest.approx(shared, abs=0.025)


@pytest.mark.parametrize(("slope", "clustered"), [(0.0, False), (0.3, False), (0.3, True)])
def test_the_interval_covers(slope: float, clustered: bool) -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(400):
        if clustered:  # two questions of one event are believed alike, and are answered by one piece of news
            x, y = reader(rng, 50, 6, slope=slope, spread=0.1, error=0.05)
            y += even(rng, 0.04, 50, 1)
            x, y = (np.concatenate([values[:, :3], values[:, 3:]]) for values in (x, y))
        else:
            x, y = reader(rng, 100, slope=slope)
        found = martingale_score(x, y, cluster=[i % 50 for i in range(100)] if clustered else None)
        covered += found.lower <= slope <= found.upper
    assert 0.92 <= covered / 400 <= 0.98


def test_the_p_value_is_uniform_for_a_rational_reader() -> None:
    rng = np.random.default_rng(4)
    p = np.array([martingale_score(*reader(rng, 100)).p for _ in range(800)])
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.023)
    for share in (0.25, 0.5, 0.75):
        assert np.mean(p < share) == pytest.approx(share, abs=0.055)


@pytest.mark.parametrize("clustered", [False, True])
def test_the_p_value_of_ten_clusters_has_the_size_it_says(clustered: bool) -> None:
    rng = np.random.default_rng(25)
    p, one = [], np.zeros(30 if clustered else 10, dtype=np.intp)
    for _ in range(1000):
        x, y = reader(rng, 10, 9 if clustered else 3, error=0.03)
        if clustered:  # three questions of one event are believed alike, and are answered by one piece of news
            y += even(rng, 0.04, 10, 1)
            x, y = (np.concatenate([values[:, :3], values[:, 3:6], values[:, 6:]]) for values in (x, y))
        p.append(cross_epoch_slope((y - x)[:, :, None], x[:, :, None], x, np.arange(len(x)) % 10, one).p)
    assert np.mean(np.isnan(p)) < 0.2, "fewer than three effective clusters"
    assert 0.02 <= np.mean(np.array(p)[np.isfinite(p)] < 0.05) <= 0.09


def test_the_mde_is_detected_with_probability_0_8() -> None:
    rng = np.random.default_rng(6)
    mde = float(np.median([martingale_score(*reader(rng, 100)).mde for _ in range(200)]))
    found = [martingale_score(*reader(rng, 100, slope=mde)).p < 0.05 for _ in range(400)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.08)
    assert 0.1 < mde < 0.3


@pytest.mark.parametrize("epochs", [2, 3])
def test_missing_epochs_widen_the_interval(epochs: int) -> None:
    rng = np.random.default_rng(7)
    x, y = reader(rng, MANY, 2 * epochs, slope=0.2, error=0.04)
    full = martingale_score(x, y)
    gone = rng.random(x.shape) < 0.5
    half = martingale_score(np.where(gone, np.nan, x), np.where(gone, np.nan, y))
    assert half.estimate == pytest.approx(0.2, abs=0.04)
    assert half.lower <= 0.2 <= half.upper
    assert half.upper - half.lower > 1.1 * (full.upper - full.lower)
    assert half.n < full.n, "questions with fewer than two epochs do not enter"
    first = martingale_score(x[:, :epochs], y[:, :epochs])
    assert first.upper - first.lower > 1.1 * (full.upper - full.lower)


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
    with pytest.raises(ValueError, match="give steps the prior of each epoch"):
        martingale_score(before, after)
    found = martingale_score(before, after, prior)
    assert found.estimate == pytest.approx(0.1, abs=0.02)
    assert found.ols < 0
    assert (found.n, found.epochs) == (MANY, 3)
    one = martingale_score(before[:, :, :1], after[:, :, :1])
    assert one == martingale_score(before[:, :, 0], after[:, :, 0]), "a single step needs no instrument"
    assert one == martingale_score(before[:, :, 0], after[:, :, 0], prior)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_what_leaves_the_score_as_it_is(missing: float) -> None:
    rng = np.random.default_rng(13)
    x, y = (np.where(rng.random(v.shape) < missing, np.nan, v) for v in reader(rng, 60, slope=0.2, error=0.04))
    names, domains = [f"e{i // 2}" for i in range(60)], [f"d{i % 3}" for i in range(60)]
    order, epochs = rng.permutation(60), rng.permutation(3)
    plain = vars(martingale_score(x, y, cluster=names, group=domains)) | {"slope": None}

    def same(**changed: Any) -> None:
        arguments: dict[str, Any] = {"prior": x, "posterior": y, "cluster": names, "group": domains}
        found = martingale_score(**arguments | changed)
        assert vars(found) | {"slope": None} == pytest.approx(plain)

    same(prior=1 - x, posterior=1 - y)
    same(prior=x[:, epochs], posterior=y[:, epochs])
    same(prior=x[order], posterior=y[order], cluster=[names[i] for i in order], group=[domains[i] for i in order])
    same(cluster=[(name, 7) for name in names], group=[f"{name}!" for name in domains])
    same(prior=x.tolist(), posterior=y.tolist(), instrument=x)
    same(cluster=np.array(names), group=np.array(domains))
    same(group=np.arange(60) % 3)
    assert plain["identified"]


def test_domains_that_differ_make_no_slope() -> None:
    rng = np.random.default_rng(14)
    x, y = reader(rng, 300, error=0.03)
    domains = ["low"] * 150 + ["high"] * 150
    shift = np.repeat([-0.1, 0.1], 150)[:, None]
    x, y = 0.5 + (x - 0.5) / 2 + shift, 0.5 + (y - 0.5) / 2 + 2 * shift
    apart, pooled = martingale_score(x, y, group=domains), martingale_score(x, y)
    assert apart.lower <= 0 <= apart.upper
    assert pooled.lower > 0.3


def test_questions_alone_in_their_domain_are_not_counted() -> None:
    x, y = reader(np.random.default_rng(21), 12, error=0.03)
    found = martingale_score(x, y, group=["a", "a", *(f"alone {i}" for i in range(10))])
    assert found.reason == "few_questions", "two questions, whose residuals cancel: an interval of width 0"
    assert found.n == 2
    none = martingale_score(x, y, group=list(range(12)))
    assert (none.n, none.identified) == (0, False)
    # Two that have lost all but one epoch, and two to whom they were the only company
    x, y = reader(np.random.default_rng(27), 30, error=0.03)
    lonely = [f"pair {i % 2}" if i < 4 else "others" for i in range(30)]
    assert martingale_score(x, y, group=lonely).n == 30
    x[:2, 1:] = np.nan
    found, without = martingale_score(x, y, group=lonely), martingale_score(x[4:], y[4:])
    assert found.n == without.n == 26
    for name in LOST:
        assert getattr(found, name) == pytest.approx(getattr(without, name)), name


def unidentified() -> dict[str, Callable[[], MartingaleScore]]:
    x, y = reader(np.random.default_rng(15), 40)
    random = np.random.default_rng(16).random((200, 3))
    equal = np.full((40, 3), 0.3)
    one = np.where(np.arange(3) == np.arange(40)[:, None] % 3, x, np.nan)
    few = 9
    return {
        "one_epoch": lambda: martingale_score(x[:, :1], y[:, :1]),
        "unread of each question": lambda: martingale_score(one, y),
        "unread nothing read": lambda: martingale_score(x * np.nan, y),
        "unread nothing asked": lambda: martingale_score(x[:0], y[:0]),
        "unread no second reading": lambda: martingale_score(x, y, x * np.nan),
        "few_questions": lambda: martingale_score(x[:few], y[:few]),
        "few_questions with two epochs": lambda: martingale_score(np.where(np.arange(40)[:, None] < few, x, one), y),
        "few_questions, or clusters": lambda: martingale_score(x, y, cluster=[i % few for i in range(40)]),
        "few_clusters": lambda: martingale_score(x, y, cluster=[max(i, 30) for i in range(40)]),
        "few_questions, all one cluster": lambda: martingale_score(x, y, cluster=["e"] * 40),
        "saw_reasoning": lambda: martingale_score(x, y, invalid="saw_reasoning"),
        "no_second_wording": lambda: martingale_score(x, y, invalid="no_second_wording"),
        "equal_priors": lambda: martingale_score(equal, y),
        "equal_priors but for rounding": lambda: martingale_score(equal + 1e-16 * np.arange(40)[:, None], y),
        "equal_priors within groups": lambda: martingale_score(
            np.repeat([0.2, 0.6], 20)[:, None] + np.zeros((40, 3)), y, group=["a"] * 20 + ["b"] * 20
        ),
        "low_reliability": lambda: martingale_score(random, np.full((200, 3), 0.5)),
        "weak_instrument": lambda: martingale_score(*reader(np.random.default_rng(23), 12, 2, spread=0.08, error=0.08)),
        "low_reliability, turned round": lambda: martingale_score(x, y, 1 - x),
    }


@pytest.mark.parametrize("case", unidentified())
def test_what_is_not_identified_has_no_score_and_says_why(case: str) -> None:
    found = unidentified()[case]()
    assert found.reason == case.split()[0].strip(",")
    assert found.reason in REASONS
    assert not found.identified
    assert lost(found)


def test_every_reason_can_be_reached() -> None:
    assert {case.split()[0].strip(",") for case in unidentified()} == set(REASONS)


def test_the_bounds_of_reliability_and_of_the_first_stage() -> None:
    rng = np.random.default_rng(22)
    # True reliabilities 0.28 and 0.32, of 20,000 questions: a standard error of 0.007
    assert martingale_score(*reader(rng, 20_000, 2, spread=0.05, error=0.0802)).reason == "low_reliability"
    assert martingale_score(*reader(rng, 20_000, 2, spread=0.05, error=0.0729)).identified
    bounds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(60):
        x, y = reader(rng, 20, 2, spread=0.09, error=0.08)
        found = martingale_score(x, y)
        one = np.zeros(20, dtype=np.intp)
        if found.reliability >= 0.3:
            bounds[found.identified].append(first_stage(x[:, :, None], x, np.arange(20), one))
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


@pytest.mark.parametrize(("n", "epochs", "share"), [(20, 2, 0.97), (20, 3, 0.98), (100, 2, 0.99), (500, 2, 1)])
def test_random_priors_are_not_identified(n: int, epochs: int, share: float) -> None:
    rng = np.random.default_rng(18)
    turned_down = 0
    for _ in range(200):
        posterior = np.clip(rng.random((n, 1)) + rng.normal(0, 0.1, (n, epochs)), 0, 1)
        found = martingale_score(rng.random((n, epochs)), posterior)
        turned_down += found.reason in ("low_reliability", "weak_instrument")
    assert turned_down / 200 >= share


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"prior": [[0.2, 70.0]], "posterior": [[0.2, 0.3]]}, r"prior 70 at \(0, 1\) is not .* by 100"),
        ({"prior": [[0.2]], "posterior": [[np.inf]]}, r"posterior inf at \(0, 0\)"),
        ({"prior": [[0.2]], "posterior": [[-0.1]]}, r"posterior -0.1 at \(0, 0\)"),
        ({"prior": [[[0.2, 1.5]]], "posterior": [[[0.2, 0.3]]], "instrument": [[0.2]]}, r"prior 1.5 at \(0, 0, 1\)"),
        ({"prior": [[0.2]], "posterior": [[0.2]], "instrument": [[2]]}, r"instrument 2 at \(0, 0\)"),
        ({"prior": np.zeros((3, 2, 0)), "posterior": np.zeros((3, 2, 0))}, r"prior has shape \(3, 2, 0\) and .* steps"),
        ({"prior": [0.2], "posterior": [0.2]}, r"prior has shape \(1,\) and posterior \(1,\)"),
        ({"prior": [[0.2]], "posterior": [[0.2]], "instrument": [0.2]}, r"instrument has shape \(1,\), not \(1, 1\)"),
        ({"prior": [[0.2]], "posterior": [[0.2]], "cluster": ["a", "b"]}, "2 cluster names for 1 questions"),
        ({"prior": [[0.2]], "posterior": [[2]], "group": []}, "0 group names for 1 questions.*posterior 2 at"),
    ],
)
def test_bad_arrays_are_refused_with_every_problem(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        martingale_score(**arguments)


def test_beliefs_of_zero_and_one_and_missing_ones_are_taken() -> None:
    x = np.tile([[0.0, 0.0], [1.0, 1.0], [np.nan, 0.5]], (5, 1))
    found = martingale_score(x, np.where(np.isnan(x), np.nan, 0.5))
    assert found.estimate == pytest.approx(-1)
    assert found.n == 10
