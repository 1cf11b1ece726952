"""Forecasting: binary questions about real events that have resolved, one probability asked of each.

The bundled rows are for learning the tool: today's models may remember how these events ended. To measure
forecasting, use `source="forecastbench"` with `known_after=` set past the model's training cut-off, or a snapshot of
Polymarket (`polymarket.py`) or Metaculus (`metaculus.py`) that was made after it.
"""

from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import check_fields
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.loading.source import Source, load
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources import forecastbench, halawi, metaculus, polymarket

BUNDLED = Path(__file__).with_suffix(".jsonl")
SOURCES = {
    "forecastbench": Source(forecastbench.forecastbench, forecastbench.LICENCE),
    "halawi": Source(halawi.halawi, halawi.LICENCE),
    "polymarket": Source(polymarket.polymarket, polymarket.LICENCE, changes=True),
    "metaculus": Source(metaculus.metaculus, metaculus.LICENCE, changes=True),
}
WORDED = ("id", "question", "criteria", "outcome")
"""Fields of a row besides those of `ForecastingQuestion`; all are needed. `background` may be left out."""
NOTICE = (
    "forecasting: today's models may remember how the 200 bundled questions ended, and a martingale slope below about "
    "0.14 cannot be told from none with so few; published ones are 0.02 to 0.12."
)


class ForecastingQuestion(Question, frozen=True):
    """A question about an event, of whatever source."""

    field: str
    """Field of life, such as "elections" or "space"; or the source of a benchmark's question, such as "fred"."""
    opened_on: date
    recorded: str
    """Where the outcome is on record."""


FIELDS = {*WORDED, "background", *ForecastingQuestion.model_fields} - {
    "domain", "form", "options", "evidence", "split"
}  # fmt: skip
"""What a row may hold."""


def forecasting(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    **options: Any,  # noqa: ANN401 (each source has its own)
) -> Questions:
    """Load resolved forecasting questions.

    Args:
        source: "bundled" (written for this project; models may remember the outcomes), "forecastbench" (downloaded
            at a pinned commit, CC BY-SA 4.0), "halawi" (at a pinned commit, Apache-2.0; of 2015 to 2024), or the path
            of a .jsonl or .parquet file in the shape of `forecasting.jsonl`, such as a snapshot that `truthgym fetch`
            makes of "polymarket" or "metaculus".
        split: "train", "validation", "test" or "all".
        known_after: Keep questions whose outcome became public after this day: the model's training cut-off.
        n: At most so many, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file must have as its SHA-256.
        **options: Those of the source, such as `location`.

    Raises:
        BadInput: An unknown source, split or option, a malformed row, or nothing left after the filters.
    """
    return load(
        "forecasting", source, sample_of, SOURCES, split=split, known_after=known_after, n=n, seed=seed, sha256=sha256,
        notice=NOTICE, **options,
    )  # fmt: skip


@cache
def bundled() -> list[Sample]:
    """All bundled questions, in the order of `forecasting.jsonl`."""
    return list(forecasting())


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Make a sample of a row. Its fields are listed in the data card, `forecasting.md`.

    Raises:
        BadInput: A row that cannot be used. Names the place.
    """
    check_fields(where, row, [*WORDED, "background"] if row.get("background") is not None else WORDED, FIELDS)
    metadata = {name: row[name] for name in row if name in ForecastingQuestion.model_fields}
    known = question(ForecastingQuestion, where, domain="forecasting", **metadata)
    if known.known_on is not None and known.opened_on >= known.known_on:
        raise BadInput(
            f"{where}: opened_on {known.opened_on} is not before known_on {known.known_on}; "
            "a question is asked before its outcome is public"
        )
    return sample(row["id"], _asked(row), row["outcome"], known, where)


def _asked(row: dict[str, Any]) -> str:
    parts = [
        row["question"],
        f"Background: {row['background']}" if row.get("background") else "",
        f"What counts: {row['criteria']}",
        f"The question is asked on {row['opened_on']}.",
    ]
    return "\n\n".join(part for part in parts if part)
