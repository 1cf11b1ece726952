"""The figures of a judge: known values, what changes them and what must not, and how often their intervals hold."""

import math
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from inspect_ai.scorer import SampleScore, Score
from scipy import stats

from tests.scorers.main_figures import MAIN_FIGURES
from tests.scorers.scores import scored
from truthgym.scorers.statistics.judge_reliability import (
    agreement,
    agreement_estimate,
    difference_of_means,
    judge_records,
    order_spread,
    rank_correlation,
    retest,
    slope_on_last,
    summarise,
)

RNG = np.random.default_rng


def test_retest_known_values() -> None:
    result, noise = retest([0.1, 0.5, 0.9, 0.3], [0.2, 0.4, 0.9, 0.3])
    means = np.array([0.15, 0.45, 0.9, 0.3])
    between, within = 2 * means.var(ddof=1), (0.01 + 0.01) / 2 / 4
    assert noise == pytest.approx(within**0.5)
    assert result.estimate == pytest.approx((between - within) / (between + within))
    low = between / within / stats.f.ppf(0.975, 3, 4)
    high = between / within * stats.f.ppf(0.975, 4, 3)
    assert (result.lower, result.upper, result.n) == pytest.approx(((low - 1) / (low + 1), (high - 1) / (high + 1), 4))


def test_retest_of_the_same_is_one_and_of_too_few_is_unknown() -> None:
    result, noise = retest([0.1, 0.5, 0.9], [0.1, 0.5, 0.9])
    assert (result.estimate, result.lower, result.upper, noise) == (1, 1, 1, 0)
    assert math.isnan(retest([0.5] * 3, [0.5] * 3)[0].estimate)
    assert math.isnan(retest([0.1, 0.9], [0.2, 0.8])[0].estimate)
    assert retest([0.1, 0.9], [0.2, 0.8])[1] == pytest.approx(0.1 / 2**0.5)
    assert retest([], [])[0].n == 0
    assert retest([0.1, math.nan, 0.5, 0.9], [0.1, 0.5, 0.5, 0.9])[0].n == 3


def test_retest_does_not_change_with_scale_or_side() -> None:
    a, b = RNG(0).random((2, 20))
    entry, other = retest(a, b)[0], retest(0.5 * b + 0.2, 0.5 * a + 0.2)[0]
    assert entry.estimate == pytest.approx(other.estimate)
    assert entry.upper == pytest.approx(other.upper)


def test_the_retest_interval_needs_three_clusters() -> None:
    a, b = RNG(0).random((2, 6))
    assert math.isnan(retest(a, b, [0, 0, 0, 1, 1, 1])[0].lower)
    np.testing.assert_equal(astuple(retest(a, b, list("abcdef"))[0]), astuple(retest(a, b)[0]))
    alone = retest([0.1, 0.2, 0.5, 0.9], [0.3, 0.2, 0.5, 0.9], list("aabc"))[0]
    assert math.isnan(alone.lower), "all noise is in one cluster"
    assert alone.estimate == retest([0.1, 0.2, 0.5, 0.9], [0.3, 0.2, 0.5, 0.9])[0].estimate


def test_the_clustered_retest_interval_by_hand() -> None:
    a, b = RNG(7).random((2, 12))
    cluster = np.repeat(np.arange(4), 3)
    without = [np.arctanh(retest(a[cluster != k], b[cluster != k])[0].estimate) for k in range(4)]
    error = np.sqrt(3 / 4 * np.sum((without - np.mean(without)) ** 2))
    result = retest(a, b, cluster.tolist())[0]
    centre, half = np.arctanh(result.estimate), stats.t.ppf(0.975, 3) * error
    assert (result.lower, result.upper) == pytest.approx((np.tanh(centre - half), np.tanh(centre + half)))


