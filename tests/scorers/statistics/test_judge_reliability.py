"""The figures of a judge: known values, what changes them and what must not, and how often their intervals hold."""

import math
from dataclasses import astuple

import numpy as np
import pytest
from scipy import stats

from truthgym.scorers.judges.asking import model_vendor
from truthgym.scorers.statistics.judge_reliability import (
    agreement,
    agreement_estimate,
    difference_of_means,
    order_spread,
    rank_correlation,
    retest,
    slope_on_last,
)

RNG = np.random.default_rng


def test_retest_known_values() -> None:
    found, noise = retest([0.1, 0.5, 0.9, 0.3], [0.2, 0.4, 0.9, 0.3])
    means = np.array([0.15, 0.45, 0.9, 0.3])
    between, within = 2 * means.var(ddof=1), (0.01 + 0.01) / 2 / 4
    assert noise == pytest.approx(within**0.5)
    assert found.estimate == pytest.approx((between - within) / (between + within))
    low = between / within / stats.f.ppf(0.975, 3, 4)
    high = between / within * stats.f.ppf(0.975, 4, 3)
    assert (found.lower, found.upper, found.n) == pytest.approx(((low - 1) / (low + 1), (high - 1) / (high + 1), 4))


def test_retest_of_the_same_is_one_and_of_too_few_is_unknown() -> None:
    found, noise = retest([0.1, 0.5, 0.9], [0.1, 0.5, 0.9])
    assert (found.estimate, found.lower, found.upper, noise) == (1, 1, 1, 0)
    assert math.isnan(retest([0.5] * 3, [0.5] * 3)[0].estimate)
    assert math.isnan(retest([0.1, 0.9], [0.2, 0.8])[0].estimate)
    assert retest([0.1, 0.9], [0.2, 0.8])[1] == pytest.approx(0.1 / 2**0.5)
    assert retest([], [])[0].n == 0
    assert retest([0.1, math.nan, 0.5, 0.9], [0.1, 0.5, 0.5, 0.9])[0].n == 3


def test_retest_does_not_change_with_scale_or_side() -> None:
    a, b = RNG(0).random((2, 20))
    one, other = retest(a, b)[0], retest(0.5 * b + 0.2, 0.5 * a + 0.2)[0]
    assert one.estimate == pytest.approx(other.estimate)
    assert one.upper == pytest.approx(other.upper)


def test_the_retest_interval_holds_what_is_planted() -> None:
    rng, hits = RNG(1), 0
    for _ in range(400):
        true = rng.normal(0.5, 0.2, 30)
        a, b = true + rng.normal(0, 0.1, (2, 30))
        found, _ = retest(a, b)
        hits += found.lower <= 0.8 <= found.upper
    assert 0.92 <= hits / 400 <= 0.98


@pytest.mark.parametrize(("questions", "epochs", "judges"), [(20, 3, 1), (20, 3, 2)], ids=["epochs", "judges"])
def test_the_retest_interval_is_clustered_by_question(questions: int, epochs: int, judges: int) -> None:
    rng, hits, naive = RNG(2), 0, 0
    cluster = np.repeat(np.arange(questions), epochs * judges)
    for _ in range(400):
        texts = rng.normal(0.5, 0.1, (questions, 1)) + rng.normal(0, 0.03, (questions, epochs))
        true = np.repeat(texts.ravel(), judges)
        a, b = true + rng.normal(0, 0.05, (2, true.size))
        planted = 0.0109 / (0.0109 + 0.0025)
        found, plain = retest(a, b, cluster.tolist())[0], retest(a, b)[0]
        assert found.estimate == plain.estimate
        hits += found.lower <= planted <= found.upper
        naive += plain.lower <= planted <= plain.upper
    assert 0.91 <= hits / 400 <= 0.98
    assert naive / 400 < 0.89, "the plain interval is too narrow here"


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
    found = retest(a, b, cluster.tolist())[0]
    centre, half = np.arctanh(found.estimate), stats.t.ppf(0.975, 3) * error
    assert (found.lower, found.upper) == pytest.approx((np.tanh(centre - half), np.tanh(centre + half)))


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
    found = rank_correlation(x, y)
    assert found.estimate == pytest.approx(stats.spearmanr(x, y).statistic)
    assert rank_correlation(np.exp(x), y).estimate == pytest.approx(found.estimate)
    half = 1.959964 * np.sqrt((1 + found.estimate**2 / 2) / 37)
    bounds = np.tanh(np.arctanh(found.estimate) + half * np.array([-1, 1]))
    assert (found.lower, found.upper) == pytest.approx(bounds, rel=1e-5)
    assert math.isnan(rank_correlation([1, 1, 1], [1, 2, 3]).estimate)
    assert math.isnan(rank_correlation([1, 2], [1, 2]).estimate)
    assert rank_correlation([1, 2, 3, math.nan], [3, 2, 1, 0]).n == 3


