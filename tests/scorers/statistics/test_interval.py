import numpy as np
import pytest
from inspect_ai.scorer import SampleScore, Score, ci
from scipy import stats

from truthgym.scorers.statistics.interval import mean_estimate, ratio_estimate
from truthgym.scorers.statistics.power import planned_mde

RNG = np.random.default_rng(7)


def test_known_value_without_clusters() -> None:
    x = np.array([0.1, 0.4, 0.2, 0.3])
    half = stats.t.ppf(0.975, 3) * x.std(ddof=1) / 2
    result = mean_estimate(x)
    assert result.estimate == pytest.approx(0.25)
    assert (result.lower, result.upper) == pytest.approx((0.25 - half, 0.25 + half))
    assert result.mde == pytest.approx((stats.t.ppf(0.975, 3) + stats.t.ppf(0.8, 3)) * x.std(ddof=1) / 2)
    assert result.n == 4


def test_equal_to_inspect_and_to_statsmodels() -> None:
    import statsmodels.api as sm

    x = RNG.random(60)
    events = [f"e{i % 20}" for i in range(60)]  # unequal clusters need CR2, which neither has
    result = mean_estimate(x, events)
    scores = [SampleScore(score=Score(value=v), sample_metadata={"event": e}) for v, e in zip(x, events, strict=True)]
    bounds = ci(cluster="event")(scores)  # type: ignore[arg-type]  # Inspect still types metrics by its old protocol
    assert isinstance(bounds, dict)
    assert (result.lower, result.upper) == pytest.approx((bounds["lower"], bounds["upper"]), rel=1e-6)
    groups = np.unique(events, return_inverse=True)[1]
    fit = sm.OLS(x, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": groups, "df_correction": True}, use_t=True)
    # statsmodels multiplies the covariance by (n - 1) / (n - k) as well, which is 1 for a constant
    assert (result.lower, result.upper) == pytest.approx(tuple(fit.conf_int()[0]), rel=1e-9)


def test_order_does_not_matter_and_nan_leaves_a_question_out() -> None:
    x, events = RNG.random(30), [f"e{i % 10}" for i in range(30)]
    order = RNG.permutation(30)
    shuffled = mean_estimate(x[order], [events[i] for i in order])
    assert shuffled.metrics("x") == pytest.approx(mean_estimate(x, events).metrics("x"))
    with_gap = mean_estimate(np.append(x, np.nan), [*events, "other"])
    assert with_gap == mean_estimate(x, events)


def test_too_little_is_nan_and_never_an_error() -> None:
    assert mean_estimate([]).n == 0
    assert np.isnan(mean_estimate([]).estimate)
    entry = mean_estimate([0.3])
    assert entry.estimate == 0.3
    assert np.isnan([entry.lower, entry.upper, entry.mde]).all()
    two = mean_estimate([0.1, 0.2])
    assert [two.clusters, two.effective_clusters] == pytest.approx([2, 2])
    assert np.isnan([two.lower, two.upper, two.mde, two.stderr]).all(), "fewer than three clusters"
    assert np.isnan(mean_estimate([0.1, 0.2, 0.3], ["same"] * 3).lower)
    assert np.isfinite(mean_estimate([0.1, 0.2, 0.3]).lower)


def test_unequal_clusters_by_matrices() -> None:
    """Bell and McCaffrey's formulas with their matrices, for the regression on a constant."""
    x, events = RNG.random(20), [0] * 9 + [1] * 4 + [2, 2, 3, 3, 4, 5, 6]
    members = np.equal.outer(np.unique(events), events).astype(float)
    annihilator = np.eye(20) - 1 / 20
    vectors, variance = [], 0.0
    for inside in members:
        block = np.diag(inside) @ annihilator @ np.diag(inside)
        values, basis = np.linalg.eigh(block)
        values = np.where(values > 1e-9, values, np.inf)
        adjusted = (basis / np.sqrt(values)) @ basis.T @ inside / 20
        vectors.append(annihilator @ adjusted)
        variance += (adjusted @ (x - x.mean())) ** 2
    gram = np.array(vectors) @ np.array(vectors).T
    degrees = np.trace(gram) ** 2 / np.sum(gram**2)
    result = mean_estimate(x, events)
    assert result.stderr == pytest.approx(np.sqrt(variance))
    assert result.effective_clusters == pytest.approx(degrees + 1)
    assert result.upper - result.estimate == pytest.approx(stats.t.ppf(0.975, degrees) * np.sqrt(variance))
    assert 3 < result.effective_clusters < result.clusters == 7


def test_a_cluster_for_each_value() -> None:
    with pytest.raises(ValueError, match="longer"):
        mean_estimate([1, 2, 3], ["a", "b"])


def test_a_large_event_counts_for_less() -> None:
    """Events of 3, 9 and twelve of 1: 24 questions, and the sizes' squares sum to 102."""
    events = [0] * 3 + [1] * 9 + list(range(2, 14))
    result = [planned_mde(0.2, events, correlation) for correlation in (0.0, 1.0)]
    assert result[1] / result[0] == pytest.approx((102 / 24) ** 0.5)
    degrees = mean_estimate(RNG.normal(size=24), events).effective_clusters - 1
    assert result[0] == pytest.approx((stats.t.ppf(0.975, degrees) + stats.t.ppf(0.8, degrees)) * 0.2 / 24**0.5)


def test_a_planned_mde_needs_events() -> None:
    assert np.isnan([planned_mde(0.2, []), planned_mde(0.2, [0] * 20), planned_mde(0.2, [0, 1])]).all()


@pytest.mark.parametrize(("hits", "n"), [(0, 12), (1, 12), (20, 40), (71, 72), (72, 72)])
def test_right_and_wrong_answers_have_the_interval_of_clopper_and_pearson(hits: int, n: int) -> None:
    exact = stats.binomtest(hits, n).proportion_ci(0.95, "exact")
    values = [1.0] * hits + [0.0] * (n - hits)
    result, plain = mean_estimate(values, bounds=(0, 1)), mean_estimate(values)
    assert (result.lower, result.upper) == pytest.approx((exact.low, exact.high))
    reach = max(exact.high - result.estimate, result.estimate - exact.low)
    assert result.mde >= max(reach, plain.mde if 0 < hits < n else 0) - 1e-9
    assert (result.estimate, result.stderr) == (plain.estimate, plain.stderr)


def test_answers_that_agree_within_clusters_count_as_less_than_one_each() -> None:
    """Three copies of each of 30 answers tell no more than the 30, and a little less as this has to be estimated."""
    once = [1.0] * 25 + [0.0] * 5
    result = mean_estimate(np.repeat(once, 3), [i // 3 for i in range(90)], (0, 1))
    alone = mean_estimate(once, bounds=(0, 1))
    apart = (stats.t.ppf(0.975, 89) / stats.t.ppf(0.975, 29)) ** 2
    n = 1 + 29 * apart
    assert result.lower == pytest.approx(stats.beta.ppf(0.025, n * 25 / 30, n * 5 / 30 + 1))
    assert result.upper == pytest.approx(stats.beta.ppf(0.975, n * 25 / 30 + 1, n * 5 / 30))
    assert alone.lower - 0.02 < result.lower < alone.lower
    opposed = mean_estimate([0, 1] * 20, [i // 2 for i in range(40)], (0, 1))
    assert opposed.upper == pytest.approx(stats.binomtest(20, 40).proportion_ci(0.95, "exact").high)


def test_an_interval_does_not_leave_the_range() -> None:
    values = [1.0] * 30 + [0.5]
    result, plain = mean_estimate(values, bounds=(0, 1)), mean_estimate(values)
    assert plain.upper > 1 == result.upper
    assert (result.estimate, result.stderr) == (plain.estimate, plain.stderr)
    assert result.lower < plain.lower < result.estimate


@pytest.mark.parametrize("n", [20, 30, 100])
def test_few_misses_have_nearly_the_interval_of_clopper_and_pearson(n: int) -> None:
    """Everybody says 0.98: the Brier score is 0.0004 or 0.9604, and its mean is the share of misses, scaled."""
    for missed in range(5):
        values = np.where(np.arange(n) < missed, 0.9604, 0.0004)
        exact = stats.binomtest(missed, n).proportion_ci(0.95, "exact")
        other = np.where(np.arange(n) < missed, 0.0004, 0.9604)
        if missed:  # else all values are equal, and the end of the range is the bound
            result = mean_estimate(values, bounds=(0, 1), other=other)
            lower, upper = ((end - 0.0004) / 0.96 for end in (result.lower, result.upper))
            assert exact.low - 0.5 / n <= lower <= exact.low + 1e-3
            assert 0.99 * exact.high <= upper <= (1 + 3 / n) * exact.high
        guessed = mean_estimate(values + 1e-6 * np.arange(n), bounds=(0, 1))
        assert guessed.upper == pytest.approx(exact.high, rel=0.12)


def test_a_miss_counts_once_for_each_cluster_and_the_end_against_which_it_counts_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    values, events = np.repeat(rng.uniform(0, 0.001, 30), 4), [i // 4 for i in range(120)]
    clustered, alone = mean_estimate(values, events, (0, 1)), mean_estimate(values, None, (0, 1))
    assert clustered.upper == pytest.approx(mean_estimate(values[::4], None, (0, 1)).upper, rel=0.01)
    assert clustered.upper > 3 * alone.upper
    turned = mean_estimate(1 - values, events, (0, 1))
    assert (turned.lower, turned.upper, turned.mde) == pytest.approx(
        (1 - clustered.upper, 1 - clustered.lower, clustered.mde)
    )


def test_many_misses_leave_the_interval_as_it_was_but_for_its_skewness() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(2, 2, 100)
    values = (p - (rng.random(100) < p)) ** 2
    result, plain = mean_estimate(values, None, (0, 1), (1 - np.sqrt(values)) ** 2), mean_estimate(values)
    assert result.upper - result.lower == pytest.approx(plain.upper - plain.lower, rel=0.02)
    assert result.upper > plain.upper > plain.estimate > result.lower > plain.lower
    quality = 0.7 + 0.05 * rng.standard_normal(20)
    assert mean_estimate(quality, None, (0, 1)).lower > mean_estimate(quality).lower - 0.002


@pytest.mark.parametrize("p", [0.7, 0.9])
def test_the_mde_of_a_share_is_found_in_four_fifths_of_runs(p: float) -> None:
    """Exactly: a reference that far below the truth, and a truth that far from a reference where it was."""
    hits = np.arange(101)
    runs = [mean_estimate(np.arange(100) < k, bounds=(0, 1)) for k in hits]
    mde = runs[round(100 * p)].mde
    for truth, reference in ((p, p - mde), (p - mde, p)):
        found = np.array([not run.lower <= reference <= run.upper for run in runs])
        assert 0.77 <= stats.binom.pmf(hits, 100, truth) @ found <= 0.9


def test_the_interval_of_equal_values_between_the_ends_has_no_less_than_its_coverage() -> None:
    """By the variable that gives an equal value most often for its mean: the value, or the end of the range."""
    n, value = 20, 0.25
    result = mean_estimate([value] * n, bounds=(-1, 1))
    assert ((result.lower + 1) / (value + 1)) ** n == pytest.approx(0.025)
    assert ((1 - result.upper) / (1 - value)) ** n == pytest.approx(0.025)
    assert result.mde == pytest.approx(value - result.lower)
    clustered = mean_estimate([value] * n, [i // 4 for i in range(n)], bounds=(-1, 1))
    assert clustered.lower == mean_estimate([value] * 5, bounds=(-1, 1)).lower


def test_a_range_without_an_end_gives_one_bound() -> None:
    open_end = mean_estimate([2.0] * 9, bounds=(0, np.inf))
    assert 0 < open_end.lower < 2
    assert np.isnan([open_end.upper, open_end.mde]).all()
    with pytest.raises(ValueError, match="value 2 is outside"):
        mean_estimate([2.0] * 9, bounds=(0, 1))


def test_a_ratio_is_that_of_the_sums() -> None:
    result = ratio_estimate([1.0, 0, 2, 1.5, np.nan], [2.0, 0, 2, 2, 1])
    # Residuals -1/2, 1/2 and 0 over a mean of 2 below, and t of two degrees of freedom.
    half = 4.3027 * 0.25 / 3**0.5
    assert result.estimate == pytest.approx(0.75)
    assert (result.lower, result.upper) == pytest.approx((0.75 - half, 0.75 + half), abs=1e-4)
    assert result.n == 3, "questions with nothing below are not counted"
    alone = ratio_estimate([1.0, 0, 0], [2.0, 0, 0])
    assert alone.estimate == 0.5
    assert np.isnan([alone.lower, alone.upper]).all(), "one question tells nothing of the others"
    assert np.isnan([ratio_estimate(*rows).estimate for rows in (([], []), ([np.nan], [1]), ([1.0], [0]))]).all()