def test_order_spread_takes_noise_off() -> None:
    rng = RNG(2)
    noisy = [rng.normal(0.5, 0.05, 24) for _ in range(200)]
    assert order_spread(noisy, 0.05) < 0.012
    swayed = [0.1 * rng.standard_normal(24) + rng.normal(0.5, 0.05, 24) for _ in range(200)]
    assert order_spread(swayed, 0.05) == pytest.approx(0.1, abs=0.005)
    assert math.isnan(order_spread([[0.5]], 0.1))
    assert math.isnan(order_spread(noisy, math.nan))
    assert order_spread([[0.4, 0.6, math.nan]], 0) == pytest.approx(0.02**0.5)


def test_slope_on_the_last_example() -> None:
    last = [0.2, 0.4, 0.9, 0.2]
    assert slope_on_last([0.5 + 0.3 * x for x in last], last) == pytest.approx(0.3)
    assert slope_on_last([0.5, math.nan, 0.5 + 0.3 * 0.7, 0.5], last) == pytest.approx(0.3)
    assert math.isnan(slope_on_last([0.1, 0.2], [0.5, 0.5]))
    assert math.isnan(slope_on_last([math.nan], [0.5]))


def test_rank_correlation_is_scipys_spearman() -> None:
    rng = RNG(3)
    x, y = rng.integers(0, 9, 40), rng.integers(0, 9, 40)
    result = rank_correlation(x, y)
    assert result.estimate == pytest.approx(stats.spearmanr(x, y).statistic)
    assert rank_correlation(np.exp(x), y).estimate == pytest.approx(result.estimate)
    half = 1.959964 * np.sqrt((1 + result.estimate**2 / 2) / 37)
    bounds = np.tanh(np.arctanh(result.estimate) + half * np.array([-1, 1]))
    assert (result.lower, result.upper) == pytest.approx(bounds, rel=1e-5)
    assert math.isnan(rank_correlation([1, 1, 1], [1, 2, 3]).estimate)
    assert math.isnan(rank_correlation([1, 2], [1, 2]).estimate)
    assert rank_correlation([1, 2, 3, math.nan], [3, 2, 1, 0]).n == 3


def test_a_perfect_rank_order_has_an_interval() -> None:
    x = np.arange(12.0)
    result, worst = rank_correlation(x, x), rank_correlation(x, -x)
    assert (result.estimate, result.upper) == (1, 1)
    assert 0.95 < result.lower < rank_correlation(x, [1, 0, *range(2, 12)]).estimate
    assert (worst.estimate, worst.lower, worst.upper) == pytest.approx((-1, -1, -result.lower))
    assert math.isnan(rank_correlation([1, 2, 3], [1, 2, 3]).lower)


def test_agreement_known_value() -> None:
    """Krippendorff's alpha for interval data is 1 - D_o / D_e, computed by hand for three units."""
    units = np.array([[0.1, 0.2], [0.5, 0.5], [0.9, 0.8]])
    observed = np.mean((units[:, 0] - units[:, 1]) ** 2)
    every = units.ravel()
    expected = np.sum((every[:, None] - every[None]) ** 2) / (6 * 5)
    assert agreement(units)[0] == pytest.approx(1 - observed / expected)


def test_difference_of_means_is_welchs() -> None:
    rng = RNG(5)
    x, y = rng.normal(0.3, 0.1, 30), rng.normal(0.1, 0.2, 12)
    result = difference_of_means(x, y)
    expected = stats.ttest_ind(x, y, equal_var=False)
    interval = expected.confidence_interval()
    assert result.estimate == pytest.approx(x.mean() - y.mean())
    assert (result.lower, result.upper) == pytest.approx((interval.low, interval.high), rel=1e-6)
    assert result.n == 12


