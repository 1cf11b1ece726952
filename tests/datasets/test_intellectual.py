"""Intellectual demonstration: prompts without a statement."""

import json
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.intellectual import IntellectualQuestion, intellectual

ROW = {"id": "a", "prompt": "Explain it.", "kind": "explanation", "event": "a"}


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_each_is_free() -> None:
    known = [item.metadata_as(IntellectualQuestion) for item in intellectual()]
    assert {(question.form, question.domain, question.proposition) for question in known} == {
        ("free", "intellectual", None)
    }
    assert len({question.kind for question in known}) >= 6
    assert not [item.id for item in intellectual() if item.target]


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (item,) = intellectual(write(tmp_path / "mine.jsonl", ROW))
    assert (item.id, item.input, item.target) == ("a", "Explain it.", "")
    assert item.metadata_as(IntellectualQuestion).kind == "explanation"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"prompt": " "}, "mine.jsonl line 2: the field `prompt` must be text in quotes"),
        ({"kind": None}, "mine.jsonl line 2: the field `kind` must be text in quotes"),
        ({"proposition": "It is."}, "Unknown field at mine.jsonl line 2: 'proposition'"),
        ({"known_on": "soon"}, "mine.jsonl line 2, field known_on: 'soon' cannot be used"),
        ({"id": "a"}, "duplicate id 'a', at questions 1 and 2"),
    ],
)
def test_a_bad_row_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        intellectual(write(tmp_path / "mine.jsonl", ROW, ROW | {"id": "b"} | change))
    assert said in str(refused.value)
