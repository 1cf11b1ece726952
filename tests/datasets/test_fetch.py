"""Snapshots: what is in the file, and that nothing half done stays."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from inspect_ai.dataset import Sample

from truthgym.cli.commands import fetch as command
from truthgym.datasets.domains import DOMAINS
from truthgym.datasets.errors import BadInput
from truthgym.datasets.fetch import fetch
from truthgym.datasets.loading.domain import Domain, DomainRow, Skipped, Source
from truthgym.datasets.loading.row_files import Row as PlacedRow
from truthgym.datasets.loading.row_files import read_rows
from truthgym.datasets.question import Question


class Row(DomainRow):
    texts: list[str] | None = None
    note: str | None = None

    def to_sample(self) -> Sample:
        return self.build(Question, "Is it so?", "yes", domain="test", proposition="It is so.")


def rows(
    skipped: Skipped, known_after: date | None, most: int = 30, breaks: bool = False, token: str = ""
) -> Iterator[PlacedRow]:
    for i in range(1, most + 1):
        if breaks and i == 20:
            raise BadInput("the archive breaks off")
        skipped["post deleted"] += i % 10 == 0
        more = {"texts": ["a", "b"], "note": "2024-01-01"} if i > 2 else {}
        yield f"row {i}", {"id": f"q{i}", "known_on": f"2024-01-{i:02d}", **more}


SOURCES = {"archive": Source(rows, "Archive, CC BY 4.0."), "api": Source(rows, "An API.", live=True)}
DOMAIN = Domain("test", Row, SOURCES)


@pytest.fixture(autouse=True)
def one_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(DOMAINS):
        monkeypatch.delitem(DOMAINS, name)
    monkeypatch.setitem(DOMAINS, "test", DOMAIN)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_snapshot_asks_the_questions_of_its_source(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"snap.{ending}"
    made = fetch("test", "archive", path)
    assert (made.rows, made.sha256) == (30, sha256(path.read_bytes()).hexdigest())
    assert made.left_out == {"post deleted": 3}
    assert [row for _, row in read_rows(path)] == [row for _, row in rows(Counter(), None)]
    asked, again = DOMAIN("archive"), DOMAIN(str(path))
    assert [s.model_dump() for s in asked] == [s.model_dump() for s in again]
    assert {p.name for p in tmp_path.iterdir()} == {"snap.md", f"snap.{ending}"}


def test_a_row_that_comes_twice_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where pages of an interface move while they are turned."""
    monkeypatch.setitem(SOURCES, "api", Source(lambda *_: iter([*rows(Counter(), None)] * 2), "An API.", live=True))
    made = fetch("test", "api", tmp_path / "snap.jsonl")
    assert (made.rows, made.left_out) == (30, {"with a duplicate id": 30})


def test_a_parquet_that_cannot_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        assert not (tmp_path / "snap.parquet").exists(), "what is under its name is whole"
        raise OSError("no space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(BadInput, match=r"snap.parquet: cannot be written \(no space left on device\); free disk space"):
        fetch("test", "archive", tmp_path / "snap.parquet")
    assert list(tmp_path.iterdir()) == []


def test_the_card_says_what_it_is_and_how_to_make_it_again(tmp_path: Path) -> None:
    made = fetch("test", "api", tmp_path / "snap.jsonl", known_after="2024-01-05", n=7, seed=3, most=29, token="geheim")
    card = (tmp_path / "snap.md").read_text()
    said = "truthgym fetch test --source api --out snap.jsonl --known-after 2024-01-05 -n 7 --seed 3 -T most=29\n"
    assert said in card
    assert "geheim" not in card
    assert f"`{made.sha256}`" in card
    assert f"{date.today():%Y-%m}" in card
    assert "An API." in card
    assert "| rows | 7 |" in card
    assert "| left out: not drawn | 17 |" in card
    assert "| left out: known by 2024-01-05 | 5 |" in card
    fetch("test", "archive", tmp_path / "drawn.jsonl", n=7, seed=3)
    drawn = [row["id"] for _, row in read_rows(tmp_path / "drawn.jsonl")]
    assert drawn == [s.id for s in DOMAIN("archive", n=7, seed=3)], "as an eval draws"


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_nothing_is_left_of_one_that_breaks_off(tmp_path: Path, ending: str) -> None:
    with pytest.raises(BadInput, match="the archive breaks off"):
        fetch("test", "archive", tmp_path / f"snap.{ending}", breaks=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"domain": "tset"}, "Unknown domain with a real source 'tset'; did you mean 'test'? known: test"),
        ({"source": None}, "truthgym fetch test: name a source with --source: archive, api"),
        ({"source": "archiv"}, "Unknown source 'archiv'; did you mean 'archive'?"),
        ({"out": "snap.csv"}, "a snapshot must end in .jsonl or .parquet"),
        ({"out": "nowhere/snap.jsonl"}, "there is no folder nowhere; create it, or give another"),
        ({"out": "there.jsonl"}, "there.jsonl exists already; give another name, or remove it"),
        ({"out": "card.jsonl"}, "card.md exists already"),
        ({"known_after": "2025-01-01"}, "archive has no row to write (30 known by 2025-01-01, 3 post deleted)"),
        ({"langage": "x"}, "Unknown option of archive 'langage'; known: most, breaks, token"),
    ],
)
def test_bad_arguments_of_fetch_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.jsonl").touch()
    Path("card.md").touch()
    with pytest.raises(BadInput) as refused:
        fetch(**({"domain": "test", "source": "archive", "out": "snap.jsonl"} | arguments))
    assert said in str(refused.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["card.md", "there.jsonl"]


def test_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "snap.jsonl"
    done = CliRunner().invoke(
        command, f"test --source archive --out {out} -n 5 --known-after 2024-01-10 -T most=20".split()
    )
    assert done.exit_code == 0, done.output
    assert f"{out}: 5 rows, SHA-256 {sha256(out.read_bytes()).hexdigest()}" in done.output
    assert "10  known by 2024-01-10" in done.output
    assert json.loads(out.read_text().splitlines()[0])["known_on"] > "2024-01-10"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("most", "-T most cannot be used; write NAME=VALUE"),
        ("known_after=2024-01-10", "known_after is not an option of a source; give it as --known-after"),
        ("most=[1", "-T most=[1 is not valid YAML ("),
    ],
)
def test_an_option_that_cannot_be_read_is_refused(tmp_path: Path, option: str, said: str) -> None:
    wrong = CliRunner().invoke(command, ["test", "--source", "archive", "--out", f"{tmp_path}/a.jsonl", "-T", option])
    assert isinstance(wrong.exception, BadInput)
    assert said in str(wrong.exception)
