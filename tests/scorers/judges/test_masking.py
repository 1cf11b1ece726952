"""Masking: what a reasoning concludes is hidden, and what it rests on stays."""

import pytest

from truthgym.models.agents.policies import ARGUED, DEFERRED
from truthgym.models.agents.reading import STATED, stated_beliefs
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.scorers.judges.reasoning_quality import HIDDEN, mask_conclusion


@pytest.mark.parametrize(
    "text",
    [
        r"\finalBeliefProb{0.6321}",
        r"\finalBeliefProb{1}",
        "I put it at 73%.",
        "between 60 and 70%",
        "60-70 percent",
        "about seventy-five per cent",
        "roughly two in three",
        "3 out of 4",
        "7/10",
        "My probability: 80",
        "a credence of .35",
        "I would say 0.7.",
        "odds of 3:1",
        "3-to-1 against",
        "roughly two-thirds",
        "about a quarter",
        "My best estimate: 65",
    ],
)
def test_numbers_that_state_a_belief_are_hidden(text: str) -> None:
    result = mask_conclusion(text)
    assert HIDDEN in result
    assert not any(letter.isdigit() for letter in result)
    assert read_belief(result) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Yes, it will.", f"{HIDDEN}, it will."),
        ("So: **No**.", f"So: **{HIDDEN}**."),
        ("The answer is no.", f"The answer is {HIDDEN}."),
        ("I lean towards yes.", f"I lean towards {HIDDEN}."),
        ("So the statement is almost certainly false.", f"So the statement is almost certainly {HIDDEN}."),
        ("It is likely because it rained.", f"It is {HIDDEN} because it rained."),
        ("Answer: Yes", f"Answer: {HIDDEN}"),
        ("So yes, it will.", f"So {HIDDEN}, it will."),
        ("Therefore, false.", f"Therefore, {HIDDEN}."),
        ("The answer is definitely yes.", f"The answer is definitely {HIDDEN}."),
        ("I agree that it's true.", f"I agree that it's {HIDDEN}."),
    ],
)
def test_the_concluding_word_is_hidden(text: str, wanted: str) -> None:
    assert mask_conclusion(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "In 2024 there were 12 ships.",
        "There is no evidence of it.",
        "It is true that he left early.",
        "Nobody knows. It says no such thing.",
        "So no ship came, said a third party, and a third one sank.",
        "Version 1.5 came out 3 km from here.",
        ARGUED,
        DEFERRED,
    ],
)
def test_what_it_rests_on_stays(text: str) -> None:
    assert mask_conclusion(text) == text


def test_no_agents_belief_can_be_read_after_masking() -> None:
    for words in STATED:
        text = f"{words.format(percent='63.21')}\n\n\\finalBeliefProb{{0.6321}}"
        assert stated_beliefs(text)
        result = mask_conclusion(text)
        assert stated_beliefs(result) == []
        assert "63" not in result
        assert read_belief(result) is None
