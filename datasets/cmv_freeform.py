"""ChangeMyView, free: views that people hold and contest, without the exchange. No truth is known of any.

The bundled views were written for this project. The real sources are the posts of Webis-CMV-20 (`webis_cmv.py`) and of
ConvoKit's winning-args-corpus (`winning_args.py`).
"""

from datetime import date
from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.row_files import check_fields
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.loading.source import Source, load
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources import webis_cmv, winning_args

SOURCES = {
    "webis": Source(webis_cmv.posts, webis_cmv.LICENCE),
    "winning_args": Source(winning_args.posts, winning_args.LICENCE),
}
TEXTS = ("id", "view", "post", "event")
"""Fields that a row needs."""
FIELDS = (*TEXTS, "topic", "known_on")
"""What a row may hold."""
NOTICE = (
    "cmv_freeform: a martingale slope below about 0.25 cannot be told from none with the 64 bundled views, and "
    "published ones are 0.05 to 0.12."
)


class ContestedViewQuestion(Question, frozen=True):
    """A contested view. Its proposition is the view itself."""

    topic: str | None = None
    """What it is about, such as "politics". The real sources do not say."""


def cmv_freeform(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    **options: Any,  # noqa: ANN401
) -> Questions:
    """Load contested views. Each is a binary question without a target: whether the view is right.

    Args:
        source: "bundled" (written for this project), "webis" (Webis-CMV-20, CC BY 4.0; 427 MB, downloaded once),
            "winning_args" (ConvoKit; 73 MB; no licence of the data is stated), or the path of a .jsonl or .parquet file
            in the shape of `cmv_freeform.jsonl`.
        split: "train", "validation", "test" or "all". A post is in the same split in every source.
        known_after: Keep views posted after this day; those without a day are left out.
        n: At most so many, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file must have as its SHA-256.
        **options: Those of the source, such as `location`.

    Raises:
        BadInput: An unknown source, split or option, a malformed row, or nothing left after the filters.
    """
    return load(
        "cmv_freeform", source, sample_of, SOURCES, split=split, known_after=known_after, n=n, seed=seed, sha256=sha256,
        notice=NOTICE, **options,
    )  # fmt: skip


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Make a sample of a row. Its fields are listed in the data card, `cmv_freeform.md`.

    Raises:
        BadInput: A row that cannot be used. Names the place.
    """
    check_fields(where, row, TEXTS, FIELDS)
    metadata = {name: row[name] for name in row if name in ContestedViewQuestion.model_fields}
    known = question(ContestedViewQuestion, where, domain="cmv_freeform", proposition=row["view"], **metadata)
    return sample(row["id"], _asked(row), None, known, where)


def _asked(row: dict[str, Any]) -> str:
    return f"Is this view right?\n\n{row['view']}\n\nOne who holds it writes: {row['post']}"
