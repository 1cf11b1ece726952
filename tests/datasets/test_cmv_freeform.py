"""Contested views: a statement that is the view itself, and no truth. For the real sources see the tests of each."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.cmv_freeform import ContestedViewQuestion, cmv_freeform
from truthgym.datasets.errors import BadInput

ROW = {"id": "a", "view": "Cats are better pets than dogs.", "post": "They sleep.", "event": "a"}


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_the_view_is_the_statement() -> None:
    for item in cmv_freeform():
        known = item.metadata_as(ContestedViewQuestion)
        assert (known.form, known.domain, item.target, known.evidence) == ("binary", "cmv_freeform", "", [])
        assert known.proposition
        assert re.fullmatch(r"[A-Z].*\.", known.proposition)
        assert str(item.input).count(known.proposition) == 1
        assert "One who holds it writes: " in str(item.input)


def test_views_are_of_many_kinds_and_no_question_holds_another() -> None:
    topics = Counter(item.metadata_as(ContestedViewQuestion).topic for item in cmv_freeform())
    assert len(topics) >= 8
    assert max(topics.values()) <= 0.25 * topics.total()
    asked = [str(item.input) for item in cmv_freeform()]
    assert not [(a, b) for a in asked for b in asked if a is not b and a in b]


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (item,) = cmv_freeform(write(tmp_path / "mine.jsonl", ROW | {"topic": "animals", "known_on": "2024-01-01"}))
    known = item.metadata_as(ContestedViewQuestion)
    assert (item.id, known.proposition, known.topic, str(known.known_on)) == ("a", ROW["view"], "animals", "2024-01-01")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"view": " "}, "mine.jsonl line 2: the field `view` must be text in quotes"),
        ({"post": 3}, "mine.jsonl line 2: the field `post` must be text in quotes"),
        ({"veiw": "x"}, "Unknown field at mine.jsonl line 2: 'veiw'; did you mean 'view'?"),
        ({"outcome": "yes"}, "Unknown field at mine.jsonl line 2: 'outcome'"),
        ({"event": ""}, "mine.jsonl line 2: the field `event` must be text in quotes"),
        ({"topic": 3}, "mine.jsonl line 2, field topic: 3 cannot be used"),
        ({"id": "a"}, "duplicate id 'a', at questions 1 and 2"),
    ],
)
def test_a_bad_row_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        cmv_freeform(write(tmp_path / "mine.jsonl", ROW, ROW | {"id": "b"} | change))
    assert said in str(refused.value)


def test_an_option_without_a_real_source_is_refused() -> None:
    with pytest.raises(BadInput, match="Unknown source 'webs'; did you mean 'webis'"):
        cmv_freeform("webs")