def test_a_perfect_rank_order_has_an_interval() -> None:
    x = np.arange(12.0)
    found, worst = rank_correlation(x, x), rank_correlation(x, -x)
    assert (found.estimate, found.upper) == (1, 1)
    assert 0.95 < found.lower < rank_correlation(x, [1, 0, *range(2, 12)]).estimate
    assert (worst.estimate, worst.lower, worst.upper) == pytest.approx((-1, -1, -found.lower))
    assert math.isnan(rank_correlation([1, 2, 3], [1, 2, 3]).lower)


def test_the_rank_interval_of_twelve_texts_holds() -> None:
    rng = RNG(8)
    for noise, least in ((0.06, 0.92), (0.2, 0.93), (np.inf, 0.93)):

        def rated(quality: np.ndarray, noise: float = noise) -> np.ndarray:
            drawn = rng.random(quality.shape) if noise == np.inf else quality + rng.normal(0, noise, quality.shape)
            return np.round(100 * np.clip(drawn, 0, 1))

        many = rng.uniform(0.1, 0.9, 20_000)
        true = stats.spearmanr(many, rated(many)).statistic
        runs = [rank_correlation(quality, rated(quality)) for quality in rng.uniform(0.1, 0.9, (500, 12))]
        assert least <= np.mean([run.lower <= true <= run.upper for run in runs]) <= 0.98, noise


def test_agreement_of_equal_and_independent_ratings() -> None:
    rng = RNG(4)
    x = rng.random(200)
    assert agreement(np.stack([x, x], axis=1)) == (1, 200)
    assert abs(agreement(rng.random((400, 2)))[0]) < 0.1
    lenient, _ = agreement(np.stack([x, x + 0.3], axis=1))
    assert lenient < 0.8
    assert math.isnan(agreement(np.array([[0.1, math.nan], [0.2, 0.3]]))[0])


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
    found = difference_of_means(x, y)
    known = stats.ttest_ind(x, y, equal_var=False)
    interval = known.confidence_interval()
    assert found.estimate == pytest.approx(x.mean() - y.mean())
    assert (found.lower, found.upper) == pytest.approx((interval.low, interval.high), rel=1e-6)
    assert found.n == 12


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


FAMILIES = {
    "openai/gpt-5-mini": "openai",
    "openai/o3": "openai",
    "azureai/gpt-4o": "openai",
    "openrouter/anthropic/claude-opus-4.1": "anthropic",
    "bedrock/claude-3": "anthropic",
    "google/gemini-2.5-pro": "google",
    "hf/meta-llama/Llama-3.1-8B": "meta",
    "together/Qwen/Qwen3-8B": "qwen",
    "reference/judge": "reference",
    "mockllm/model": "mockllm",
    "human/terminal": "human",
    "hf/orca/o3x": "hf",
}


@pytest.mark.parametrize("model", list(FAMILIES))
def test_families(model: str) -> None:
    assert model_vendor(model) == FAMILIES[model]


def test_the_interval_of_alpha_holds_the_truth_more_often_than_a_bootstrap() -> None:
    rng = np.random.default_rng(0)
    inside, bootstrapped = [], []
    for _ in range(120):
        ratings = rng.normal(size=(15, 1)) * 0.5**0.5 + rng.normal(size=(15, 2)) * 0.5**0.5  # alpha 0.5
        found = agreement_estimate(ratings)
        inside.append(found.lower <= 0.5 <= found.upper)
        draws = ratings[rng.integers(0, 15, (300, 15))]
        within = np.mean(np.var(draws, axis=2, ddof=1), axis=1)
        low, high = np.quantile(1 - within / np.var(draws.reshape(300, -1), axis=1, ddof=1), [0.025, 0.975])
        bootstrapped.append(low <= 0.5 <= high)
    assert np.mean(inside) >= 0.87
    assert np.mean(inside) >= np.mean(bootstrapped)


def test_alpha_says_nothing_of_equal_ratings_and_has_no_interval_of_few() -> None:
    assert np.isnan(agreement_estimate(np.ones((9, 2))).estimate)
    few = agreement_estimate(np.array([[0.1, 0.2], [0.5, 0.4], [0.9, 0.9]]))
    assert 0.5 < few.estimate < 1
    assert np.isnan(few.lower)
    same = agreement_estimate(np.arange(20.0)[:, None].repeat(2, axis=1))
    assert (same.estimate, same.n) == (1, 20)
    assert np.isnan(same.lower)
