"""Conceptual: thorny questions that need untangling first, each with a statement that can be believed or not.

No truth is known for any of them: one can measure whether beliefs move as evidence may move them, and judge the
reasoning.
"""

from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.domain import Domain
from truthgym.datasets.loading.row_files import check_fields
from truthgym.datasets.loading.source import Source
from truthgym.datasets.question import Question, question, sample

SOURCES: dict[str, Source] = {}
REQUIRED = ("id", "question", "proposition", "topic", "event")
NOTICE = (
    "conceptual: a martingale slope below about 0.3 cannot be told from none with the 44 bundled questions, and "
    "published ones are 0.02 to 0.12."
)


class ConceptualQuestion(Question, frozen=True):
    """A conceptual question."""

    topic: str
    """Field of thought, such as "mind" or "ethics"."""


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Parse a row. The data card, `conceptual.md`, lists the fields.

    Raises:
        BadInput: The row cannot be used. Names the place.
    """
    check_fields(where, row, REQUIRED, [*REQUIRED, "known_on"])
    known = question(ConceptualQuestion, where, domain="conceptual", **conceptual.fields_of(row))
    return sample(row["id"], row["question"], None, known, where)


conceptual = Domain("conceptual", ConceptualQuestion, sample_of, SOURCES, NOTICE)
