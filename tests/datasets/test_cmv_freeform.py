from collections import defaultdict
from statistics import mean
from typing import Any

import pytest

from tests.fixtures import bundled_rows, card_line, second_reading

ROWS = bundled_rows("cmv_freeform")
PAIRS: dict[str, list[dict[str, Any]]] = defaultdict(list)
for row in ROWS:
    PAIRS[row["event"]].append(row)
PAIRS = {event: rows for event, rows in PAIRS.items() if len(rows) > 1}


def words(row: dict[str, Any]) -> int:
    return len(row["post"].split())


def test_what_people_quarrel_about_is_stated_from_both_sides() -> None:
    assert {len(rows) for rows in PAIRS.values()} == {2}
    assert len(PAIRS) >= 30
    assert {"abortion", "gun-ownership", "existence-of-god", "death-penalty", "immigration-levels"} <= set(PAIRS)


def test_both_sides_have_as_many_words() -> None:
    first, second = zip(*((words(a), words(b)) for a, b in PAIRS.values()), strict=True)
    assert abs(sum(first) - sum(second)) < 0.03 * sum(first)
    by_event = {event: sorted(map(words, rows)) for event, rows in PAIRS.items()}
    assert not {event: pair for event, pair in by_event.items() if pair[1] > 1.25 * pair[0]}


def test_left_and_right_are_written_with_the_same_care() -> None:
    posts = {row["id"]: words(row) for row in ROWS}
    read = second_reading("cmv_freeform")
    assert {name for rows in PAIRS.values() for name in (row["id"] for row in rows)} >= set(read)
    assert all(answer["live"] for answer in read.values())
    said = []
    for side in ("left", "right", "neither"):
        natural = [answer["natural"] for answer in read.values() if answer["side"] == side]
        length = mean(posts[name] for name, answer in read.items() if answer["side"] == side)
        assert length == pytest.approx(mean(posts[name] for name in read), rel=0.03)
        said.append(f"{mean(natural):.1f} for the {len(natural)} {side}")
    text = card_line("cmv_freeform")
    assert [part for part in said if part not in text] == []
