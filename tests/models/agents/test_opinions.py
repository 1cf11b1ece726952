"""Agents that opinions sway: known values, whom they hear, pushback, and what is left as it was."""

import math
from typing import Any

import numpy as np
import pytest
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage

from tests.models.simulated import ask, instruction, prompt, proposition
from truthgym.datasets.loading.generated import logit, probability
from truthgym.datasets.sycophancy import ARGUMENTS, DOUBTS, OPINIONS, ArmQuestion, sycophancy
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.models.agents.policies import (
    AGENTS,
    ARGUED,
    DEFERRED,
    Case,
    Parameters,
    Pushback,
    after_pushback,
    care_level,
    opinion_remark,
)
from truthgym.models.agents.quality_markers import count_markers
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.solvers.trajectory import user_message

ARMS = {"neutral": (0, 0), "user_yes": (1, 0), "user_no": (-1, 0), "third_yes": (0, 1), "third_no": (0, -1),
        "memory_yes": (1, 0), "memory_no": (-1, 0)}  # fmt: skip


def talk(item: Sample) -> list[ChatMessage]:
    """A question as `direct` asks it, after what was said before it."""
    if isinstance(item.input, str):
        return [prompt(item)]
    return [*item.input[:-1], prompt(item.model_copy(update={"input": item.input[-1].text}))]


def reply(item: Sample, name: str, **parameters: Any) -> str:
    return ask(*talk(item), model=name, **parameters).completion


def pressed(item: Sample, words: str, name: str) -> tuple[str, str]:
    """An agent's answer, and its answer after a doubt or a contradiction."""
    first = ask(*talk(item), model=name)
    again = ask(*talk(item), first.message, user_message(f"{words}\n\n{instruction(item)}", 1), model=name)
    return first.completion, again.completion


@pytest.mark.parametrize(
    ("name", "given", "user", "third"),
    [
        ("bayesian", {}, 0.0, 0.0),
        ("stuck", {}, 0.0, 0.0),
        ("trusting", {}, 0.4, 0.4),
        ("trusting", {"strength": 1.0}, 1.0, 1.0),
        ("sycophant", {}, 0.8, 0.0),
        ("sycophant", {"strength": 0.3, "trust": 0.4}, 0.7, 0.4),
    ],
    ids=str,
)
def test_the_real_prompt_moves_an_agent_by_its_formula(
    name: str, given: dict[str, float], user: float, third: float
) -> None:
    for item in sycophancy("urns", arms="user,third,memory", n=16):
        metadata, path = item.metadata_as(ArmQuestion), item.metadata_as(UrnQuestion).posterior
        sides = ARMS[metadata.arm]
        odds = logit(path[0 if name == "stuck" else -1]) + user * sides[0] + third * sides[1]
        assert read_belief(reply(item, name, **given)) == pytest.approx(probability(odds), abs=6e-5), metadata.arm


def test_where_nobody_states_an_opinion_they_are_bayesian() -> None:
    for item in urns(n=10):
        for name in ("trusting", "sycophant"):
            text = reply(item, name)
            assert read_belief(text) == read_belief(reply(item, "bayesian"))
            assert ARGUED not in text
            assert DEFERRED not in text


@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_doubt_moves_a_sycophant_alone(doubt: str) -> None:
    for item in urns(n=6, seed=3):
        for name in AGENTS:
            if name == "random":
                continue
            first, again = pressed(item, doubt, name)
            before, after = read_belief(first) or 0, read_belief(again) or 0
            if name == "sycophant":
                assert after == pytest.approx(probability(logit(before) - math.copysign(0.8, before - 0.5)), abs=1e-4)
            else:
                assert after == before, name


def test_a_contradiction_counts_as_the_users_opinion() -> None:
    for i, item in enumerate(urns(n=8, seed=4)):
        words = ARGUMENTS[i % len(ARGUMENTS)].format(
            opinion=OPINIONS[i % len(OPINIONS)].render("user", "no", proposition(item))
        )
        for name, strength in (("sycophant", 0.8), ("trusting", 0.4), ("bayesian", 0.0)):
            first, again = pressed(item, words, name)
            expected = probability(logit(read_belief(first) or 0) - strength)
            assert read_belief(again) == pytest.approx(expected, abs=1.1e-4), name


def test_giving_way_is_a_pure_function_with_known_values() -> None:
    planted = Parameters(strength=math.log(3))
    assert after_pushback("sycophant", 0.75, Pushback(doubted=True), planted) == 0.5
    assert after_pushback("sycophant", 0.25, Pushback(doubted=True), planted) == 0.5
    assert after_pushback("sycophant", 0.5, Pushback(doubted=True), planted) == 0.5
    assert after_pushback("sycophant", 0.5, Pushback(user=1), planted) == 0.75
    assert after_pushback("sycophant", 0.5, Pushback(third=1), planted) == 0.5
    assert after_pushback("trusting", 0.5, Pushback(third=-1, doubted=True), planted) == 0.25
    assert after_pushback("sycophant", 1.0, Pushback(user=-1), planted) < 1
    assert after_pushback("bayesian", 0.123456, Pushback(1, 1, True), planted) == 0.123456
    several = after_pushback("sycophant", np.array([0.5, 0.9]), Pushback(user=np.array([1, 0])), planted)
    assert several.tolist() == [0.75, 0.9]


def test_how_it_speaks_of_an_opinion_has_the_planted_shares() -> None:
    for argues in (0.0, 0.4, 1.0):
        cases, planted = [Case(f"q{i}", 0, (), user=1) for i in range(3000)], Parameters(argues=argues)
        remarks = [opinion_remark("sycophant", case, 1, 0, planted) for case in cases]
        assert np.mean([text == ARGUED for text in remarks]) == pytest.approx(argues, abs=0.04)
        assert np.mean([text == DEFERRED for text in remarks]) == pytest.approx((1 - argues) / 2, abs=0.04)
    assert opinion_remark("sycophant", Case("q", 0, (), third=1), 1, 0, Parameters()) == ""
    assert opinion_remark("trusting", Case("q", 0, (), third=1), 1, 0, Parameters()) == ARGUED
    assert opinion_remark("bayesian", Case("q", 0, (), user=1), 1, 0, Parameters()) == ""


def test_slack_reduces_care_when_the_user_agrees() -> None:
    planted = Parameters(care=0.7, slack=0.4)
    for lean, user, expected in ((1.0, 1, 0.3), (1.0, -1, 0.7), (-1.0, -1, 0.3), (-1.0, 1, 0.7), (1.0, 0, 0.7)):
        assert care_level("sycophant", Case("q", lean, (), user=user), planted) == pytest.approx(expected)
    assert care_level("sycophant", Case("q", 1.0, (), user=1), Parameters(care=0.2, slack=0.4)) == 0
    assert care_level("sycophant", Case("q", 1.0, (), user=1), Parameters(slack=0.4)) is None
    item = next(i for i in sycophancy("urns", n=1) if i.metadata_as(ArmQuestion).arm == "user_yes")
    assert item.metadata_as(UrnQuestion).posterior[-1] > 0.5
    assert count_markers(reply(item, "sycophant", care=1, slack=1)) == 0
    assert count_markers(reply(item, "sycophant", care=1)) == 8
