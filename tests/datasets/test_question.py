from collections import Counter
from typing import Any

import pytest
from inspect_ai.dataset import Sample
from rich.markup import render

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question, binary_outcome, question, sample, split_of


def make(identity: str, **fields: Any) -> Sample:
    known = question(Question, identity, **{"domain": "test", "event": identity, "proposition": "It is so."} | fields)
    return sample(identity, "Is it so?", "yes", known, identity)


def test_split_depends_on_the_event_alone() -> None:
    # sha256 of "a" begins with 0xca, of "b" with 0x3e, of "abc" with 0xba: places 0.79, 0.24 and 0.73
    assert [split_of(event) for event in ("a", "b", "abc")] == ["validation", "train", "validation"]
    many = Counter(split_of(f"event {i}") for i in range(10_000))
    assert many["train"] == pytest.approx(6000, abs=200)
    assert many["validation"] == pytest.approx(2000, abs=160)
    assert many["test"] == pytest.approx(2000, abs=160)


def test_questions_of_one_event_share_a_split() -> None:
    samples = [make(f"q{i}", event="same") for i in range(20)]
    assert len({s.metadata_as(Question).split for s in samples}) == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"base_rate": 70}, "row 3, field base_rate: 70 is not a probability between 0 and 1; write 0.70"),
        ({"crowd": -0.1}, "row 3, field crowd: -0.1 is not a probability between 0 and 1"),
        ({"proposition": None}, "row 3: a binary question needs a `proposition`"),
        ({"proposition": "  "}, "row 3: a binary question needs a `proposition`"),
        ({"form": "essay"}, "row 3, field form: 'essay' cannot be used"),
        ({"known_on": "yesterday"}, "row 3, field known_on: 'yesterday' cannot be used"),
        ({"known_on": "2999-01-01"}, "row 3, field known_on: 2999-01-01 is in the future"),
        ({"known_on": 1735689600}, "row 3, field known_on: 1735689600 cannot be used (not a day such as 2025-06-01)"),
        ({"known_on": "1735689600"}, "row 3, field known_on: '1735689600' cannot be used (not a day such as"),
        ({"opened_on": "2024-05-01T00:00:00"}, "row 3, field opened_on: '2024-05-01T00:00:00' cannot be used (not"),
        ({"opened_on": "2024-02-30"}, "row 3, field opened_on: '2024-02-30' cannot be used"),
        ({"opened_on": "2999-01-01"}, "row 3, field opened_on: 2999-01-01 is in the future"),
        ({"crowd": "0.5"}, "row 3, field crowd: '0.5' is not a probability between 0 and 1; write a number"),
        ({"evidence": ["a", " "]}, "row 3, field evidence: ['a', ' '] cannot be used (a piece is empty)"),
        (
            {"form": "options", "options": ["a", "a"]},
            "row 3: two of the options ['a', 'a'] are equal; change",
        ),
        ({"event": " "}, "row 3, field event: ' ' cannot be used"),
        ({"event": ""}, "row 3, field event: '' cannot be used"),
    ],
)
def test_a_bad_field_is_refused_by_value_place_and_remedy(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        question(Question, "row 3", **{"domain": "test", "event": "e", "proposition": "It is so."} | fields)
    assert said in str(refused.value)


def test_a_free_question_needs_no_proposition() -> None:
    assert question(Question, "row", domain="test", form="free", event="e").proposition is None


@pytest.mark.parametrize("target", ["Yes", "true", "1", "maybe", ""])
def test_a_target_that_is_neither_yes_nor_no_is_refused(target: str) -> None:
    known = question(Question, "row 3", domain="test", event="e", proposition="It is so.")
    with pytest.raises(BadInput, match=f'must be "yes" or "no", got \'{target}\''):
        sample("id", "Is it so?", target, known, "row 3")


def test_brackets_in_a_message_are_not_markup() -> None:
    error = BadInput("Unknown split 'x[/foo]'")
    assert str(error) == "Unknown split 'x[/foo]'"
    assert render(str(error.message)).plain == str(error)


@pytest.mark.parametrize(
    ("target", "outcome"),
    [("yes", 1.0), ("no", 0.0), ("", None), ("Yes", None), (None, None), (1, None)],
    ids=["yes", "no", "empty", "other", "none", "number"],
)
def test_binary_outcomes(target: Any, outcome: float | None) -> None:
    assert binary_outcome(target) == outcome
