"""ReviewBench: ICLR papers with their reviews and decisions, gathered from OpenReview. A source of `openreview`."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.hub import hub_file
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.sources.openreview_paper import abstract_of, check_ratings, event_of, outcome_of, review_of

REPOSITORY = "Samarth0710/reviewbench"
REVISION = "7d1b399bd7297318a2d6284b5349326166702530"
SHARDS = 5
"""Parquet files of ICLR at that revision, about 220 MB each, most of it the papers' full texts, which are not read."""
LICENCE = (
    "ReviewBench, ICLR papers with reviews and decisions from OpenReview (Samarth0710), tagged CC BY 4.0; the texts "
    f"remain their authors', https://huggingface.co/datasets/{REPOSITORY} at {REVISION}."
)
COLUMNS = ("forum_id", "year", "title", "abstract", "decision", "reviews_json")
BATCH = 200
"""Papers held at a time."""
LEAST = 0.05
"""Share that either outcome must have among a year's papers. Of some years the set holds accepted papers alone: that a
paper stands in it would give its decision away."""
DAYS = {
    2020: (date(2019, 9, 25), date(2019, 12, 19)),
    2021: (date(2020, 10, 2), date(2021, 1, 12)),
    2022: (date(2021, 10, 5), date(2022, 1, 24)),
    2023: (date(2022, 9, 28), date(2023, 1, 20)),
    2024: (date(2023, 9, 28), date(2024, 1, 16)),
    2025: (date(2024, 10, 1), date(2025, 1, 22)),
}
"""Days on which ICLR closed for submissions and told its decisions. The set holds years alone."""


def reviewbench(
    skipped: Counter[str], known_after: date | None, *, ratings: bool = False, location: str | None = None
) -> Iterator[Row]:
    """Read the ICLR papers of ReviewBench of those years of which it has rejected papers, too (2020 to 2023).

    The files are read twice, at first years and decisions alone. Years whose papers nearly all ended alike are left out
    and counted.

    Args:
        skipped: Takes what is left out, by reason.
        known_after: Years that were decided by this day are passed over.
        ratings: Whether reviewers' marks are part of the evidence.
        location: A folder that holds .parquet files of this shape, or the address of a mirror of the Hugging Face hub.

    Raises:
        BadInput: A file cannot be had or read.
    """
    check_ratings("reviewbench", ratings)
    return _papers(skipped, known_after, ratings, location)


def _papers(skipped: Counter[str], known_after: date | None, ratings: bool, location: str | None) -> Iterator[Row]:
    files = _files(location)
    outcomes = Counter((of["year"], outcome_of(of["decision"] or "")) for _, of in _read(files, ("year", "decision")))
    for where, of in _read(files, COLUMNS):
        year, outcome = of["year"], outcome_of(of["decision"] or "")
        counts = [outcomes[year, one] for one in ("yes", "no")]
        _, known = DAYS.get(year, (None, None))
        if outcome is None:
            skipped["withdrawn, or with a decision that neither accepts nor rejects"] += 1
        elif min(counts) < LEAST * sum(counts):
            skipped["of years of which nearly all papers here ended alike"] += 1
        elif known_after is not None and known is not None and known <= known_after:
            skipped[f"known by {known_after}"] += 1
        elif not all((of[name] or "").strip() for name in ("forum_id", "title", "abstract")):
            skipped["without a title or an abstract"] += 1
        else:
            yield where, _row(of, outcome, where, ratings)


def _row(of: dict[str, Any], outcome: str, where: str, ratings: bool) -> dict[str, Any]:
    opened, known = DAYS.get(of["year"], (None, None))
    row = {
        "id": f"openreview-{of['forum_id']}",
        "title": of["title"].strip(),
        "summary": abstract_of(of["abstract"]),
        "venue": f"ICLR {of['year']}",
        "decision": of["decision"],
        "outcome": outcome,
        "opened_on": opened and opened.isoformat(),
        "known_on": known and known.isoformat(),
        "event": event_of(of["title"]),
        "recorded": f"https://openreview.net/forum?id={of['forum_id']}",
        "reviews": _reviews(of["reviews_json"], where, ratings) or None,
    }
    return {name: value for name, value in row.items() if value is not None}


def _reviews(text: str | None, where: str, ratings: bool) -> list[str]:
    try:
        given = json.loads(text or "[]")
        reviews = [review_of(fields, ratings) for fields in given]
    except (ValueError, AttributeError, TypeError) as error:
        raise BadInput(
            f"{where}, column reviews_json: no JSON list of reviews ({type(error).__name__}: {error}); read "
            f"ReviewBench at {REVISION}"
        ) from None
    return [review for review in reviews if review]


def _files(location: str | None) -> list[Path]:
    if location is None or location.startswith(("http://", "https://")):
        return [
            hub_file("reviewbench", REPOSITORY, REVISION, f"data/iclr-{number:05d}-of-{SHARDS:05d}.parquet", location)
            for number in range(SHARDS)
        ]
    held = sorted(Path(location).glob("*.parquet"))
    if not held:
        raise BadInput(
            f"reviewbench: the folder {location} holds no .parquet file; give one that does, or leave it out"
        )
    return held


def _read(files: Sequence[Path], columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow
    import pyarrow.parquet

    for path in files:
        number = 0
        try:
            # By default a reader keeps the bytes of every column that it was asked for until the file's end.
            with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
                lacking = [name for name in columns if name not in file.schema_arrow.names]
                if lacking:
                    raise BadInput(
                        f"reviewbench: {path} has not the columns of ReviewBench: {', '.join(lacking)} is not there; "
                        "give the files of that set"
                    )
                for batch in file.iter_batches(BATCH, columns=list(columns)):
                    for row in batch.to_pylist():
                        number += 1
                        yield f"{path.name} row {number}", row
        except (pyarrow.ArrowException, OSError) as error:
            raise BadInput(
                f"reviewbench: {path} is no parquet file that can be read ({error}); delete it, and it is downloaded "
                "anew"
            ) from None
