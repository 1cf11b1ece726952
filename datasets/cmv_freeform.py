"""ChangeMyView, free: views that people hold and contest, without the exchange. No truth is known for any of them.

The bundled views were written for this project. The real sources are the posts of Webis-CMV-20 (`webis_cmv.py`) and of
ConvoKit's winning-args-corpus (`winning_args.py`).
"""

from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.loading.domain import Domain
from truthgym.datasets.loading.row_files import check_fields
from truthgym.datasets.loading.source import Source
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources import webis_cmv, winning_args

SOURCES = {
    "webis": Source(webis_cmv.posts, webis_cmv.LICENCE),
    "winning_args": Source(winning_args.posts, winning_args.LICENCE),
}
"""Each is downloaded once: `webis` is 427 MB, `winning_args` 73 MB."""
REQUIRED = ("id", "view", "post", "event")
FIELDS = (*REQUIRED, "topic", "known_on")
"""All fields of a row."""
NOTICE = (
    "cmv_freeform: a martingale slope below about 0.25 cannot be told from none with the 64 bundled views, and "
    "published ones are 0.05 to 0.12."
)


class ContestedViewQuestion(Question, frozen=True):
    """A contested view. Its proposition is the view itself."""

    topic: str | None = None
    """Its subject, such as "politics". The real sources have none."""


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Parse a row. The data card, `cmv_freeform.md`, lists the fields.

    Raises:
        BadInput: The row cannot be used. Names the place.
    """
    check_fields(where, row, REQUIRED, FIELDS)
    fields = cmv_freeform.fields_of(row)
    known = question(ContestedViewQuestion, where, domain="cmv_freeform", proposition=row["view"], **fields)
    return sample(row["id"], _prompt(row), None, known, where)


def _prompt(row: dict[str, Any]) -> str:
    return f"Is this view right?\n\n{row['view']}\n\nOne who holds it writes: {row['post']}"


cmv_freeform = Domain("cmv_freeform", ContestedViewQuestion, sample_of, SOURCES, NOTICE)
