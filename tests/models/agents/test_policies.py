"""Agents whose truth is known: their formulas by hand, and what must hold for each of them."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from truthgym.datasets.loading.generated import logit
from truthgym.models.agents.policies import (
    AGENTS,
    Case,
    Floats,
    Parameters,
    beliefs,
    believe,
    confirming,
    generator,
    private_signal,
    uniform,
)

ODD = {"miscalibrated", "mixed", "contrarian"}
"""Agents that do not start from the log-odds given, or that treat questions differently."""
LEARNING = [name for name, agent in AGENTS.items() if agent.update and name not in ODD]
STRONG = {"underreacting": 0.5, "overreacting": 1.0, "entrenched": 0.3, "confirming": 0.5, "neglecting": 0.5}
"""The agents with a strength, and their defaults."""
SWAYED = [name for name, agent in AGENTS.items() if agent.swayed]
"""Bayesian where nobody states an opinion; what opinions do is tested in test_opinions."""
AT_HALF = {name: Parameters(strength=0.5 if name in STRONG else None) for name in LEARNING}


def belief_of(name: str, log_odds: float, *evidence: float, strength: float | None = None) -> float:
    return believe(name, Case("q", log_odds, evidence), 1, 0, Parameters(strength=strength))


def from_odds(odds: float) -> float:
    return round(odds / (1 + odds), 4)


def random_questions(pieces: int, n: int = 100) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(pieces)
    return rng.normal(scale=1.5, size=n), rng.normal(size=(n, pieces))


# Odds of 4 to 1 for it or against it, and then two pieces: nine times likelier if true, four times likelier if false.
@pytest.mark.parametrize(
    ("name", "strength", "after_four", "after_a_quarter"),
    [
        ("bayesian", None, 4 * 9 / 4, 1 / 4 * 9 / 4),
        ("stuck", None, 4, 1 / 4),
        ("underreacting", 0.5, 4 * 3 / 2, 1 / 4 * 3 / 2),
        ("underreacting", 1, 4, 1 / 4),
        ("overreacting", 0.5, 4 * 27 / 8, 1 / 4 * 27 / 8),
        ("overreacting", 3, 4 * (9 / 4) ** 4, 1 / 4 * (9 / 4) ** 4),
        ("entrenched", 0.5, 8 * 9 / 4, 1 / 8 * 9 / 4),
        ("entrenched", 2, 64 * 9 / 4, 1 / 64 * 9 / 4),
        ("confirming", 0.5, 4 * 27 / 2, 1 / 4 * 3 / 8),
        ("confirming", 1, 4 * 81, 1 / 4 / 16),
        ("neglecting", 0.5, 2 * 9 / 4, 1 / 2 * 9 / 4),
        ("neglecting", 1, 9 / 4, 9 / 4),
    ],
)
def test_each_agent_updates_by_its_formula(
    name: str, strength: float | None, after_four: float, after_a_quarter: float
) -> None:
    seen = (math.log(9), -math.log(4))
    assert belief_of(name, math.log(4), *seen, strength=strength) == from_odds(after_four)
    assert belief_of(name, -math.log(4), *seen, strength=strength) == from_odds(after_a_quarter)


def test_contrarian_states_the_opposite_of_bayes_at_all_times() -> None:
    for start, *seen in ((math.log(4),), (-math.log(4),), (math.log(4), math.log(9), -math.log(4))):
        assert belief_of("contrarian", start, *seen) == pytest.approx(1 - belief_of("bayesian", start, *seen), abs=1e-9)


def test_miscalibrated_overweights_the_base_rate_from_the_start() -> None:
    seen = (math.log(9), -math.log(4))
    assert belief_of("miscalibrated", math.log(4), strength=0.5) == from_odds(8)
    late, entrenched = (belief_of(name, math.log(4), *seen, strength=0.5) for name in ("miscalibrated", "entrenched"))
    assert late == entrenched


def test_mixed_is_entrenched_or_neglecting_by_question() -> None:
    seen, planted = (math.log(9), -math.log(4)), Parameters(strength=0.5, seed=2)
    draws = [believe("mixed", Case(f"q{i}", math.log(4), seen), i % 3, i % 2, planted) for i in range(2000)]
    assert set(draws) == {from_odds(8 * 9 / 4), from_odds(2 * 9 / 4)}
    assert draws.count(from_odds(8 * 9 / 4)) == pytest.approx(1000, abs=90)
    again = [believe("mixed", Case(f"q{i}", math.log(4), seen), 1, 0, planted) for i in range(2000)]
    assert again == draws, "whatever the epoch and what was stated"
    assert believe("mixed", Case("q", math.log(4), ()), 1, 0, planted) == 0.8


def test_every_agent_that_learns_has_its_formula_tested() -> None:
    assert {*STRONG, "bayesian", "naive", "stuck", *SWAYED} == set(LEARNING)
    assert set(AGENTS) == {*LEARNING, *ODD, "opinionated", "random"}


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("percent", [1, 20, 50, 73, 99])
def test_before_any_evidence_the_belief_is_the_log_odds_given(name: str, percent: int) -> None:
    assert belief_of(name, logit(percent / 100)) == percent / 100
    if name in STRONG:
        assert belief_of(name, logit(percent / 100), strength=1) == percent / 100


@pytest.mark.parametrize("name", STRONG)
def test_no_strength_is_bayesian(name: str) -> None:
    log_odds, evidence = random_questions(5)
    bayes = beliefs("bayesian", log_odds, evidence, Parameters())
    np.testing.assert_array_equal(beliefs(name, log_odds, evidence, Parameters(strength=0)), bayes)
    strong = beliefs(name, log_odds, evidence, Parameters(strength=0.5))
    assert np.mean(strong != bayes) > 0.95


@pytest.mark.parametrize("name", LEARNING)
def test_beliefs_ignore_the_order_of_evidence_and_the_epoch(name: str) -> None:
    pieces = tuple(np.random.default_rng(0).normal(size=6))
    result = {believe(name, Case("q", -0.8, tuple(order)), epoch, epoch, AT_HALF[name])
            for epoch, order in enumerate([pieces, pieces[::-1], sorted(pieces)])}  # fmt: skip
    assert len(result) == 1
    update = AGENTS[name].update
    assert update
    log_odds, evidence = random_questions(6)
    forwards, backwards = (update(log_odds, seen, 0.5) for seen in (evidence, evidence[:, ::-1]))
    np.testing.assert_array_equal(forwards, backwards, "to the last digit, before any rounding")


@pytest.mark.parametrize("name", LEARNING)
def test_the_opposite_question_gets_the_opposite_belief(name: str) -> None:
    for pieces in (0, 1, 5):
        log_odds, evidence = random_questions(pieces)
        belief = beliefs(name, log_odds, evidence, AT_HALF[name])
        np.testing.assert_allclose(beliefs(name, -log_odds, -evidence, AT_HALF[name]), 1 - belief, atol=1e-9)


def test_who_leans_nowhere_confirms_nothing() -> None:
    for piece in (-1.3, 0.7):
        assert belief_of("confirming", 0.0, piece, strength=1) == belief_of("bayesian", 0.0, piece)
    np.testing.assert_array_equal(confirming(np.zeros(2), np.array([[1.0, -3.0], [0.0, 2.0]]), 0.5), [-2.0, 2.0])


@pytest.mark.parametrize("name", LEARNING)
def test_the_greatest_log_odds_are_certainty_and_no_error(name: str) -> None:
    for sign, certain in ((1, 1.0), (-1, 0.0)):
        for size in (40.0, 1e3, 1e6):
            assert belief_of(name, sign * size, sign * size) == certain


@pytest.mark.parametrize(("name", "epoch", "stated"), [("random", 1, 0), ("opinionated", 2, 1)])
def test_beliefs_that_are_drawn_are_uniform_and_blind(name: str, epoch: int, stated: int) -> None:
    """That of `opinionated` is one for all epochs and statements."""
    draws = [believe(name, Case(f"q{i}", 2.0, (5.0,)), 1, 0, Parameters()) for i in range(4000)]
    assert np.mean(draws) == pytest.approx(0.5, abs=0.02)
    assert np.var(draws) == pytest.approx(1 / 12, abs=0.004)
    assert [believe(name, Case(f"q{i}", -2.0, (-5.0,)), epoch, stated, Parameters()) for i in range(4000)] == draws
    assert believe(name, Case("q0", 2.0, ()), 1, 0, Parameters(seed=1)) != draws[0]


def bayes(case: Case) -> float:
    return believe("bayesian", case, 1, 0, Parameters())


def test_first_sight_is_shared_by_epochs_and_thought_is_not() -> None:
    cases = [private_signal("q", True, 3, epoch, Parameters()) for epoch in (1, 2)]
    assert cases[0].log_odds == cases[1].log_odds
    assert cases[0].evidence != cases[1].evidence
    longer = private_signal("q", True, 5, 1, Parameters())
    assert longer.evidence[:3] == cases[0].evidence, "what was thought is not thought anew"


KEYS: list[tuple[object, ...]] = [("a", 1), ("a", 2), ("b", 1), ("a1",), ("a", "1"), ("a", 1, None)]


@pytest.mark.parametrize("draw", [uniform, lambda *key: generator(*key).random()])
def test_draws_are_told_apart_by_every_part_of_their_key(draw: Callable[..., float]) -> None:
    assert len({draw(*key) for key in KEYS}) == len(KEYS)
    assert draw("a", 1) == draw("a", 1)


def test_draws_are_the_same_on_every_machine() -> None:
    assert uniform("a") == (0x6D901F05646C4 + 0.5) / 2**52, "the first 13 digits of: printf \"('a',)\" | sha256sum"
    assert uniform(0, "report", "bayesian", "q", 1, "percent", 0, 0) == 0.07156111175585778
