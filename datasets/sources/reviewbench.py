"""ReviewBench: ICLR papers with their reviews and decisions, gathered from OpenReview. A source of `openreview`."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.domain import Record, Skipped, keep_rows
from truthgym.datasets.loading.download import parquet_files
from truthgym.datasets.loading.row_files import Row, open_parquet
from truthgym.datasets.sources.openreview_api import abstract_of, event_of, outcome_of, review_of

REPOSITORY = "Samarth0710/reviewbench"
REVISION = "7d1b399bd7297318a2d6284b5349326166702530"
SHARDS = 5
"""Parquet files of ICLR at that revision, about 220 MB each. Most of that is full texts, which are not read."""
LICENCE = (
    "ReviewBench, ICLR papers with reviews and decisions from OpenReview (Samarth0710), tagged CC BY 4.0; the texts "
    f"remain their authors', https://huggingface.co/datasets/{REPOSITORY} at {REVISION}."
)
COLUMNS = ("forum_id", "year", "title", "abstract", "decision", "reviews_json")
BATCH = 200
LEAST = 0.05
"""Least share of either outcome among a year's papers. For some years the set has accepted papers only: being in the
set would reveal the decision."""
DAYS = {
    2020: (date(2019, 9, 25), date(2019, 12, 19)),
    2021: (date(2020, 10, 2), date(2021, 1, 12)),
    2022: (date(2021, 10, 5), date(2022, 1, 24)),
    2023: (date(2022, 9, 28), date(2023, 1, 20)),
    2024: (date(2023, 9, 28), date(2024, 1, 16)),
    2025: (date(2024, 10, 1), date(2025, 1, 22)),
}
"""Days on which ICLR closed submissions and announced decisions. The set has only the years."""


@validate_call
def reviewbench(
    skipped: Skipped, known_after: date | None, *, ratings: bool = False, location: str | None = None
) -> Iterator[Row]:
    """Read ReviewBench's ICLR papers of the years for which it has rejected papers too (2020 to 2023)."""
    names = [f"data/iclr-{number:05d}-of-{SHARDS:05d}.parquet" for number in range(SHARDS)]
    files = parquet_files("reviewbench", REPOSITORY, REVISION, names, location)
    return keep_rows(_papers(files, known_after, ratings), skipped)


def _papers(files: Sequence[Callable[[], Path]], known_after: date | None, ratings: bool) -> Iterator[Record]:
    outcomes = Counter(
        (paper["year"], outcome_of(paper["decision"] or "")) for _, paper in _read(files, ("year", "decision"))
    )
    for where, paper in _read(files, COLUMNS):
        year, outcome = paper["year"], outcome_of(paper["decision"] or "")
        counts = [outcomes[year, answer] for answer in ("yes", "no")]
        _, decided_on = DAYS.get(year, (None, None))
        if outcome is None:
            yield where, "withdrawn, or with a decision that neither accepts nor rejects"
        elif min(counts) < LEAST * sum(counts):
            yield where, "of years in which nearly all papers here have one outcome"
        elif known_after is not None and decided_on is not None and decided_on <= known_after:
            yield where, f"known by {known_after}"
        elif not all((paper[name] or "").strip() for name in ("forum_id", "title", "abstract")):
            yield where, "without a title or an abstract"
        else:
            yield where, partial(_row, paper, outcome, ratings)


def _row(paper: dict[str, Any], outcome: str, ratings: bool) -> dict[str, Any]:
    opened, decided_on = DAYS.get(paper["year"], (None, None))
    reviews = [review_of(fields, ratings) for fields in from_json(paper["reviews_json"] or "[]")]
    return {
        "id": f"openreview-{paper['forum_id']}",
        "title": paper["title"].strip(),
        "summary": abstract_of(paper["abstract"]),
        "venue": f"ICLR {paper['year']}",
        "decision": paper["decision"],
        "outcome": outcome,
        "opened_on": opened and opened.isoformat(),
        "known_on": decided_on and decided_on.isoformat(),
        "event": event_of(paper["title"]),
        "recorded": f"https://openreview.net/forum?id={paper['forum_id']}",
        "reviews": [text for text in reviews if text] or None,
    }


def _read(files: Sequence[Callable[[], Path]], columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in files:
        path = file()
        number = 0
        with open_parquet(path, "delete it to download it again") as opened:
            missing = [name for name in columns if name not in opened.schema_arrow.names]
            if missing:
                raise BadInput(
                    f"reviewbench: {path} lacks the columns {', '.join(missing)}; give the files of ReviewBench"
                )
            for batch in opened.iter_batches(BATCH, columns=list(columns)):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path.name} row {number}", row