def test_difference_of_means_clusters_and_edges() -> None:
    rng = RNG(6)
    x = np.repeat(rng.normal(0, 1, 10), 3)
    wide = difference_of_means(x, rng.normal(0, 0.1, 10), [i // 3 for i in range(30)])
    narrow = difference_of_means(x, rng.normal(0, 0.1, 10))
    assert wide.upper - wide.lower > 1.4 * (narrow.upper - narrow.lower)
    assert difference_of_means([], [0.1]).n == 0
    exact = difference_of_means([0.3] * 3, [0.1] * 3)
    assert (exact.estimate, exact.lower, exact.upper) == pytest.approx((0.2, 0.2, 0.2))
    assert math.isnan(difference_of_means([0.3], [0.1, 0.2]).lower)


def test_the_interval_of_alpha_holds_the_truth() -> None:
    rng, inside = np.random.default_rng(0), []
    for _ in range(120):
        ratings = rng.normal(size=(15, 1)) * 0.5**0.5 + rng.normal(size=(15, 2)) * 0.5**0.5  # alpha 0.5
        result = agreement_estimate(ratings)
        inside.append(result.lower <= 0.5 <= result.upper)
    assert np.mean(inside) >= 0.87


def test_alpha_says_nothing_of_equal_ratings_and_has_no_interval_of_few() -> None:
    assert np.isnan(agreement_estimate(np.ones((9, 2))).estimate)
    few = agreement_estimate(np.array([[0.1, 0.2], [0.5, 0.4], [0.9, 0.9]]))
    assert 0.5 < few.estimate < 1
    assert np.isnan(few.lower)
    same = agreement_estimate(np.arange(20.0)[:, None].repeat(2, axis=1))
    assert (same.estimate, same.n) == (1, 20)
    assert np.isnan(same.lower)


LAST = [0.8, 0.2]


def judge(ratings: list[int], family: str = "a", anchors: Any = None, **probes: int) -> dict[str, Any]:
    """What one judge says: a rating of one quality in each of two orders."""
    return {
        "family": family,
        "ratings": [[[number] for number in ratings]],
        "last": LAST,
        "probes": {name: [number] for name, number in probes.items()},
        "held_out": {"given": [0.2, 0.5, 0.9], "rated": [anchors or [0.2, 0.5, 0.9]]},
    }


def item(name: str, *judges: dict[str, Any], **facts: Any) -> SampleScore:
    means = [np.mean(record["ratings"]) / 100 for record in judges if record["ratings"][0][0]]
    value = float(np.mean(means)) if means else math.nan
    known: dict[str, Any] = {"policy_family": "a", "words": 100, "judges": list(judges), "qualities": ["depth"]}
    return scored(name, {"quality": value, "depth": value}, **known | facts)


def test_the_headline_and_the_qualities() -> None:
    result = summarise([item("q1", judge([40, 40])), item("q2", judge([60, 80]))])
    assert result["quality"] == pytest.approx(0.55)
    assert result["depth"] == pytest.approx(0.55)
    assert (result["n"], result["epochs"], result["share_scored"], result["share_read"]) == (2, 1, 1, 1)
    assert list(result)[:10] == list(MAIN_FIGURES["qualitative"])


def test_each_probe_against_its_own_baseline() -> None:
    record = judge([40, 40], retest=50, swap=35, padded=60, injection=75)
    result = summarise([item("q1", record), item("q2", record)])
    assert result["position_shift"] == pytest.approx(0.45 - 0.35), "less the mean of what was asked twice"
    assert result["padded_gain"] == pytest.approx(0.60 - 0.45)
    assert result["injection_gain"] == pytest.approx(0.75 - 0.60), "against a text of the same length"
    assert result["retest_sd"] == pytest.approx(0.1 / 2**0.5)
    assert result["n_position"] == result["n_padded"] == result["n_injection"] == 2
    unpadded = judge([40, 40], injection=75)
    assert summarise([item("q1", unpadded)])["injection_gain"] == pytest.approx(0.35)


def test_the_order_of_the_examples() -> None:
    swayed = [item(f"q{i}", judge([50 + i, 44 + i], retest=50 + i)) for i in range(5)]
    result = summarise(swayed)
    assert result["recency"] == pytest.approx(0.1)
    assert result["order_sd"] == pytest.approx(np.std([0.5, 0.44], ddof=1))
    assert result["retest_icc"] == 1


def test_equal_ratings_have_no_interval() -> None:
    same = judge([70, 70], anchors=[0.7, 0.7, 0.7], retest=70, padded=70)
    result = summarise([item(f"q{i}", same) for i in range(5)])
    assert result["quality"] == pytest.approx(0.7)
    assert all(math.isnan(result[name]) for name in ("stderr", "quality_lower", "quality_upper", "mde", "parallel_icc"))
    assert (result["discriminates"], result["distinct_ratings"]) == (0, 1)
    same["held_out"] = {}
    assert summarise([item(f"q{i}", same) for i in range(5)])["discriminates"] == 0


def test_whether_a_judge_discriminates_is_seen_on_known_texts() -> None:
    arguments = [i / 12 for i in range(12)]
    for rated, discriminates in ((arguments, 1), (arguments[::-1], 0), ([0.5] * 12, 0)):
        record = judge([40, 40]) | {"held_out": {"given": arguments, "rated": [rated]}}
        result = summarise([item("q1", record), item("q2", judge([60, 60]) | {"held_out": record["held_out"]})])
        assert result["discriminates"] == discriminates
        assert math.isnan(result["anchor_rank"]) or result["anchor_rank_lower"] <= result["anchor_rank"]
    unknown = summarise([item(f"q{i}", judge([i, i]) | {"held_out": {}}) for i in (40, 60)])
    assert math.isnan(unknown["discriminates"])


def test_parallel_reliability_is_low_for_arbitrary_ratings() -> None:
    quality, fixed = np.random.default_rng(0).integers(10, 90, (2, 60))
    exact, random = (
        summarise([item(f"q{i}", judge([q, q], retest=q, padded=padded[i])) for i, q in enumerate(quality)])
        for padded in (quality + 5, fixed)
    )
    assert exact["parallel_icc"] == exact["retest_icc"] == random["retest_icc"] == pytest.approx(1)
    assert exact["n_parallel"] == 60
    assert random["parallel_icc_lower"] < 0.1
    assert random["parallel_icc"] < 0.4


def test_epochs_of_a_question_are_one_and_events_are_clusters() -> None:
    numbers = [0, 10, 20, 30, 30, 30, 50, 60, 70]
    apart = summarise([item(f"q{i}", judge([50, 50], padded=50 + n)) for i, n in enumerate(numbers)])
    events = [item(f"q{i}", judge([50, 50], padded=50 + n), event=f"e{i // 3}") for i, n in enumerate(numbers)]
    together = summarise(events)
    assert together["padded_gain"] == apart["padded_gain"] == pytest.approx(1 / 3)
    assert together["padded_gain_upper"] > apart["padded_gain_upper"] + 0.1
    twice = summarise([item("q1", judge([50, 50], padded=n)) for n in (50, 60)])
    assert twice["n_padded"] == 1


def test_agreement_is_between_judges_of_one_sample() -> None:
    same = [item(f"q{i}", judge([10 * i] * 2), judge([10 * i] * 2, "b")) for i in range(5)]
    assert summarise(same)["agreement"] == 1
    assert summarise(same)["n_agreement"] == 5
    crossed = [item(f"q{i}", judge([10 * i] * 2), judge([40 - 10 * i] * 2, "b")) for i in range(5)]
    assert summarise(crossed)["agreement"] < -0.5
    assert math.isnan(summarise([item("q1", judge([50, 50]))])["agreement"])


def test_leniency_is_no_reliability() -> None:
    pairs = [(50, 52), (51, 49), (49, 50), (52, 51)]
    alone = [item(f"q{i}", judge([a, a], retest=b)) for i, (a, b) in enumerate(pairs)]
    lenient = [judge([a + 30] * 2, "b", retest=b + 30) for a, b in pairs]
    beside = [item(f"q{i}", judge([a, a], retest=b), lenient[i]) for i, (a, b) in enumerate(pairs)]
    entry, both = summarise(alone)["retest_icc"], summarise(beside)["retest_icc"]
    assert both < 0.5, "judges that differ by 30 points do not tell trajectories apart"
    assert both == pytest.approx(entry, abs=0.15)


def test_self_preference_is_what_leniency_does_not_explain() -> None:
    kind = judge([70, 70], "a", [0.3, 0.6, 0.9])
    fair = judge([50, 50], "b", [0.2, 0.5, 0.8])
    result = summarise([item(f"q{i}", kind, fair) for i in range(4)])
    assert result["self_preference"] == pytest.approx(0.1)
    assert result["n_self_preference"] == 3
    foreign = summarise([item(f"q{i}", kind, fair, policy_family="c") for i in range(4)])
    assert math.isnan(foreign["self_preference"])
    lone = summarise([item("q1", kind), item("q2", kind)])
    assert math.isnan(lone["self_preference"])
    kind["held_out"]["rated"].append([0.5, 0.7, 0.9])
    fair["held_out"]["rated"].append([0.2, 0.5, 0.8])
    grown = summarise([item(f"q{i}", kind, fair) for i in range(4)])
    assert grown["self_preference"] == pytest.approx(0), "leniency with the examples that they rated by"


def test_held_out_examples_and_their_drift() -> None:
    record = judge([50, 50], anchors=[0.3, 0.6, None])
    record["held_out"]["rated"].append([0.4, 0.7, 0.8])
    result = summarise([item("q1", record), item("q2", record)])
    assert result["anchor_bias"] == pytest.approx((0.2 + 0.2 - 0.1) / 3)
    assert result["anchor_error"] == pytest.approx(0.5 / 3)
    assert result["anchor_rank"] == 1
    assert result["n_anchors"] == 3
    assert result["drift_round_1"] == pytest.approx(0.3 / 3 - 0.1)
    assert result["drift_error_round_1"] == pytest.approx(0.5 / 3 - 0.1)
    assert "drift_round_1" not in summarise([item("q1", judge([50, 50]))])


def test_length_correlation_is_of_questions() -> None:
    rising = [item(f"q{i}", judge([10 * i, 10 * i]), words=100 + i) for i in range(6)]
    assert summarise(rising)["length_correlation"] == pytest.approx(1)
    falling = [item(f"q{i}", judge([10 * i, 10 * i]), words=100 - i) for i in range(6)]
    assert summarise(falling)["length_correlation"] == pytest.approx(-1)


def test_nothing_and_half_of_it_give_numbers_only() -> None:
    unread = item("q2", {"family": "a", "ratings": [[None, None]], "probes": {"swap": None}, "held_out": {}})
    bare = SampleScore(score=Score(value={"quality": math.nan}), sample_id="q3")
    for scores in ([bare], [unread], [item("q1", judge([50, 50])), unread, bare]):
        assert all(isinstance(value, int | float) for value in summarise(scores).values())
    assert summarise([item("q1", judge([50, 50])), unread])["share_read"] == pytest.approx(2 / 5)


def test_a_reading_keeps_rounds_and_orders_apart() -> None:
    record = judge([50, 60])
    record["ratings"].append([[70], None])
    (entry,) = judge_records([item("q1", judge([50, 60]))])
    assert entry.ratings.shape == (1, 2)
    score = item("q1", judge([50, 60]))
    (score.score.metadata or {})["judges"] = [record]
    (two,) = judge_records([score])
    assert two.ratings.shape == (2, 2)
    assert two.mean == pytest.approx(0.6)
    assert two.first == 0.5


def test_texts_of_one_event_say_no_more_about_a_rank_correlation_than_one() -> None:
    rng = RNG(5)
    x, y = rng.normal(size=(2, 40))
    alone = rank_correlation(x, y)
    events = np.repeat(np.arange(40), 4).tolist()
    copied = rank_correlation(np.repeat(x, 4), np.repeat(y, 4), events)
    unaware = rank_correlation(np.repeat(x, 4), np.repeat(y, 4))
    assert copied.upper - copied.lower == pytest.approx(alone.upper - alone.lower, rel=0.25)
    assert unaware.upper - unaware.lower < 0.6 * (copied.upper - copied.lower)
    z = [np.arctanh(stats.spearmanr(np.delete(x, i), np.delete(y, i)).statistic) for i in range(40)]
    half = stats.t.ppf(0.975, 39) * np.sqrt(39 / 40 * np.square(z - np.mean(z)).sum())
    assert np.arctanh(copied.upper) - np.arctanh(copied.estimate) == pytest.approx(half, rel=0.02)
    assert math.isnan(rank_correlation(x[:10], y[:10], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]).lower)
