"""The objective of a search: known values, its limits, and judges and rubrics that try to game it."""

import math
from itertools import permutations

import numpy as np
import pytest

from truthgym.training.search.candidates import by_rank
from truthgym.training.search.engine import MODES, Mode, choose_mode, mode_weights, select
from truthgym.training.search.objective import (
    PromptScores,
    Weights,
    behavioural_distance,
    distinguished,
    objective,
    tail_size,
    true_tail,
    win_shares,
)

PLAIN = Weights(lambda_var=0, mu_diverse=0, prior=0)


def prompt(scores: list[float], quality: list[float], variance: float = np.nan, sources: str = "") -> PromptScores:
    labels = by_rank([-value for value in quality])
    return PromptScores(
        np.array(scores, dtype=float), np.full(len(scores), variance), labels, tuple(sources or "a" * len(scores))
    )


def total(*prompts: PromptScores, weights: Weights = PLAIN) -> float:
    return objective(prompts, weights).total.estimate


def test_the_tail_is_chosen_by_the_labels() -> None:
    assert [tail_size(n, 0.25) for n in (2, 4, 8, 9, 16)] == [2, 2, 2, 3, 4]
    assert true_tail(by_rank([1, 2, 3, 4]), 0.25).tolist() == [True, True, False, False]
    assert true_tail(by_rank([1, 2, 2, 4]), 0.25).tolist() == [True, True, True, False], "with a tie at its end"
    assert win_shares(by_rank([1, 2, 2])).tolist() == [1, 0.25, 0.25]


def test_known_value() -> None:
    # The tail is a, b. Pairs: ab wrong; ac right, ad tied, bc right, bd right.
    scored = prompt([0.5, 0.6, 0.1, 0.5], [4, 3, 2, 1], sources="wwxx")
    across = (1 + 0.5 + 1 + 1) / 4
    acc = (0 + across) / 2
    result = objective([scored], PLAIN)
    assert result.tail_acc == pytest.approx(acc)
    assert (result.pairs, result.diverse_pairs) == (5, 4)
    assert result.diverse_tail_acc == pytest.approx(across)
    assert result.recall == pytest.approx((1 + 0.5) / 2), "a and d share the second place"
    shrunk = 0.5 + 5 / 13 * (acc - 0.5)
    diverse = 0.5 + 4 / 12 * (across - 0.5)
    assert total(scored, weights=Weights(lambda_var=0)) == pytest.approx(shrunk + 0.25 * diverse)


def test_limits() -> None:
    good = prompt([3, 2, 1], [3, 2, 1])
    assert total(good) == 1
    assert total(prompt([1, 2, 3], [3, 2, 1])) == 0
    far = Weights(lambda_var=0, mu_diverse=0.4, prior=1e12)
    assert total(good, weights=far) == pytest.approx(0.5 * 1.4)
    assert math.isnan(objective([good, good], PLAIN).total.lower), "no interval from two prompts"
    three = objective([good, good, prompt([1, 2, 3], [3, 2, 1])], PLAIN).total
    assert three.estimate == pytest.approx(2 / 3)
    half = 4.302653 * np.std([1, 1, 0], ddof=1) / 3**0.5
    assert (three.lower, three.upper) == pytest.approx((2 / 3 - half, 2 / 3 + half))


def test_the_order_of_candidates_does_not_matter() -> None:
    scores, quality = [0.9, 0.2, 0.5, 0.4], [1, 4, 3, 2]
    values = {
        round(total(prompt([scores[i] for i in order], [quality[i] for i in order])), 9)
        for order in permutations(range(4))
    }
    assert len(values) == 1


def test_weak_answers_on_top_gain_nothing() -> None:
    """The rubric puts the two weakest answers on top, in the right order: by its own tail it would be perfect."""
    quality = [float(i) for i in range(8)]
    gaming = [0.8, 0.9, *[0.1] * 6]
    # Within the tail a tie; of twelve other pairs four are wrong and eight are ties: below chance.
    assert total(prompt(gaming, quality)) == pytest.approx((0.5 + 8 * 0.5 / 12) / 2)
    rng = np.random.default_rng(1)
    noisy = np.mean([total(prompt((quality + rng.normal(0, 2, 8)).tolist(), quality)) for _ in range(200)])
    assert noisy > 0.75
    assert objective([prompt(gaming, quality)], PLAIN).recall == 0


