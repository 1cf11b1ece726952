"""GAIA mini: answers found anew from the question's words, the records and the tables, and refusals."""

import csv
import re
from collections import Counter
from typing import Any

import pytest

from truthgym.datasets.agent_worlds import TABLES, AgentQuestion, World, par, world
from truthgym.datasets.errors import BadInput
from truthgym.datasets.gaia_mini import gaia_mini


@pytest.fixture(scope="module")
def items() -> list[Any]:
    return list(gaia_mini())


def led_to(place: World, words: str) -> str:
    """Where "the mayor of the seat of Dorel" leads, by the words."""
    *relations, at = re.split(r" of (?:the )?", words.removeprefix("the "))
    for relation in reversed(relations):
        at = place.facts[at, relation].object
    return at


def row(place: World, name: str) -> dict[int, int]:
    table = list(csv.reader(place.table(place.kinds[name]).splitlines()))
    cells = next(cells for cells in table[1:] if cells[0] == name)
    return {int(year): int(number) for year, number in zip(table[0][1:], cells[1:], strict=True)}


def total(numbers: dict[int, int], text: str) -> int:
    first, last = map(int, re.findall(r"from (\d+) to (\d+)", text)[0])
    return sum(number for year, number in numbers.items() if first <= year <= last)


def test_the_30_are_ten_of_each_level_with_their_tables(items: list[Any]) -> None:
    known = [item.metadata_as(AgentQuestion) for item in items]
    assert Counter(question.kind for question in known) == {"level_1": 10, "level_2": 10, "level_3": 10}
    assert [len(question.attachments) for question in known] == [1, 1, 2] * 10
    assert {question.split for question in known} == {"test"}
    sources = {
        kind: [len(question.needs) for question in known if question.kind == kind]
        for kind in ("level_1", "level_2", "level_3")
    }
    assert [(min(counts), max(counts)) for counts in sources.values()] == [(2, 2), (5, 6), (6, 9)]


def test_the_answer_follows_from_the_words(items: list[Any]) -> None:
    for item in items:
        known = item.metadata_as(AgentQuestion)
        place, text = world(known.world, known.size), str(item.input)
        if known.kind == "level_1":
            end = led_to(place, re.findall(r" of (the .*?) in all", text)[0])
            assert known.answer == str(total(row(place, end), text))
        elif known.kind == "level_2":
            ends = [
                led_to(place, words) for words in re.findall(r"\d of (the .*?) with those of (the .*?)\. By", text)[0]
            ]
            larger, smaller = sorted((total(row(place, end), text) for end in ends), reverse=True)
            assert known.answer == str(larger - smaller)
        else:
            one, other = (
                led_to(place, words) for words in re.findall(r" of (the .*?)\. How .* for (the .*?)\?", text)[0]
            )
            best = max(row(place, one).items(), key=lambda cell: cell[1])[0]
            assert known.answer == str(row(place, other)[best])


def test_no_answer_is_in_the_question(items: list[Any]) -> None:
    for item in items:
        known = item.metadata_as(AgentQuestion)
        assert known.answer not in str(item.input)
        assert "Answer: none" in str(item.input)


def test_the_tables_are_those_of_the_ends(items: list[Any]) -> None:
    for item in items:
        known = item.metadata_as(AgentQuestion)
        files = [need.rpartition(": ")[0] for need in known.needs if ": " in need]
        assert sorted(set(files)) == known.attachments
        assert set(files) <= {file for file, _ in TABLES.values()}
        needed = [
            call
            for call in par(known, 1)
            if not call.failed and (call.shown or call.arguments.get("query") == known.missing)
        ]
        assert len(needed) <= known.budget


def test_levels_select_and_a_longer_set_begins_with_the_shorter() -> None:
    three = gaia_mini(n=3, level=3)
    assert {item.metadata_as(AgentQuestion).kind for item in three} == {"level_3"}
    assert [item.id for item in gaia_mini(n=2, level=3)] == [item.id for item in three][:2]
    assert "python" in gaia_mini(n=1, python=True)[0].metadata_as(AgentQuestion).tools


@pytest.mark.parametrize("level", [0, 4, "two", [], [1, 9]])
def test_a_level_that_is_none_is_refused(level: Any) -> None:
    with pytest.raises(BadInput, match="give 1, 2 or 3, or several"):
        gaia_mini(level=level)
