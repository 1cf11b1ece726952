"""WildChat: first messages as people send them to an assistant. No truth is known of an answer.

The bundled messages were written for this project. The real source is WildChat-1M (`wildchat_1m.py`).
"""

from datetime import date
from inspect import signature
from typing import Any

from inspect_ai.dataset import Sample

from truthgym.datasets.errors import one_of
from truthgym.datasets.loading.row_files import check_fields
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.loading.source import Source, load
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.sources.wildchat_1m import LICENCE, unwanted, wildchat_1m

SOURCES = {"wildchat_1m": Source(wildchat_1m, LICENCE)}
NOTICE = (
    "wildchat: a difference between two models below 0.31 standard deviations of the difference in a message's ratings "
    "cannot be found with the 84 bundled messages."
)


class WildChatQuestion(Question, frozen=True):
    """A first message. `known_on` is the day of its conversation."""

    language: str
    """Language of the message, such as "English"."""
    category: str | None = None
    """What is wanted, such as "code". WildChat-1M does not say."""
    model: str | None = None
    """The model that the message was sent to."""
    turns: int | None = None
    """How many times the person wrote in that conversation."""
    country: str | None = None
    """Where the message was sent from."""
    conversation_hash: str | None = None
    """That of WildChat, by which the conversation is found there. Conversations of the same words share it."""


FIELDS = {"id", "message", *WildChatQuestion.model_fields} - {
    "domain", "form", "options", "proposition", "evidence", "split", "opened_on", "base_rate", "crowd",
}  # fmt: skip
"""What a row may hold."""


def wildchat(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    **options: Any,  # noqa: ANN401
) -> Questions:
    """Load first messages. Each is a free question: it has no options, no proposition and no target.

    Args:
        source: "bundled" (written for this project), "wildchat_1m" (ODC-BY; 3.4 GB, downloaded once), or the path of a
            .jsonl or .parquet file in the shape of `wildchat.jsonl`.
        split: "train", "validation", "test" or "all".
        known_after: Keep messages of conversations after this day.
        n: At most so many, drawn at random with `seed`. Give it for WildChat-1M: without it, all are held in memory.
        seed: Seed of that draw.
        sha256: What the file must have as its SHA-256.
        **options: Those of `unwanted`, such as `language="French"`, for any source; all of `wildchat_1m` for that one.

    Raises:
        BadInput: An unknown source, split or option, a malformed row, or nothing left after the filters.
    """
    keep = None
    if source not in SOURCES:
        for name in options:
            one_of(f"option of source={source}", name, list(signature(unwanted).parameters))
        keep, options = unwanted(**options), {}
    return load(
        "wildchat", source, sample_of, SOURCES, split=split, known_after=known_after, n=n, seed=seed, sha256=sha256,
        notice=NOTICE, keep=keep, **options,
    )  # fmt: skip


def sample_of(where: str, row: dict[str, Any]) -> Sample:
    """Read a row. Its fields are listed in the data card, `wildchat.md`.

    Raises:
        BadInput: It cannot be used. Names the place.
    """
    check_fields(where, row, ("id", "message", "language", "event"), FIELDS)
    metadata = {name: row[name] for name in row if name in WildChatQuestion.model_fields}
    known = question(WildChatQuestion, where, domain="wildchat", form="free", **metadata)
    return sample(row["id"], row["message"], None, known, where)
