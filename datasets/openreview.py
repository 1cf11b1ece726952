"""OpenReview: was a paper accepted at its venue? Its reviews, where they are known, are the evidence.

The bundled papers are on public record and remembered by today's models: they are for smoke tests. To measure
judgement, use the reviews of a venue whose decisions came after the model's training.
"""

from datetime import date
from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import check_fields, text_list
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.loading.source import Source, load
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources import openreview_api, reviewbench
from truthgym.datasets.sources.openreview_paper import event_of, outcome_of

TEXTS = ("id", "title", "summary", "venue", "decision", "outcome", "recorded")
"""Fields of a row that must hold text."""
NOTICE = (
    "openreview: the 40 bundled papers are for smoke tests only: models may remember the decisions, and a martingale "
    "slope below about 0.3 cannot be told from none with so few."
)
COUNTS = (
    "What counts: accepted means admitted to the venue itself, in whatever form it presents papers (talk, spotlight or "
    "poster). An invitation to a workshop instead does not count."
)


class OpenReviewQuestion(Question, frozen=True):
    """A paper that was submitted to a venue. `evidence` holds its reviews, `opened_on` is the day of submission."""

    title: str
    venue: str
    """Name and year, such as "ICLR 2020"."""
    decision: str
    """The venue's own words."""
    recorded: str
    """Where the decision is on record."""


FIELDS = {"id", "summary", "outcome", "reviews", *OpenReviewQuestion.model_fields} - {
    "domain", "form", "options", "proposition", "evidence", "split"
}  # fmt: skip
"""What a row may hold."""
SOURCES = {
    "reviewbench": Source(reviewbench.reviewbench, reviewbench.LICENCE),
    "api": Source(openreview_api.api, openreview_api.LICENCE, changes=True),
}


def openreview(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
) -> Questions:
    """Load papers whose venue has decided.

    Args:
        source: "bundled" (our own summaries of papers whose decisions models may remember), "reviewbench" (ICLR 2020
            to 2023 with reviews; 1.1 GB, downloaded once), or the path of a .jsonl or .parquet file in the shape of
            `openreview.jsonl`. "api" is read by `truthgym fetch` alone, which makes such a file.
        split: "train", "validation", "test" or "all".
        known_after: Keep papers whose decision came after this day: the model's training cut-off.
        n: At most so many, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file must have as its SHA-256.

    Raises:
        BadInput: An unknown source or split, a malformed row, or nothing left after the filters.
    """
    return load(
        "openreview", source, sample_of, SOURCES, split=split, known_after=known_after, n=n, seed=seed, sha256=sha256,
        notice=NOTICE,
    )  # fmt: skip


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Read a row. Its fields are listed in the data card, `openreview.md`.

    Raises:
        BadInput: It cannot be used. Names the place.
    """
    check_fields(where, row, TEXTS, FIELDS)
    said = outcome_of(row["decision"])
    if said is not None and row["outcome"] in ("yes", "no") and said != row["outcome"]:
        raise BadInput(
            f"{where}: the decision {row['decision']!r} and the outcome {row['outcome']!r} contradict each other; "
            "correct one of them"
        )
    metadata = {name: row[name] for name in row if name in OpenReviewQuestion.model_fields}
    known = question(
        OpenReviewQuestion,
        where,
        domain="openreview",
        proposition=f'The paper "{row["title"]}" was accepted at {row["venue"]}.',
        evidence=text_list(where, row, "reviews"),
        **{"event": event_of(row["title"]), **metadata},
    )
    if known.opened_on and known.known_on and known.opened_on >= known.known_on:
        raise BadInput(
            f"{where}: opened_on {known.opened_on} is not before known_on {known.known_on}; a paper is submitted "
            "before it is decided upon"
        )
    return sample(row["id"], _asked(row, known), row["outcome"], known, where)


def _asked(row: dict[str, Any], known: OpenReviewQuestion) -> str:
    parts = [
        f"The paper below was submitted to {known.venue}. Was it accepted there?",
        f"Title: {known.title}",
        f"Summary: {row['summary']}",
        COUNTS,
        f"The question is asked on {known.opened_on}." if known.opened_on else "",
    ]
    return "\n\n".join(part for part in parts if part)
