"""Conceptual: thorny questions that want untangling first, each with a statement that can be believed or not.

No truth is known of any: whether beliefs move as evidence may move them can be measured, and the reasoning judged.
"""

from datetime import date
from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.row_files import check_fields
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.loading.source import Source, load
from truthgym.datasets.question import Question, question, sample

SOURCES: dict[str, Source] = {}
WORDED = ("id", "question", "proposition", "topic", "event")
"""What a row holds: all of it is needed, but for `known_on`."""
NOTICE = (
    "conceptual: a martingale slope below about 0.3 cannot be told from none with the 44 bundled questions, and "
    "published ones are 0.02 to 0.12."
)


class ConceptualQuestion(Question, frozen=True):
    """A conceptual question."""

    topic: str
    """Field of thought, such as "mind" or "ethics"."""


def conceptual(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
) -> Questions:
    """Load conceptual questions.

    Args:
        source: "bundled", or the path of a .jsonl or .parquet file in the shape of `conceptual.jsonl`.
        split: "train", "validation", "test" or "all".
        known_after: Keep questions known after this day; those without a day are left out.
        n: At most so many, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file must have as its SHA-256.

    Raises:
        BadInput: An unknown source or split, a malformed row, another file, or nothing left after the filters.
    """
    return load(
        "conceptual", source, sample_of, SOURCES, split=split, known_after=known_after, n=n, seed=seed, sha256=sha256,
        notice=NOTICE,
    )  # fmt: skip


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Make a sample of a row. The fields are listed in the data card, `conceptual.md`.

    Raises:
        BadInput: A row that cannot be used.
    """
    check_fields(where, row, WORDED, [*WORDED, "known_on"])
    fields = {name: row[name] for name in row if name in ConceptualQuestion.model_fields}
    known = question(ConceptualQuestion, where, domain="conceptual", **fields)
    return sample(row["id"], row["question"], None, known, where)
