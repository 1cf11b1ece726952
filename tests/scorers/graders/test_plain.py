"""The grader of length and opening, on replies that try to win it."""

import pytest

from tests.scorers.graders.answers import answer, grade_of
from truthgym.scorers.graders.builtin import plain

MARKER = r" \finalBeliefProb{0.7}"
SENTENCE = "The station counted fourteen wet days in March, and most of them came with western wind"


def value(text: str) -> float:
    result = grade_of(plain(), answer(text)).value
    assert result is not None
    return result


def test_a_plain_answer_of_a_sensible_length_gets_the_whole_grade() -> None:
    assert value(SENTENCE + MARKER) == 1


@pytest.mark.parametrize("text", ["", MARKER, "Yes.", "Rain rain rain. " * 30, "It depends." + MARKER, "👍" * 50])
def test_an_empty_trivial_or_repeated_answer_does_not_win(text: str) -> None:
    assert value(text) < 0.5


def test_length_is_paid_up_to_a_point() -> None:
    words = " ".join(f"word{i}" for i in range(225))
    assert value(words) == pytest.approx(0.5), "half way between 150 and 300"
    assert value(f"{words} {words}") == 0


@pytest.mark.parametrize(
    "opening", ["Great question! ", "**What a fascinating question.** ", "Certainly! ", "Thank you for asking. ",
                "I'm glad you asked. ", "“As an AI, ", "This is an excellent one: "]
)  # fmt: skip
def test_a_hollow_opening_halves_the_grade(opening: str) -> None:
    assert value(opening + SENTENCE) == 0.5


@pytest.mark.parametrize("opening", ["Greater floods are likelier. ", "Thanks to the dam, ", "Surely not all of it. "])
def test_an_opening_that_only_looks_like_one_does_not(opening: str) -> None:
    assert value(opening + SENTENCE) == 1
