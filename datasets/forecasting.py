"""Forecasting: binary questions about real events that have resolved, each asking for one probability.

The bundled rows are for learning the tool: today's models may remember how these events ended. To measure
forecasting, use `source="forecastbench"` with `known_after=` set past the model's training cut-off, or a snapshot of
Polymarket (`polymarket.py`) or Metaculus (`metaculus.py`) from after it.
"""

from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.domain import Domain
from truthgym.datasets.loading.row_files import check_fields
from truthgym.datasets.loading.source import Source
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources import forecastbench, halawi, metaculus, polymarket

BUNDLED = Path(__file__).with_suffix(".jsonl")
SOURCES = {
    "forecastbench": Source(forecastbench.forecastbench, forecastbench.LICENCE),
    "halawi": Source(halawi.halawi, halawi.LICENCE),
    "polymarket": Source(polymarket.polymarket, polymarket.LICENCE, live=True),
    "metaculus": Source(metaculus.metaculus, metaculus.LICENCE, live=True),
}
"""`forecastbench` and `halawi` (questions of 2015 to 2024) are downloaded at a pinned revision."""
REQUIRED = ("id", "question", "criteria", "outcome")
"""Required fields with text, besides those of `ForecastingQuestion`. `background` is optional."""
NOTICE = (
    "forecasting: today's models may remember how the 200 bundled questions ended, and a martingale slope below about "
    "0.14 cannot be told from none with so few; published ones are 0.02 to 0.12."
)


class ForecastingQuestion(Question, frozen=True):
    """A question about an event, from any source."""

    field: str
    """Subject area, such as "elections" or "space"; or the source of a benchmark's question, such as "fred"."""
    opened_on: date
    recorded: str
    """Where the outcome is recorded."""


FIELDS = {*REQUIRED, "background", *ForecastingQuestion.model_fields} - {
    "domain", "form", "options", "evidence", "split"
}  # fmt: skip
"""All fields of a row."""


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Parse a row. The data card, `forecasting.md`, lists the fields.

    Raises:
        BadInput: The row cannot be used. Names the place.
    """
    check_fields(where, row, [*REQUIRED, "background"] if row.get("background") is not None else REQUIRED, FIELDS)
    known = question(ForecastingQuestion, where, domain="forecasting", **forecasting.fields_of(row))
    if known.known_on is not None and known.opened_on >= known.known_on:
        raise BadInput(
            f"{where}: opened_on {known.opened_on} is not before known_on {known.known_on}; "
            "a question must be asked before its outcome is public"
        )
    return sample(row["id"], _prompt(row), row["outcome"], known, where)


def _prompt(row: dict[str, Any]) -> str:
    parts = [
        row["question"],
        f"Background: {row['background']}" if row.get("background") else "",
        f"What counts: {row['criteria']}",
        f"The question is asked on {row['opened_on']}.",
    ]
    return "\n\n".join(part for part in parts if part)


forecasting = Domain("forecasting", ForecastingQuestion, sample_of, SOURCES, NOTICE)


@cache
def bundled() -> list[Sample]:
    """All bundled questions, in the order of `forecasting.jsonl`."""
    return list(forecasting())
