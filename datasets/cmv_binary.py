"""ChangeMyView, binary: whether an exchange changed the view of a post's author, by the author's own word afterwards.

The bundled exchanges are synthetic. The real sources are Webis-CMV-20 (`webis_cmv.py`, `webis_threads.py`) and
ConvoKit's winning-args-corpus (`winning_args.py`).
"""

from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.domain import Domain
from truthgym.datasets.loading.row_files import check_fields, text_list
from truthgym.datasets.loading.source import Source
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources import webis_cmv
from truthgym.datasets.sources.webis_threads import threads
from truthgym.datasets.sources.winning_args import LICENCE as WINNING_ARGS
from truthgym.datasets.sources.winning_args import winning_args

SOURCES = {
    "webis": Source(webis_cmv.pairs, webis_cmv.LICENCE),
    "webis_threads": Source(threads, webis_cmv.LICENCE),
    "winning_args": Source(winning_args, WINNING_ARGS),
}
"""Each is downloaded once: `webis` (readers' arguments only) is 17 MB, `webis_threads` (with the author's replies) 661,
`winning_args` 73. All their exchanges ended by 2017."""
NOTICE = (
    "cmv_binary: the 52 bundled exchanges and their verdicts are synthetic, and a martingale slope below about 0.25 "
    "cannot be told from none with so few."
)
REQUIRED = ("id", "view", "post", "outcome", "event")
"""Required fields with text. `exchange`, a list of texts, is required too."""
FIELDS = (*REQUIRED, "exchange", "topic", "known_on", "synthetic")
"""All fields of a row."""


class ChangeMyViewQuestion(Question, frozen=True):
    """An exchange about a view. Its evidence is the exchange, text by text."""

    view: str
    """The author's view, in one sentence."""
    topic: str | None = None
    """Its subject, such as "transport". The real sources have none."""
    synthetic: bool = False
    """Whether it was written for this project, the verdict included."""


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Parse a row. The data card, `cmv_binary.md`, lists the fields.

    Raises:
        BadInput: The row cannot be used. Names the place.
    """
    check_fields(where, row, REQUIRED, FIELDS)
    exchange = text_list(where, row, "exchange")
    if not exchange:
        raise BadInput(f"{where}: the field `exchange` is missing or empty; list the replies in order")
    known = question(
        ChangeMyViewQuestion,
        where,
        domain="cmv_binary",
        proposition=f'After an exchange about the view "{row["view"]}", its author said that the exchange had changed '
        "it, at least in part.",
        evidence=exchange,
        **cmv_binary.fields_of(row),
    )
    return sample(row["id"], _prompt(row), row["outcome"], known, where)


def _prompt(row: dict[str, Any]) -> str:
    return (
        f"Somebody posted a view and asked others to change it.\n\nThe view: {row['view']}\n\n"
        f"Why they hold it: {row['post']}\n\n"
        "There was an exchange. Did the author say after it that it had changed the view, at least in part?"
    )


cmv_binary = Domain("cmv_binary", ChangeMyViewQuestion, sample_of, SOURCES, NOTICE)
