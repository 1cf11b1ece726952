"""OpenReview: was a paper accepted at its venue? Its reviews, where they are known, are the evidence.

The bundled papers are public and today's models remember them: they are for smoke tests. To measure judgement, use the
reviews of a venue whose decisions came after the model's training.
"""

from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.domain import Domain
from truthgym.datasets.loading.row_files import check_fields, text_list
from truthgym.datasets.loading.source import Source
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources import openreview_api, reviewbench
from truthgym.datasets.sources.openreview_paper import event_of, outcome_of

REQUIRED = ("id", "title", "summary", "venue", "decision", "outcome", "recorded")
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
    """Where the decision is recorded."""


FIELDS = {"id", "summary", "outcome", "reviews", *OpenReviewQuestion.model_fields} - {
    "domain", "form", "options", "proposition", "evidence", "split"
}  # fmt: skip
"""All fields of a row."""
SOURCES = {
    "reviewbench": Source(reviewbench.reviewbench, reviewbench.LICENCE),
    "api": Source(openreview_api.api, openreview_api.LICENCE, live=True),
}
"""`reviewbench` has ICLR 2020 to 2023 with reviews, 1.1 GB, downloaded once."""


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Parse a row. The data card, `openreview.md`, lists the fields.

    Raises:
        BadInput: The row cannot be used. Names the place.
    """
    check_fields(where, row, REQUIRED, FIELDS)
    decided = outcome_of(row["decision"])
    if decided is not None and row["outcome"] in ("yes", "no") and decided != row["outcome"]:
        raise BadInput(
            f"{where}: the decision {row['decision']!r} and the outcome {row['outcome']!r} contradict each other; "
            "correct one of them"
        )
    known = question(
        OpenReviewQuestion,
        where,
        domain="openreview",
        proposition=f'The paper "{row["title"]}" was accepted at {row["venue"]}.',
        evidence=text_list(where, row, "reviews"),
        **{"event": event_of(row["title"]), **openreview.fields_of(row)},
    )
    if known.opened_on and known.known_on and known.opened_on >= known.known_on:
        raise BadInput(
            f"{where}: opened_on {known.opened_on} is not before known_on {known.known_on}; a paper must be submitted "
            "before its decision"
        )
    return sample(row["id"], _prompt(row, known), row["outcome"], known, where)


def _prompt(row: dict[str, Any], known: OpenReviewQuestion) -> str:
    parts = [
        f"The paper below was submitted to {known.venue}. Was it accepted there?",
        f"Title: {known.title}",
        f"Summary: {row['summary']}",
        COUNTS,
        f"The question is asked on {known.opened_on}." if known.opened_on else "",
    ]
    return "\n\n".join(part for part in parts if part)


openreview = Domain("openreview", OpenReviewQuestion, sample_of, SOURCES, NOTICE)
