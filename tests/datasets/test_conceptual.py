"""Conceptual questions: a statement to believe or not, and no truth."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.conceptual import ConceptualQuestion, conceptual
from truthgym.datasets.errors import BadInput

ROW = {"id": "a", "question": "Is it?", "proposition": "It is.", "topic": "being", "event": "a"}


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_each_asks_a_question_beside_its_statement() -> None:
    known = [item.metadata_as(ConceptualQuestion) for item in conceptual()]
    assert {(question.form, question.domain) for question in known} == {("binary", "conceptual")}
    assert len({question.topic for question in known}) >= 10
    assert max(Counter(question.topic for question in known).values()) <= 8
    assert all("?" in str(item.input) or "." in str(item.input) for item in conceptual())
    assert not [item.id for item in conceptual() if item.target]


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (item,) = conceptual(write(tmp_path / "mine.jsonl", ROW | {"known_on": "2024-01-01"}))
    question = item.metadata_as(ConceptualQuestion)
    assert (item.id, item.input, item.target) == ("a", "Is it?", "")
    assert (question.proposition, question.topic, str(question.known_on)) == ("It is.", "being", "2024-01-01")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"proposition": " "}, "mine.jsonl line 2: the field `proposition` must be text in quotes"),
        ({"topic": 3}, "mine.jsonl line 2: the field `topic` must be text in quotes"),
        ({"propsition": "x"}, "Unknown field at mine.jsonl line 2: 'propsition'; did you mean 'proposition'?"),
        ({"known_on": "soon"}, "mine.jsonl line 2, field known_on: 'soon' cannot be used"),
        ({"id": "a"}, "duplicate id 'a', at questions 1 and 2"),
    ],
)
def test_a_bad_row_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        conceptual(write(tmp_path / "mine.jsonl", ROW, ROW | {"id": "b"} | change))
    assert said in str(refused.value)
