"""Real sources: their options, their licence, and sources that change over time."""

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.domain import Skipped, Source, source_rows
from truthgym.datasets.loading.row_files import Row


@validate_call
def rows(skipped: Skipped, known_after: date | None, most: int = 3) -> Iterator[Row]:
    skipped["post deleted"] += 2
    for i in range(most):
        yield f"row {i}", {"id": f"q{i}"}


@validate_call
def of_a_folder(skipped: Skipped, known_after: date | None, place: str, name: str | None = None) -> Iterator[Row]:
    yield f"{place}/{name}", {"id": "q"}


SOURCES = {
    "archive": Source(rows, "Archive: somebody's, CC BY 4.0, at abc."),
    "api": Source(rows, "API.", live=True),
    "folder": Source(of_a_folder, "Yours."),
}


def read(source: str, **options: Any) -> list[Row]:
    return list(source_rows("test", source, SOURCES, Counter(), None, **options))


def test_options_reach_the_source_and_its_counter_is_filled() -> None:
    skipped: Counter[str] = Counter()
    assert len(list(source_rows("test", "archive", SOURCES, skipped, None, most=2))) == 2
    assert skipped == {"post deleted": 2}
    assert read("folder", place="here", name=None) == [("here/None", {"id": "q"})]


def test_the_licence_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    licence = "Said in this test alone: somebody's, CC BY 4.0."  # once is once a process
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            list(source_rows("test", "archive", {"archive": Source(rows, licence)}, Counter(), None))
    assert [r.message for r in caplog.records].count(f"test: {licence}") == 1


def test_a_live_source_is_read_by_fetch_only() -> None:
    with pytest.raises(BadInput, match=r"`truthgym fetch test --source api --out test.jsonl`.*source=test.jsonl"):
        read("api")
    assert len(read("api", fetching=True)) == 3


@pytest.mark.parametrize(
    ("source", "options", "parts"),
    [
        ("archive", {"langage": "French"}, ["option of archive", "'langage'", "known: most"]),
        ("archive", {"most": "3"}, ["rows", "most='3'", "integer"]),
        ("folder", {}, ["folder needs the option place", "-T place="]),
        ("folder", {"place": 12}, ["place=12 cannot be used; it is not text", """'place="12"'"""]),
    ],
)
def test_bad_options_are_refused(source: str, options: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(BadInput) as error:
        read(source, **options)
    for part in parts:
        assert part in str(error.value)
