"""Webis-CMV-20's threads: exchanges in which the post's author took part. A source of `cmv_binary`.

The file has 65,169 posts with all their comments as trees (661 MB, compressed with bzip2). It does not mark deltas on
comments: the bot's confirmation below an author's reply shows that the reply awarded one.
"""

from collections.abc import Iterator
from datetime import date
from typing import Annotated

import msgspec
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.loading.source import Skipped
from truthgym.datasets.sources.changemyview import BOTS, GONE, TURNS, ForumComment, LeftOut, confirms, verdict
from truthgym.datasets.sources.webis_cmv import HOST, Submission, records, row_of

THREADS = "threads.jsonl.bz2"


class Reply(msgspec.Struct):
    """A comment with its replies."""

    id: str
    body: str | None = None
    author: str | None = None
    created_utc: str | float | None = None
    children: list["Reply"] = msgspec.field(default_factory=list)

    @property
    def comment(self) -> ForumComment:
        """Its author and text."""
        return ForumComment(self.author, self.body)


class Thread(Submission):
    """A post with the comments on it."""

    comments: list[Reply] = msgspec.field(default_factory=list)


Above = tuple[Reply, ...]
Answered = tuple[str, Above, Reply]
"""Outcome, the comments down to the one that the author answered, and the author's reply."""


@validate_call
def threads(
    skipped: Skipped,
    known_after: date | None,
    *,
    location: str = HOST,
    max_turns: Annotated[int, Field(ge=1)] = TURNS,
) -> Iterator[Row]:
    """Read exchanges between readers and a post's author from `threads`, balanced within each post.

    An exchange is a path down the tree to a reader's comment that the author answered: with a delta that the bot
    confirmed, or without one. For each branch with a delta, a branch without any is read, and in it the path of the
    nearest length. Posts without a delta, or without a branch of the other kind, are left out.
    """
    for where, thread in records(THREADS, location, Thread):
        exchanges = list(_answered(thread, max_turns))
        if not exchanges:
            skipped["with no delta, or no other branch without one"] += 1
        for outcome, path, reply in exchanges:
            try:
                comments = [one.comment for one in path]
                yield where, row_of(thread, path[-1].id, comments, outcome, reply.created_utc, max_turns)
            except LeftOut as why:
                skipped[str(why)] += 1


def _answered(thread: Thread, turns: int) -> Iterator[Answered]:
    if thread.author is None or thread.author in GONE:
        return
    won: list[Answered] = []
    lost: list[list[Answered]] = []
    for top in thread.comments:
        replies = [(path, reply) for path, reply in _replies(top, thread.author) if len(path) <= turns]
        awards = [(path, reply) for path, reply in replies if any(confirms(child.comment) for child in reply.children)]
        if awards:
            won.append(("yes", *awards[0]))
        elif replies and not _awarded(top) and not any(verdict(reply.body) for _, reply in replies):
            lost.append([("no", path, reply) for path, reply in replies])
    for one in won[: len(lost)]:
        near = [min(branch, key=lambda other: abs(len(other[1]) - len(one[1]))) for branch in lost]
        chosen = min(range(len(near)), key=lambda place: abs(len(near[place][1]) - len(one[1])))
        yield one
        yield near[chosen]
        del lost[chosen]


def _replies(comment: Reply, author: str, above: Above = ()) -> Iterator[tuple[Above, Reply]]:
    if comment.author in BOTS:
        return
    if comment.author == author and above:
        yield above, comment
    for child in comment.children:
        yield from _replies(child, author, (*above, comment))


def _awarded(comment: Reply) -> bool:
    return confirms(comment.comment) or any(_awarded(child) for child in comment.children)
