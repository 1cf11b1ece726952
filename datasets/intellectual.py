"""Intellectual demonstration: open prompts whose answer shows how deep a mind goes. A judge rates it."""

from datetime import date
from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.row_files import check_fields
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.loading.source import Source, load
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources import truthseekinggym

SOURCES = {"truthseekinggym": Source(truthseekinggym.prompts, truthseekinggym.LICENCE, changes=True)}
WORDED = ("id", "prompt", "kind", "event")
"""What a row holds: all of it is needed, but for `known_on`."""
NOTICE = (
    "intellectual: a difference in quality below about 0.04 (on the scale from 0 to 1) cannot be found with the 44 "
    "bundled prompts."
)


class IntellectualQuestion(Question, frozen=True):
    """An open prompt."""

    kind: str
    """What is asked for, such as "explanation" or "critique"."""


def intellectual(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
) -> Questions:
    """Load open prompts.

    Args:
        source: "bundled", or the path of a .jsonl or .parquet file in the shape of `intellectual.jsonl`. `truthgym
            fetch` makes one of a folder of TruthSeekingGym's.
        split: "train", "validation", "test" or "all".
        known_after: Keep prompts known after this day; those without a day are left out.
        n: At most so many, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file must have as its SHA-256.

    Raises:
        BadInput: An unknown source or split, a malformed row, another file, or nothing left after the filters.
    """
    return load(
        "intellectual", source, sample_of, SOURCES, split=split, known_after=known_after, n=n, seed=seed, sha256=sha256,
        notice=NOTICE,
    )  # fmt: skip


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Make a sample of a row. The fields are listed in the data card, `intellectual.md`.

    Raises:
        BadInput: A row that cannot be used.
    """
    check_fields(where, row, WORDED, [*WORDED, "known_on"])
    fields = {name: row[name] for name in row if name in IntellectualQuestion.model_fields}
    known = question(IntellectualQuestion, where, domain="intellectual", form="free", **fields)
    return sample(row["id"], row["prompt"], None, known, where)
