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
DENIED = [
    "headscarf-in-state-schools",
    "slavery-reparations",
    "trans-women-in-womens-sport",
    "burning-holy-books",
    "land-for-peace-in-ukraine",
    "south-korean-bomb",
    "opting-out-of-lessons-on-sexuality",
    "mass-arrests-in-el-salvador",
    "smacking-children",
    "divorce-in-the-philippines",
]
"""Pairs of which one view is the denial of the other."""


def words(row: dict[str, Any]) -> int:
    return len(row["post"].split())


def test_what_people_quarrel_about_is_stated_from_both_sides() -> None:
    assert {len(rows) for rows in PAIRS.values()} == {2}
    assert len(PAIRS) >= 30
    assert {"abortion", "gun-ownership", "existence-of-god", "death-penalty", "immigration-levels"} <= set(PAIRS)


def test_the_card_counts_the_views_and_those_that_deny_each_other() -> None:
    assert set(DENIED) <= set(PAIRS)
    text = card_line("cmv_freeform")
    assert f"In {len(DENIED)} of the {len(PAIRS)} pairs one view denies the other" in text
    first, later = len(ROWS) - 2 * (len(PAIRS) - 1), 2 * (len(PAIRS) - 1)
    assert f"{first} views on everyday and political questions were written first" in text
    assert f"{later} more state both sides of {len(PAIRS) - 1} quarrels" in text


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


def test_the_ids_of_a_pair_name_who_speaks_and_not_the_side() -> None:
    sides = {"against", "pro", "anti", "ban", "legal", "illegal", "right", "wrong", "untaxed"}
    for event, rows in PAIRS.items():
        first, second = (row["id"].split("-") for row in rows)
        assert first[0] == second[0], event
        assert not sides & {*first, *second}
