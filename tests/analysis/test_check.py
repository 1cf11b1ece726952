"""What `truthgym check` says of files whose faults and figures are known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.fixtures import write_rows
from truthgym.analysis.check import check, report, similar, warnings
from truthgym.cli.commands import check as command
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.domain import bundled_file
from truthgym.datasets.questions import questions as own_questions

RNG = np.random.default_rng(3)


def rows(n: int, **fields: Any) -> list[dict[str, Any]]:
    """Questions with 12 random words each; yes in every second one."""
    texts = [" ".join(RNG.choice([f"noun{i}" for i in range(50)], 12)) for _ in range(n)]
    return [
        {"id": f"q{i}", "question": f"{text}?", "outcome": "yes" if i % 2 else "no", **fields}
        for i, text in enumerate(texts)
    ]


def test_figures_are_those_of_the_rows(tmp_path: Path) -> None:
    questions = rows(40, crowd=0.8, opened_on="2026-01-02")
    for i in range(10):
        questions[i] |= {"evidence": ["one", "two"], "event": "shared", "known_on": f"2026-02-{i + 1:02}"}
    findings = check(write_rows(tmp_path / "mine.jsonl", *questions))
    assert findings.fields == dict.fromkeys(("id", "question", "outcome", "crowd", "opened_on"), 40) | dict.fromkeys(
        ("evidence", "event", "known_on"), 10
    )
    assert (findings.base_rate.estimate, findings.base_rate.clusters) == (0.5, 31)
    assert findings.crowd.estimate == pytest.approx((0.2**2 + 0.8**2) / 2)
    assert warnings(findings) == []
    text = report(findings)
    for line in (
        "fields          id, question, outcome, crowd, opened_on, evidence (10), event (10), known_on (10)",
        "opened_on       2026-01-02 to 2026-01-02 (40 of 40)",
        "known_on        2026-02-01 to 2026-02-10 (10 of 40)",
        "evidence        2 to 2 pieces (10 of 40)",
        "events          31, the largest is 'shared' with 10 questions",
        "share of yes    0.500 [",
        "Brier of crowd  0.340 [",
        "same text       none",
    ):
        assert line in text


def test_a_leak_and_doubles_are_warned_of(tmp_path: Path) -> None:
    questions = rows(60)
    for row in questions[1::2]:
        row["question"] += " Whatever else happens?"
    loud = {"id": "other", "question": questions[3]["question"].upper(), "outcome": "no"}
    questions += [questions[0] | {"id": "again"}, questions[3] | loud]
    findings = check(write_rows(tmp_path / "mine.jsonl", *questions))
    assert findings.doubles == [("q0", "again"), ("q3", "other")]
    words, style, same_text, contradiction = warnings(findings)
    assert words.startswith("the words of the questions tell the outcome (AUC ")
    assert style.startswith("the style")
    assert same_text == "q0 and again have the same text and different events; give them one event, or remove one"
    assert contradiction == "q3 and other have the same text and different outcomes; correct one"
    assert f"Warning: {same_text}." in report(findings)


def test_little_is_said_of_little(tmp_path: Path) -> None:
    findings = check(write_rows(tmp_path / "mine.jsonl", *(row | {"outcome": "yes"} for row in rows(4))))
    few, same = warnings(findings)
    assert few.startswith("4 questions")
    assert same.startswith("all outcomes are the same")
    assert "too few outcomes or events to tell" in report(findings)
    alone = check(write_rows(tmp_path / "one.jsonl", *rows(1)))
    assert "too few events" in report(alone)


def test_alike_is_the_share_of_common_shingles() -> None:
    """ "abcdef" and "abcdefg" have 2 and 3 shingles of five characters, 2 in common; long texts differ in one word."""
    long = "the quick brown fox jumps over the lazy dog and runs into the deep dark forest at night "
    texts = ["abcdef", "abcdefg", f"{long}1", f"{long}2", "Abc, DEF", "abc def", "abc"]
    assert similar(texts) == ([(4, 5)], [(2, 3)])
    assert similar([]) == ([], [])


def test_bundled_files_can_be_checked() -> None:
    findings = check(bundled_file("conceptual"), "conceptual")
    assert np.isnan(findings.base_rate.estimate)
    assert "share of yes    none" in report(findings)


def test_the_command_prints_or_refuses(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "mine.jsonl", *rows(30))
    result = CliRunner().invoke(command, [path])
    assert "Note" not in result.output
    other = write_rows(tmp_path / "other.jsonl", *rows(30, type="map", field=["a"]))
    note = (
        "other.jsonl has columns that questions does not read; they are kept as metadata of the samples: type, field."
    )
    assert note in CliRunner().invoke(command, [other]).output
    assert str(own_questions(other).notice).endswith(note)
    assert (result.exit_code, result.output.splitlines()[0]) == (0, f"{path}: 30 questions, read as truthgym/questions")
    bad = write_rows(tmp_path / "bad.jsonl", {"id": "a"}, {"id": "b", "question": "Why?", "outcome": 2})
    for arguments, parts in (
        ([bad], ["line 1: the field `question` is missing", "line 2: the field `outcome`: 2 cannot be used"]),
        (["mine.txt"], ["mine.txt cannot be read; give a .jsonl, .csv or .parquet file"]),
        ([path, "--domain", "forcasting"], ["did you mean 'forecasting'?"]),
    ):
        error = CliRunner().invoke(command, arguments).exception
        assert isinstance(error, BadInput)
        assert not [part for part in parts if part not in str(error)]
