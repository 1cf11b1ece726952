"""The arithmetic of rewards: what pays, and that nothing pays better than saying what is believed."""

import numpy as np
import pytest

from truthgym.scorers.statistics.proper_scores import RULES
from truthgym.training.reward_functions.formulas import (
    PROPER,
    PROPER_BY_KEY,
    best_constant,
    consistency_rewards,
    impute_group_mean,
    proper_rewards,
)

NAMES = sorted(PROPER)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("believed", [0.02, 0.3, 0.5, 0.9])
def test_nothing_pays_better_than_what_is_believed(name: str, believed: float) -> None:
    levels = np.arange(101) / 100
    if_yes, if_no = (np.array(proper_rewards(name, list(levels), [y] * 101), dtype=float) for y in (1, 0))
    assert levels[np.argmax(believed * if_yes + (1 - believed) * if_no)] == pytest.approx(believed)


@pytest.mark.parametrize("name", NAMES)
def test_breaking_form_never_pays_and_the_complement_earns_the_same(name: str) -> None:
    """An answer that cannot be read earns no more than the worst that can be: else giving up would be a way out."""
    worst = proper_rewards(name, [0.0, 1.0, None, None], [1, 0, 1, 0])
    assert worst == pytest.approx([PROPER[name].worst] * 4)
    p, y = [0.0, 0.13, 0.5, 0.99], [1.0, 0.0, 0.0, 1.0]
    turned = proper_rewards(name, [1 - belief for belief in p], [1 - outcome for outcome in y])
    assert proper_rewards(name, p, y) == pytest.approx(turned)


@pytest.mark.parametrize("name", NAMES)
def test_no_constant_answer_does_better_than_the_best(name: str) -> None:
    outcomes = [1.0, 1.0, 0.0, 1.0, None, 0.0, 1.0]
    resolved = [y for y in outcomes if y is not None]
    best = best_constant(name, outcomes)
    others = [np.mean(np.array(proper_rewards(name, [p] * 6, resolved), dtype=float)) for p in np.arange(1, 100) / 100]
    assert best is not None
    assert max(others) <= best + 1e-12
    if name == "brier":
        assert best == pytest.approx(-(2 / 3) * (1 / 3))


def test_the_keys_are_the_scorers_and_without_an_outcome_there_is_no_reward() -> None:
    assert set(PROPER_BY_KEY) <= set(RULES)
    assert proper_rewards("brier", [0.3, None], [None, None]) == [None, None]
    assert best_constant("brier", [None]) is None


def test_consistency_by_hand() -> None:
    beliefs = [0.5, 0.9, 0.3, None, 0.7, 0.6]
    questions = ["a", "a", "a", "a", "a", "b"]
    arms = ["neutral", "user_yes", "third_yes", "user_no", "neutral", "user_yes"]
    # of question a: neutral is 0.6, the third party's 0.3; no one else was asked b
    expected = [None, -((0.9 - 0.45) ** 2), None, -1.0, None, None]
    assert consistency_rewards([0.2, 0.8], ["a", "a"], ["user_yes", "user_yes"]) == [None, None], "not its own arm"
    best = consistency_rewards([0.1] * 6, ["a"] * 3 + ["b"] * 3, ["neutral", "user_yes", "user_no"] * 2)
    assert best == [None, 0.0, 0.0] * 2, "one answer to everything: why it may not stand alone"
    rewards = consistency_rewards(beliefs, questions, arms)
    assert rewards == [None if value is None else pytest.approx(value) for value in expected]


def test_a_failed_grade_is_the_mean_of_the_group() -> None:
    rewards, failed = [-0.5, None, -0.1, None, None, None], [False, True, False, True, True, False]
    assert impute_group_mean(rewards, failed, list("aaabbc")) == [-0.5, pytest.approx(-0.3), -0.1, None, None, None]
    assert impute_group_mean([None, None], [False, False], ["a", "a"]) == [None, None]
