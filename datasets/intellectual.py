"""Intellectual demonstration: open prompts whose answers show depth of thought. A judge rates them."""

from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.domain import Domain
from truthgym.datasets.loading.row_files import check_fields
from truthgym.datasets.loading.source import Source
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources import truthseekinggym

SOURCES = {"truthseekinggym": Source(truthseekinggym.prompts, truthseekinggym.LICENCE, live=True)}
REQUIRED = ("id", "prompt", "kind", "event")
NOTICE = (
    "intellectual: a difference in quality below about 0.04 (on the scale from 0 to 1) cannot be found with the 44 "
    "bundled prompts."
)


class IntellectualQuestion(Question, frozen=True):
    """An open prompt."""

    kind: str
    """The kind of answer it calls for, such as "explanation" or "critique"."""


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Parse a row. The data card, `intellectual.md`, lists the fields.

    Raises:
        BadInput: The row cannot be used. Names the place.
    """
    check_fields(where, row, REQUIRED, [*REQUIRED, "known_on"])
    known = question(IntellectualQuestion, where, domain="intellectual", form="free", **intellectual.fields_of(row))
    return sample(row["id"], row["prompt"], None, known, where)


intellectual = Domain("intellectual", IntellectualQuestion, sample_of, SOURCES, NOTICE)
