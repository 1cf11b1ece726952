"""Reward functions for TRL: its signature, its columns, and the same definition of right as the scorers."""

import importlib
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training import trl_rewards as rewards

SAID = [r"I think so. \finalBeliefProb{0.7}", "I cannot tell.", "20"]
COMPLETIONS = [[{"role": "assistant", "content": text}] for text in SAID]
PROMPTS = [[{"role": "user", "content": f"Is it {i}?"}] for i in range(3)]
TARGETS = ["yes", "no", ""]


def given(**more: Any) -> dict[str, Any]:
    return {"prompts": PROMPTS, "completions": COMPLETIONS, "target": TARGETS, "trainer_state": None} | more


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("brier", [-0.09, -1.0, None]),
        ("log_score", [-0.35667, -5.29832, None]),
        ("spherical", [0.91915, 0.0, None]),
        ("format", [1.0, 0.0, 1.0]),
        ("python_brier", [-0.09, -1.0, None]),  # only the marker counts
    ],
)
def test_known_values_by_import_path_as_trl_loads_them(name: str, expected: list[float | None]) -> None:
    function = getattr(importlib.import_module("truthgym.training.trl_rewards"), name)
    found = function(**given())
    assert found == [None if value is None else pytest.approx(value, abs=1e-5) for value in expected]
    assert function.__name__ == name  # under which TRL logs it
    assert function(**given(completions=SAID)) == found  # a dataset of plain texts


def test_what_is_logged_beside_the_reward() -> None:
    figures: dict[str, float] = {}
    rewards.brier(**given(log_metric=figures.__setitem__))
    assert figures == {"share_read": pytest.approx(2 / 3), "brier_best_constant": pytest.approx(-0.25)}
    figures.clear()
    rewards.python_brier(**given(log_metric=figures.__setitem__))
    assert figures == {"python_brier_read": pytest.approx(1 / 3)}


def test_lengths_in_both_directions() -> None:
    ids = [[7] * 128, [7] * 600, []]
    assert rewards.shorter(**given(completion_ids=ids)) == [-0.25, -1.0, -1.0]
    assert rewards.longer(**given(completion_ids=ids)) == [0.25, 1.0, 0.0]
    in_words = rewards.length(most=5, unit="words", better="longer")
    assert in_words(**given()) == [0.8, 0.6, 0.2]
    assert in_words.__name__ == "longer"


def test_consistency_needs_the_arms_of_a_question() -> None:
    arms = {"question": ["q", "q", "q"], "arm": ["user_yes", "user_no", "neutral"]}
    assert rewards.consistency(**given(**arms)) == [pytest.approx(-0.25), -1.0, None]
    with pytest.raises(BadInput, match=r"no column question \(of truthgym/sycophancy\)"):
        rewards.consistency(**given())


def test_updates_compare_answers_with_different_prior_readings() -> None:
    prompts = [f"Is it {i}?" for i in range(12) for _ in range(2)]
    priors = [[0.1 + i / 20, 0.2 + i / 20] for i in range(12) for _ in range(2)]
    figures: dict[str, float] = {}
    found = rewards.updates(weight=0.0)(
        prompts=prompts, completions=["80"] * 24, target=["yes"] * 24, priors=priors, log_metric=figures.__setitem__
    )
    assert found[:2] == pytest.approx([0.8**2 - 0.2**2, 0.9**2 - 0.2**2])
    assert set(figures) == {"share_read", "martingale_slope", "martingale_information"}


def test_a_reading_of_a_prior_may_be_missing() -> None:
    prompts = [f"Is it {i}?" for i in range(12) for _ in range(3)]
    priors = [[0.2, 0.2, float("nan")], [0.4, 0.4, None]] * 18
    found = rewards.martingale(prompts=prompts, completions=["80"] * 36, target=["yes"] * 36, priors=priors)
    assert all(reward is not None for reward in found)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rewards.brier(PROMPTS, COMPLETIONS), "no column target"),
        (lambda: rewards.martingale(**given()), "no column priors"),
        (lambda: rewards.martingale(**given(priors=[[0.5]] * 3)), r"priors=\[0.5\] of completion 0 does not hold two"),
        (lambda: rewards.martingale(**given(priors=[[40, 60]] * 3)), r"priors=\[40, 60\] .* between 0 and 1"),
        (lambda: rewards.martingale(**given(priors=[["0.4", 0.6]] * 3)), r"priors=\['0.4', 0.6\] of completion 0"),
        (lambda: rewards.updates(information_weight=0), "information_weight=0 .*greater than 0"),
        (lambda: rewards.updates(1.0, float("nan")), "information_weight=nan"),
        (lambda: rewards.updates(-0.5), "weight=-0.5 .*greater than or equal to 0"),
        (lambda: rewards.length(most=0), "most=0"),
        (lambda: rewards.length(unit="bytes"), "unit='bytes'"),  # type: ignore[arg-type]
    ],
    ids=["target", "priors", "one-prior", "percent", "text", "no-information", "nan", "weight", "most", "unit"],
)
def test_bad_input(call: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        call()
