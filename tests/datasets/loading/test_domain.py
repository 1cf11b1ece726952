"""From a source to questions: bundled, real, or a file of the user's."""

import json
import logging
from collections import Counter
from collections.abc import Iterator
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.dataset import Sample

from truthgym.datasets.digests import file_digest
from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.domain import Domain, DomainRow, Skipped, Source, source_rows
from truthgym.datasets.loading.row_files import Row as PlacedRow
from truthgym.datasets.loading.row_files import RowFilter
from truthgym.datasets.loading.selection import exclusion_summary
from truthgym.datasets.question import Question


@validate_call
def of_an_archive(skipped: Skipped, known_after: date | None, most: int = 3) -> Iterator[PlacedRow]:
    skipped["post deleted"] += 2
    for i in range(most):
        yield f"row {i}", {"id": f"q{i}"}


@validate_call
def of_a_folder(skipped: Skipped, known_after: date | None, place: str, name: str | None = None) -> Iterator[PlacedRow]:
    yield f"{place}/{name}", {"id": "q"}


SOURCES = {
    "archive": Source(of_an_archive, "Archive: somebody's, CC BY 4.0, at abc."),
    "api": Source(of_an_archive, "API.", live=True),
    "folder": Source(of_a_folder, "Yours."),
}


def read(source: str, **options: Any) -> list[PlacedRow]:
    return list(source_rows("test", source, SOURCES, Counter(), None, **options))


def test_the_licence_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    licence = "Said in this test alone: somebody's, CC BY 4.0."  # once is once a process
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            list(source_rows("test", "archive", {"archive": Source(of_an_archive, licence)}, Counter(), None))
    assert [r.message for r in caplog.records].count(f"test: {licence}") == 1


def test_a_live_source_is_read_by_fetch_only() -> None:
    with pytest.raises(BadInput, match=r"`truthgym fetch test --source api --out test.jsonl`.*source=test.jsonl"):
        read("api")
    assert len(read("api", fetching=True)) == 3


@pytest.mark.parametrize(
    ("source", "options", "parts"),
    [
        ("archive", {"langage": "French"}, ["option of archive", "'langage'", "known: most"]),
        ("archive", {"most": "3"}, ["of_an_archive", "most='3'", "integer"]),
        ("folder", {}, ["folder needs the option place", "-T place="]),
        ("folder", {"place": 12}, ["place=12 cannot be used; it is not text", """'place="12"'"""]),
    ],
)
def test_bad_options_are_refused(source: str, options: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(BadInput) as error:
        read(source, **options)
    for part in parts:
        assert part in str(error.value)


class Row(DomainRow):
    def to_sample(self) -> Sample:
        return self.build(Question, "Is it so?", "yes", domain="test", proposition="It is so.")


def rows(skipped: Counter[str], known_after: date | None, most: int = 3) -> Iterator[PlacedRow]:
    skipped["post deleted"] += 2
    for i in range(most):
        yield f"row {i}", {"id": f"q{i}", "event": f"e{i}", "known_on": f"2024-01-0{i + 1}"}


def without(word: str) -> RowFilter:
    return lambda row: f"with {word}" if word in row["id"] else None


DOMAIN = Domain("test", Row, {"archive": Source(rows, "Archive.")}, notice="Remembered.", row_filter=without)
PLAIN = Domain("test", Row)
PLAIN_SOURCE = Domain("test", Row, {"archive": Source(lambda *_: rows(Counter(), None), "A.")})


def write(path: Path, repeat: int = 1, end: str = "\n") -> str:
    path.write_text("".join(json.dumps(row) + end for _, row in [*rows(Counter(), None)] * repeat))
    return str(path)


def test_a_real_source_is_selected_from() -> None:
    questions = DOMAIN("archive", known_after="2024-01-01")
    assert [s.id for s in questions] == ["q1", "q2"]
    assert questions.dropped == {"post deleted": 2, "known by 2024-01-01": 1}
    assert exclusion_summary(questions) == "test: 2 samples; left out: 2 post deleted, 1 known by 2024-01-01."
    assert (questions.digest, questions.notice) == (None, None)
    assert len(DOMAIN("archive", most=2)) == 2
    assert exclusion_summary(DOMAIN("archive", n=5)) == "test: 3 samples of n=5; left out: 2 post deleted."
    some = PLAIN_SOURCE("archive", n=1)
    assert (some.dropped, exclusion_summary(some)) == ({"not drawn": 2}, None), "a requested part is no exclusion"


def test_duplicates_in_a_source_are_skipped_and_counted() -> None:
    twice = Source(lambda *_: iter([*rows(Counter(), None), *rows(Counter(), None)]), "A.")
    questions = Domain("test", Row, {"archive": twice})("archive")
    assert [s.id for s in questions] == ["q0", "q1", "q2"]
    assert questions.dropped == {"with a duplicate id": 3}


def test_filtered_rows_are_counted(tmp_path: Path) -> None:
    questions = DOMAIN(write(tmp_path / "mine.jsonl"), word="1")
    assert [s.id for s in questions] == ["q0", "q2"]
    assert questions.dropped == {"with 1": 1}


def test_a_file_is_recorded_by_its_sha256(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    write(path)
    digest = sha256(path.read_bytes()).hexdigest()
    questions = DOMAIN(str(path))
    assert (questions.digest, questions.notice) == (digest, None)
    assert file_digest(path) == digest
    for given in (digest, digest.upper()):
        assert len(DOMAIN(str(path), sha256=given)) == 3
    path.write_text(path.read_text() + "\n")
    with pytest.raises(BadInput, match=f"sha256={digest} does not match: .*mine.jsonl has {file_digest(path)}"):
        DOMAIN(str(path), sha256=digest)


@pytest.mark.parametrize(
    ("domain", "arguments", "parts"),
    [
        (DOMAIN, {"source": "archve"}, ["source 'archve'", "did you mean 'archive'", "PATH.jsonl"]),
        (DOMAIN, {"source": "archive", "n": 0}, ["test: n must be at least 1, got 0", "omit it"]),
        (DOMAIN, {"source": "archive", "sha256": "ab"}, ["sha256=ab", "source=archive is not a file"]),
        (DOMAIN, {"source": "nowhere.jsonl"}, ["There is no file nowhere.jsonl"]),
        (DOMAIN, {"source": "bundled", "wrod": "a"}, ["option of source=bundled", "'wrod'", "known: word"]),
        (PLAIN, {"source": "bundled", "most": 2}, ["source=bundled takes no options, got most"]),
    ],
)
def test_bad_arguments_are_refused(domain: Domain, arguments: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(BadInput) as error:
        domain(**arguments)
    for part in parts:
        assert part in str(error.value)


def test_errors_name_the_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("\n")
    with pytest.raises(BadInput, match=r"test: .*mine.jsonl is empty; write one question a row"):
        DOMAIN(str(path))
    with pytest.raises(BadInput, match="mine.jsonl line 7: duplicate id 'q0', at questions 1 and 4; rename one"):
        DOMAIN(write(path, repeat=2, end="\n\n"))
