"""The page of the loop over seeds says what its table of questions says."""

import csv
import re
import runpy
from pathlib import Path

import pytest

from truthgym.scorers.statistics.interval import mean_headline

study = runpy.run_path("examples/loop_over_seeds.py")
PAGE = Path("docs/loop_urns.md")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with PAGE.with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _difference(rows: list[dict[str, str]], seed: str, other: str) -> str:
    held = [row for row in rows if row["seed"] == seed and "nan" not in (row["trained"], row[other])]
    told = mean_headline([float(row["trained"]) - float(row[other]) for row in held], [row["event"] for row in held])
    return f"{told.estimate:+.4f} [{told.lower:+.4f}, {told.upper:+.4f}]"


def test_the_differences_follow_from_the_questions(rows: list[dict[str, str]]) -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| \d+ \| 0\.", line)]
    seeds = sorted({row["seed"] for row in rows})
    assert len(lines) == len(seeds) >= 5
    for seed, line in zip(seeds, lines, strict=True):
        assert _difference(rows, seed, "start") in line
        assert _difference(rows, seed, "constant") in line


def test_the_headline_follows_from_the_differences(rows: list[dict[str, str]]) -> None:
    seeds = sorted({row["seed"] for row in rows})
    better = [_below(rows, seed, "start") for seed in seeds]
    beaten = [_below(rows, seed, "constant") for seed in seeds]
    both = sum(start and constant for start, constant in zip(better, beaten, strict=True))
    text = PAGE.read_text(encoding="utf-8").replace("\n", " ")
    assert f"**{sum(better)} of {len(seeds)}** seeds" in text
    assert f"in {sum(beaten)} of {len(seeds)} below that of the best constant" in text
    assert f"in {both} of {len(seeds)} below both" in text
    assert f"The aim, both in {study['NEEDED']} of 5, is {'met' if both >= study['NEEDED'] else 'not met'}." in text


def _below(rows: list[dict[str, str]], seed: str, other: str) -> bool:
    return _difference(rows, seed, other).split(", ")[-1].startswith("-")


def test_exact_is_the_score_of_the_posteriors() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert next(line for line in lines if line.startswith("| 0 | 0.")).startswith(f"| 0 | {study['exact'](0):.4f} |")


def test_the_columns_are_those_that_the_study_writes(rows: list[dict[str, str]]) -> None:
    assert tuple(rows[0]) == study["COLUMNS"]
