"""ChangeMyView, binary: whether an exchange changed the view of a post's author, as the author said afterwards.

The bundled exchanges are synthetic. The real sources are Webis-CMV-20 (`webis_cmv.py`, `webis_threads.py`) and
ConvoKit's winning-args-corpus (`winning_args.py`).
"""

from datetime import date
from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import check_fields, text_list
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.loading.source import Source, load
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
NOTICE = (
    "cmv_binary: the 52 bundled exchanges are synthetic, verdicts and all, and a martingale slope below about 0.25 "
    "cannot be told from none with so few."
)
TEXTS = ("id", "view", "post", "outcome", "event")
"""Fields that a row needs, besides `exchange`."""
FIELDS = (*TEXTS, "exchange", "topic", "known_on", "synthetic")
"""What a row may hold."""


class ChangeMyViewQuestion(Question, frozen=True):
    """An exchange about a view. Its evidence is the exchange, text by text."""

    view: str
    """The author's view, in one sentence."""
    topic: str | None = None
    """What it is about, such as "transport". The real sources do not say."""
    synthetic: bool = False
    """Whether it was written for this project, verdict and all."""


def cmv_binary(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    **options: Any,  # noqa: ANN401
) -> Questions:
    """Load exchanges, and ask whether each changed the author's view, at least in part.

    Args:
        source: "bundled" (synthetic, written for this project), "webis" (Webis-CMV-20, CC BY 4.0; readers' arguments
            alone; 17 MB, downloaded once), "webis_threads" (the same, with the author's replies; 661 MB),
            "winning_args" (ConvoKit; 73 MB; no licence of the data is stated), or the path of a .jsonl or .parquet file
            in the shape of `cmv_binary.jsonl`.
        split: "train", "validation", "test" or "all". A post is in the same split in every source.
        known_after: Keep exchanges that ended after this day. Those of the real sources ended by 2017.
        n: At most so many, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file must have as its SHA-256.
        **options: Those of the source, such as `location` or `max_turns`.

    Raises:
        BadInput: An unknown source, split or option, a malformed row, or nothing left after the filters.
    """
    return load(
        "cmv_binary", source, sample_of, SOURCES, split=split, known_after=known_after, n=n, seed=seed, sha256=sha256,
        notice=NOTICE, **options,
    )  # fmt: skip


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Make a sample of a row. Its fields are listed in the data card, `cmv_binary.md`.

    Raises:
        BadInput: A row that cannot be used. Names the place.
    """
    check_fields(where, row, TEXTS, FIELDS)
    exchange = text_list(where, row, "exchange")
    if not exchange:
        raise BadInput(f"{where}: the field `exchange` is missing or empty; write what was answered, in order")
    metadata = {name: row[name] for name in row if name in ChangeMyViewQuestion.model_fields}
    known = question(
        ChangeMyViewQuestion,
        where,
        domain="cmv_binary",
        proposition=f'After an exchange about the view "{row["view"]}", its author said that the exchange had changed '
        "it, at least in part.",
        evidence=exchange,
        **metadata,
    )
    return sample(row["id"], _asked(row), row["outcome"], known, where)


def _asked(row: dict[str, Any]) -> str:
    return (
        f"Somebody posted a view and asked others to change it.\n\nThe view: {row['view']}\n\n"
        f"Why they hold it: {row['post']}\n\n"
        "There was an exchange. Did the author say after it that it had changed the view, at least in part?"
    )
