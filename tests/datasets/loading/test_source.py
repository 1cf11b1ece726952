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

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.loading.source import Source, exclusion_summary, file_sha256, load
from truthgym.datasets.question import Question, question, sample


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    known = question(Question, where, domain="test", **{name: row[name] for name in row if name != "id"})
    return sample(row["id"], "Is it so?", "yes", known, where)


def rows(skipped: Counter[str], known_after: date | None, most: int = 3) -> Iterator[Row]:
    skipped["post deleted"] += 2
    for i in range(most):
        yield f"row {i}", {"id": f"q{i}", "event": f"e{i}", "proposition": "It is so.", "known_on": f"2024-01-0{i + 1}"}


def of_a_folder(skipped: Counter[str], known_after: date | None, place: str, name: str | None = None) -> Iterator[Row]:
    yield f"{place}/{name}", {"id": "q", "event": "e", "proposition": "It is so."}


SOURCES = {
    "archive": Source(rows, "Archive: somebody's, CC BY 4.0, at abc."),
    "api": Source(rows, "API.", changes=True),
    "folder": Source(of_a_folder, "Yours."),
}


def test_a_real_source_is_read_and_its_licence_said_once(caplog: pytest.LogCaptureFixture) -> None:
    licence = "Said in this test alone: somebody's, CC BY 4.0."  # once is once a process
    sources = {"archive": Source(rows, licence)}
    with caplog.at_level(logging.WARNING):
        chosen = load("test", "archive", sample_of, sources, known_after="2024-01-01")
        load("test", "archive", sample_of, sources)
    assert [r.message for r in caplog.records].count(f"test: {licence}") == 1
    assert [s.id for s in chosen] == ["q1", "q2"]
    assert chosen.dropped == {"post deleted": 2, "known by 2024-01-01": 1}
    assert exclusion_summary(chosen) == "test: 2 samples; left out: 2 post deleted, 1 known by 2024-01-01."
    assert len(load("test", "archive", sample_of, sources, most=2)) == 2
    assert (chosen.digest, chosen.notice) == (None, None)


def test_what_a_source_holds_twice_is_asked_once_and_counted() -> None:
    twice = {"archive": Source(lambda *_: iter([*rows(Counter(), None), *rows(Counter(), None)]), "A.")}
    chosen = load("test", "archive", sample_of, twice)
    assert [s.id for s in chosen] == ["q0", "q1", "q2"]
    assert chosen.dropped == {"standing there twice": 3}


def test_asking_for_a_part_is_nothing_to_report() -> None:
    chosen = load("test", "archive", sample_of, {"archive": Source(lambda *_: rows(Counter(), None), "A.")}, n=1)
    assert chosen.dropped == {"not drawn": 2}
    assert exclusion_summary(chosen) is None


def test_rows_that_are_not_kept_are_counted() -> None:
    chosen = load("test", "archive", sample_of, SOURCES, keep=lambda row: "in French" if row["id"] == "q1" else None)
    assert [s.id for s in chosen] == ["q0", "q2"]
    assert chosen.dropped["in French"] == 1


def test_a_file_of_the_users_is_known_by_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for _, row in rows(Counter(), None)))
    digest = sha256(path.read_bytes()).hexdigest()
    chosen = load("test", str(path), sample_of, SOURCES, notice="Remembered.")
    assert (chosen.digest, chosen.notice) == (digest, None)
    assert file_sha256(path) == digest
    for given in (digest, digest.upper()):
        assert len(load("test", str(path), sample_of, SOURCES, sha256=given)) == 3
    path.write_text(path.read_text() + "\n")
    with pytest.raises(BadInput, match=f"is not what was asked for with sha256={digest}: its SHA-256 is "):
        load("test", str(path), sample_of, SOURCES, sha256=digest)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"source": "archve"}, "Unknown source 'archve'; did you mean 'archive'?"),
        ({"source": "archive", "split": "tst"}, "Unknown split 'tst'"),
        ({"source": "archive", "n": 0}, "n=0 is no number of questions"),
        ({"source": "archive", "langage": "French"}, "Unknown option of archive 'langage'; known: most"),
        ({"source": "archive", "sha256": "ab"}, "with sha256=ab: it is no file"),
        ({"source": "bundled", "most": 2}, "source=bundled takes no most: options are those of a real source"),
        ({"source": "nowhere.jsonl", "most": 2}, "source=nowhere.jsonl takes no most"),
        ({"source": "nowhere.jsonl"}, "There is no file nowhere.jsonl"),
        ({"source": "archive", "seed": "x"}, "seed='x' cannot be used; give a whole number"),
        ({"source": "folder"}, "test: folder needs the option place; give it with -T place="),
        (
            {"source": "folder", "place": 12},
            "place=12 is no text: the command line reads YAML, so put",
        ),
        (
            {"source": "api"},
            "`truthgym fetch test --source api --out test.jsonl`, and give source=test.jsonl",
        ),
    ],
)
def test_what_cannot_be_loaded_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        load("test", sample_of=sample_of, sources=SOURCES, **arguments)
    assert said in str(refused.value)


def test_an_error_names_the_file_of_the_users(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("\n")
    with pytest.raises(BadInput, match=r"test: .*mine.jsonl holds no question; write one a row"):
        load("test", str(path), sample_of, SOURCES)
    path.write_text("".join(json.dumps(row) + "\n\n" for _, row in [*rows(Counter(), None)] * 2))
    with pytest.raises(BadInput, match="mine.jsonl line 7: the id 'q0' stands twice, at questions 1 and 4; rename one"):
        load("test", str(path), sample_of, SOURCES)


def test_what_a_source_needs_is_given() -> None:
    (item,) = load("test", "folder", sample_of, SOURCES, place="here", name=None)
    assert item.id == "q"