def test_distinguished_needs_more_than_the_noise() -> None:
    quality = [2.0, 1.0, 0.0]
    assert distinguished(prompt([0.9, 0.5, 0], quality), 1, 0.05)
    assert not distinguished(prompt([0.52, 0.5, 0], quality), 1, 0.05)
    assert not distinguished(prompt([0.5, 0.9, 0], quality), 1, 0.05), "the wrong order"
    noise = 1.96 * math.sqrt(2 * 0.09 / 2)
    assert not distinguished(prompt([0.5 + noise - 0.01, 0.5, 0], quality, 0.09), 2, 0.05)
    assert distinguished(prompt([0.5 + noise + 0.01, 0.5, 0], quality, 0.09), 2, 0.05)
    assert not distinguished(prompt([0.9, 0.1, 0.1], [1, 1, 0]), 1, 0.05), "the labels do not order the best two"


def test_behavioural_distance() -> None:
    up, down, flat = np.array([1.0, 2, 3]), np.array([3.0, 2, 1]), np.array([1.0, 1, 1])
    assert behavioural_distance([up], [up * 7 + 1]) == 0
    assert behavioural_distance([up], [down]) == 1
    assert behavioural_distance([up], [flat]) == 0.5
    assert behavioural_distance([up, up], [up, down]) == 0.5


def test_credit_is_the_offsprings_own() -> None:
    history: list[tuple[Mode, float]] = [("decompose", 0.4), ("anti_fluff", -0.9), ("anti_fluff", -0.9)]
    weights = mode_weights("success_feedback", history, 0.5, 0.5)
    untried = weights["raise_bar"]
    assert weights["decompose"] > untried > weights["anti_fluff"], "a large loss is no success"
    assert sum(weights.values()) == pytest.approx(1)
    expected = {"decompose": 1.5 / 2 * 1.4, "anti_fluff": 0.5 / 3, "raise_bar": 0.5}
    assert weights["decompose"] / weights["raise_bar"] == pytest.approx(expected["decompose"] / expected["raise_bar"])
    assert weights["anti_fluff"] / untried == pytest.approx(expected["anti_fluff"] / expected["raise_bar"])


def test_schedules() -> None:
    rng = np.random.default_rng(0)
    assert [choose_mode("fixed", {}, i, rng) for i in range(7)] == [*MODES, MODES[0]], "offspring take turns"
    early, late = (mode_weights("exploration_decay", [], share, 0) for share in (0.1, 0.9))
    assert early["decompose"] == pytest.approx(4 * early["raise_bar"])
    assert late["raise_bar"] == pytest.approx(4 * late["decompose"])
    alike, apart = (mode_weights("diversity_driven", [], 0, diversity) for diversity in (0.0, 0.5))
    assert alike["decompose"] == pytest.approx(2 * alike["raise_bar"])
    assert apart["raise_bar"] == pytest.approx(2 * apart["decompose"])
    drawn = [choose_mode("exploration_decay", early, 0, rng) for _ in range(3000)]
    assert drawn.count("decompose") / 3000 == pytest.approx(early["decompose"], abs=0.03)


def test_selection() -> None:
    totals = [0.1, 0.9, 0.5, 0.8]
    rng = np.random.default_rng(0)
    assert select(totals, 2, "rank", lambda i, j: 0, rng) == [1, 3]
    assert select([0.9, 0.8, 0.89, 0.1], 2, "top_k", lambda i, j: 0, rng) == [0, 2]
    far = {frozenset((0, 1)): 0.0, frozenset((0, 2)): 1.0, frozenset((1, 2)): 1.0}
    pool = [0.9, 0.9, 0.7, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
    assert select(pool, 2, "top_k", lambda i, j: far[frozenset((i, j))], rng) == [0, 1]
    assert select([0.9, 0.9, 0.88, *[0.1] * 7], 2, "top_k", lambda i, j: far[frozenset((i, j))], rng) == [0, 1]
    wins = [select(totals, 1, "tournament", lambda i, j: 0, rng)[0] for _ in range(4000)]
    # The best of all four is drawn with probability 3/4, and then wins with 0.8.
    assert wins.count(1) / 4000 == pytest.approx(0.75 * 0.8, abs=0.03)
    assert sorted(select(totals, 4, "tournament", lambda i, j: 0, rng)) == [0, 1, 2, 3]
