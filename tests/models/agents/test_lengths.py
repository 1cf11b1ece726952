"""How the agents keep a length: nearly at first, exactly when asked again, and never at the cost of the answer."""

from typing import get_args

import pytest

from tests.models.simulated import ask, instruction, probe, question_text
from truthgym.datasets.urns import urns
from truthgym.models.agents.lengths import AGAIN, MORE, TARGET, count_tokens, pad_to_length
from truthgym.models.agents.reading import STATED
from truthgym.solvers import length_control
from truthgym.solvers.length_control import Unit, bounds, length_of
from truthgym.solvers.trajectory import user_message

UNITS = get_args(Unit)
TARGETS = {"words": (60, 77, 200), "characters": (300, 451, 1000), "sentences": (6, 9, 20), "tokens": (90, 123, 300)}
EVERY = [(unit, target) for unit in UNITS for target in TARGETS[unit]]
BODY = "(Simulated bayesian agent, not a language model.) Let me go by what has been said so far."
REPLY = f"{BODY} {STATED[0].format(percent='12.34')}\n\n\\finalBeliefProb{{0.1234}}"
SENTENCE = max(MORE, key=len)
WORD = max(" ".join(MORE).split(), key=len)


def first(unit: str, target: int, tolerance: float = 0.1) -> str:
    """What the solver asks for with the question."""
    least, most = bounds(target, tolerance)
    return "Will it rain?\n\n" + length_control.TARGET.format(target=target, unit=unit, least=least, most=most)


def again(unit: str, target: int, words: int, tolerance: float = 0.1) -> str:
    """What it asks for where the answer was not as long as that."""
    least, most = bounds(target, tolerance)
    return length_control.REVISE.format(target=target, unit=unit, least=least, most=most, length=words)


def length(text: str, unit: str) -> int:
    """As the solver measures."""
    return count_tokens(text) if unit == "tokens" else length_of(text, unit)


@pytest.mark.parametrize("unit", UNITS)
def test_it_understands_the_real_prompts(unit: str) -> None:
    for prompt in (first(unit, 12), again(unit, 12, 15), first(unit, 1, 0)):
        assert [match[1] for match in TARGET.findall(prompt)] == [unit]
    assert TARGET.findall(again(unit, 12, 15))[0][0] == "12", "not the length that the answer had"
    assert AGAIN in again(unit, 12, 15)
    assert AGAIN not in first(unit, 12)


@pytest.mark.parametrize(("unit", "target"), EVERY)
def test_at_first_it_is_within_half_a_sentence(unit: str, target: int) -> None:
    prompt = first(unit, target)
    reply = pad_to_length(prompt, prompt, REPLY)
    assert abs(length(reply, unit) - target) <= (length(f"{SENTENCE} ", unit) + 1) // 2
    if unit == "sentences":
        assert length(reply, unit) == target
    body, answer = REPLY.rsplit("\n\n", 1)
    added = reply.removeprefix(body).removesuffix(answer).strip()
    assert set(added.replace(". ", ".|").split("|")) <= set(MORE), "whole ones"
    assert reply.endswith(f"\n\n{answer}")


@pytest.mark.parametrize(("unit", "target"), EVERY)
def test_asked_again_it_is_exact_or_within_half_a_word(unit: str, target: int) -> None:
    begun = first(unit, target)
    prompt = again(unit, target, length(pad_to_length(begun, begun, REPLY), unit))
    reply = pad_to_length(f"{begun}\n\n{REPLY}\n\n{prompt}", prompt, REPLY)
    off = abs(length(reply, unit) - target)
    assert off <= {"words": 0, "sentences": 0, "characters": (len(WORD) + 1) / 2, "tokens": 1}[unit]


@pytest.mark.parametrize("unit", UNITS)
def test_a_reply_that_is_long_enough_stays_as_it_is(unit: str) -> None:
    for target in (1, length(REPLY, unit)):
        for prompt in (first(unit, target), again(unit, target, 1)):
            assert pad_to_length(prompt, prompt, REPLY) == REPLY


def test_padding_states_nothing() -> None:
    for sentence in MORE:
        assert length(sentence, "sentences") == 1
        assert sentence.endswith(".")
        assert not any(character.isdigit() or character in "%{}\n" for character in sentence)


@pytest.mark.parametrize(("unit", "target"), EVERY)
def test_the_agent_keeps_it_in_its_answer_and_nowhere_else(unit: str, target: int) -> None:
    [item] = urns(n=1)
    begun = user_message(f"{first(unit, target)}\n\n{question_text(item)}", 1)
    thought = ask(begun).message
    assert not any(sentence in thought.text for sentence in MORE)
    answer = ask(begun, thought, user_message(instruction(item), 1)).message
    assert abs(length(answer.text, unit) - target) <= (length(f"{SENTENCE} ", unit) + 1) // 2
    belief = ask(begun, answer, probe(item)).completion
    assert not any(sentence in belief for sentence in MORE)
