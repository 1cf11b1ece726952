from collections import Counter
from typing import Any

import numpy as np
import pytest
from inspect_ai.dataset import Sample
from rich.markup import render

from tests.fixtures import Solve, says
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import (
    NEUTRAL,
    Question,
    arm_of,
    binary_outcome,
    question,
    question_metadata,
    sample,
    split_of,
)
from truthgym.solvers.direct import direct


def test_split_depends_on_the_event_alone() -> None:
    # sha256 of "a" begins with 0xca, of "b" with 0x3e, of "abc" with 0xba: places 0.79, 0.24 and 0.73
    assert [split_of(event) for event in ("a", "b", "abc")] == ["validation", "train", "validation"]
    many = Counter(split_of(f"event {i}") for i in range(10_000))
    assert many["train"] == pytest.approx(6000, abs=200)
    assert many["validation"] == pytest.approx(2000, abs=160)
    assert many["test"] == pytest.approx(2000, abs=160)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"base_rate": 70}, "`base_rate`: 70 is not a probability; write 0.7"),
        ({"crowd": "0.5"}, "`crowd`: '0.5' is not a probability; write a number"),
        ({"proposition": None}, "row 3: a binary question needs a `proposition`"),
        ({"form": "essay"}, "`form`: 'essay' cannot be used; .*'binary'"),
        ({"known_on": "yesterday"}, "`known_on`: 'yesterday' .* a day such as 2025-06-01"),
        ({"known_on": "2999-01-01"}, "`known_on`: '2999-01-01' .* in the future"),
        ({"opened_on": "2024-05-01T00:00:00"}, "`opened_on`: '2024-05-01T00:00:00' cannot be used"),
        ({"opened_on": "2024-05-02", "known_on": "2024-05-01"}, "opened_on 2024-05-02 is not before"),
        ({"evidence": ["a", " "]}, "`evidence.1` must be text"),
        ({"form": "options", "options": ["a", "a"]}, r"two of the options \['a', 'a'\] are equal"),
        ({"event": "", "crowd": 2}, "`event` must be text.*`crowd`: 2 is not"),
    ],
)
def test_bad_fields_are_refused(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(BadInput, match=f"row 3: .*{match.removeprefix('row 3: ')}"):
        question(Question, "row 3", **{"domain": "test", "event": "e", "proposition": "It is so."} | fields)


@pytest.mark.parametrize("target", ["maybe", "2", ""])
def test_a_target_that_is_neither_yes_nor_no_is_refused(target: str) -> None:
    known = question(Question, "row 3", domain="test", event="e", proposition="It is so.")
    with pytest.raises(BadInput, match=f'must be "yes" or "no", got \'{target}\''):
        sample("id", "Is it so?", target, known, "row 3")


def test_brackets_in_a_message_are_not_markup() -> None:
    error = BadInput("Unknown split 'x[/foo]'")
    assert str(error) == "Unknown split 'x[/foo]'"
    assert render(str(error.message)).plain == str(error)


OUTCOMES: dict[float | None, list[Any]] = {
    1.0: ["yes", "Yes", " YES ", "True", "TRUE", True, "1", 1, 1.0, "1.0", np.True_, "y", "Y"],
    0.0: ["no", "NO", " No\n", "False", False, "0", 0, np.int64(0), "n", "N"],
    None: ["", " ", None, "maybe", "yes.", "2", 42, 0.5, [], "ye"],
}


@pytest.mark.parametrize(
    ("target", "outcome"), [(target, outcome) for outcome, targets in OUTCOMES.items() for target in targets]
)
def test_binary_outcomes(target: Any, outcome: float | None) -> None:
    assert binary_outcome(target) == outcome
    assert binary_outcome(target, {"form": "binary", "options": []}) == outcome
    strict = {"yes": 1.0, "no": 0.0}.get(str(target))
    assert binary_outcome(target, {"form": "free"}) == strict
    assert binary_outcome(target, {"form": "binary", "options": ["Y", "N"]}) == strict


@pytest.mark.parametrize(
    ("text", "target", "form"),
    [
        ("Will it rain?", "True", "binary"),
        ("Will it rain?", "1", "binary"),
        ("What will happen? Will it rain?", "Yes", "binary"),
        ("How many moons has Earth?", "1", "free"),
        ("Will it rain, and where?", "In Paris", "free"),
    ],
)
def test_a_question_without_a_form_is_binary_by_its_target(text: str, target: str, form: str) -> None:
    assert question_metadata("a", text, target)["form"] == form


@pytest.mark.parametrize(
    "metadata",
    [
        {"event": 3},
        {"domain": {"a": 1}, "split": "dev"},
        {"posterior": "x", "naive": 3},
        {"arm": "treatment", "question": 5},
        {"options": "abc", "evidence": "text", "form": "mcq"},
    ],
)
def test_fields_of_other_projects_break_no_sample(solve: Solve, metadata: dict[str, Any]) -> None:
    sample = solve(says("Hm."), direct(), Sample(id="a", input="Will it rain?", target="yes", metadata=metadata))
    assert sample.output.completion == "Hm."
    assert arm_of(sample.metadata) == NEUTRAL
