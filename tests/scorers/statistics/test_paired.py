"""Paired differences: a known value, what they are invariant to, and the errors."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from scipy import stats

from truthgym.scorers.statistics.instrumented_slope import Slope
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.paired import (
    ONE_SEED,
    RunValues,
    compare_means,
    compare_recipes,
    compare_slopes,
    paired_difference,
)


def test_the_difference_is_after_minus_before() -> None:
    result = paired_difference([0.2, 0.2, np.nan, 0.5], [0.4, 0.1, 0.5, np.nan], ["a", "b", "c", "d"])
    assert result.estimate == pytest.approx(-0.05)
    assert result.n == 2
    np.testing.assert_equal(astuple(result), astuple(mean_estimate([0.2 - 0.4, 0.2 - 0.1], ["a", "b"])))


def test_it_ignores_the_level_of_each_question() -> None:
    rng = np.random.default_rng(0)
    before, level = rng.random(50), rng.normal(0, 100, 50)
    after = before + rng.normal(0.1, 0.2, 50)
    plain, shifted = paired_difference(after, before), paired_difference(after + level, before + level)
    assert shifted.estimate == pytest.approx(plain.estimate)
    assert shifted.upper - shifted.lower == pytest.approx(plain.upper - plain.lower)


def test_one_cluster_has_no_interval() -> None:
    result = paired_difference([0.1, 0.2], [0.0, 0.0], ["a", "a"])
    assert result.estimate == pytest.approx(0.15)
    assert np.isnan(result.lower)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="2 values after and 1 before"):
        paired_difference([0.1, 0.2], [0.1])


def test_epochs_are_averaged_and_unread_answers_left_out() -> None:
    after = {"a": [0.2, 0.4], "b": [0.5, np.nan], "c": [np.nan], "d": [0.1]}
    before = {"b": [0.1, 0.1], "a": [0.1], "c": [0.3]}
    result = compare_means(after, before, {"a": "e", "b": "f", "c": "g", "d": "h"})
    assert (result.before, result.after) == pytest.approx((0.1, 0.4))
    assert result.difference.estimate == pytest.approx(0.3)
    assert result.difference.n == 2


def test_a_difference_of_slopes_leaves_out_what_moves_both_alike() -> None:
    shared, own = np.random.default_rng(0).normal(0, 0.05, (2, 12))
    after = Slope(0.3, np.nan, np.nan, np.nan, 40, effective_clusters=11.0, influence=shared + own)
    before = Slope(0.1, np.nan, np.nan, np.nan, 38, effective_clusters=9.0, influence=shared)
    result = compare_slopes(after, before).difference
    half = stats.t.ppf(0.975, 8) * np.sqrt(np.sum(own**2))
    assert (result.estimate, result.lower, result.upper) == pytest.approx((0.2, 0.2 - half, 0.2 + half))
    assert (result.n, result.clusters, result.effective_clusters) == (38, 12, 9)
    assert np.isnan(compare_slopes(after, replace(before, effective_clusters=2.0)).difference.lower)


def test_the_change_of_the_control_is_subtracted_question_by_question() -> None:
    after, before = {"a": [0.9, 0.7], "b": [0.5], "c": [0.4], "d": [np.nan]}, {"a": [0.5], "b": [0.2], "c": [0.1]}
    control, start = {"a": [0.6], "b": [0.3], "d": [0.9]}, {"a": [0.4], "b": [0.4], "c": [0.0], "d": [0.0]}
    result = compare_recipes(after, before | {"d": [0.1]}, dict.fromkeys("abcd", "e"), (control, start))
    assert (result.after, result.before) == pytest.approx(((0.3 + 0.3) / 2, (0.2 - 0.1) / 2))
    assert result.difference.estimate == pytest.approx(0.3 - 0.05)
    assert result.difference.n == 2


def test_a_control_from_the_same_start_is_compared_with_it_alone() -> None:
    rng = np.random.default_rng(1)
    events = {q: q // 2 for q in range(40)}
    after, before, control = ({q: rng.random(3).tolist() for q in range(40)} for _ in range(3))
    result = compare_recipes(after, before, events, (control, before)).difference
    assert result.estimate == pytest.approx(compare_means(after, control, events).difference.estimate)
    assert np.isnan(result.lower), "one model in each arm"


def test_where_seeds_are_all_that_differs_the_test_is_welchs() -> None:
    rng = np.random.default_rng(3)
    after, control = rng.normal(0.5, 0.1, 5), rng.normal(0.4, 0.2, 7)
    arms = [[{q: [mean] for q in range(20)} for mean in means] for means in (after, control)]
    start = {q: [0.1] for q in range(20)}
    result = compare_recipes(arms[0], start, {q: q for q in range(20)}, (arms[1], start)).difference
    welch = stats.ttest_ind(after, control, equal_var=False).confidence_interval()
    assert (result.lower, result.upper) == pytest.approx((welch.low, welch.high))
    alone = compare_recipes(arms[0][:1], start, {q: q for q in range(20)})
    assert np.isnan(alone.difference.lower)
    assert alone.reason == ONE_SEED
    arms[0][0] |= {q: [np.nan] for q in range(3)}
    assert "85 % to 100 %" in compare_recipes(arms[0], start, {q: q for q in range(20)}).reason


def test_two_runs_are_compared_on_the_questions_that_both_answered() -> None:
    before, after = RunValues(), RunValues()
    for run, epochs in (
        (after, [("a", "1", 0.1), ("a", "1", 0.3), ("b", "1", 0.2), ("c", "2", np.nan), ("d", "3", 1.0)]),
        (before, [("a", "1", 0.4), ("b", "1", 0.1), ("b", "1", np.nan), ("c", "2", 0.5), ("d", "3", 1.0)]),
    ):
        for question, event, value in epochs:
            run.add(question, {"brier/brier_score": value}, event, "train" if question == "d" else "test")
    assert after.splits == {"a": "test", "b": "test", "c": "test", "d": "train"}
    test = after.among({"a", "b", "c"}).change(before, "brier/brier_score").row()
    assert test["n"] == 2
    assert test["difference"] == pytest.approx((-0.2 + 0.1) / 2)
    assert np.isnan(test["lower"]), "one event has no interval"
    assert np.isnan(after.change(before, "brier/brier_score").row(read=False)["mde"])
    assert after.among({"d"}).change(before, "brier/brier_score").difference.estimate == 0
    assert (after.mean("brier/brier_score").n, after.mean("length").n) == (3, 0)


def test_pairs_that_are_all_equal_say_how_many_could_still_differ() -> None:
    from scipy import stats

    same, events = {q: [1.0] for q in range(40)}, {q: q for q in range(40)}
    share = stats.binomtest(0, 40).proportion_ci(0.95, "exact").high
    bounded = compare_means(same, same, events, (0, 1)).difference
    assert (bounded.lower, bounded.upper) == pytest.approx((-share, share))
    assert bounded.mde == pytest.approx(share)
    percent = {q: [70.0] for q in range(40)}
    for endless in (compare_means(same, same, events), compare_means(percent, percent, events, (0, 1))):
        assert endless.difference.estimate == 0
        assert endless.difference.n == 40
        assert np.isnan([endless.difference.lower, endless.difference.upper, endless.difference.mde]).all()
