"""Webis-CMV-20: ChangeMyView from 2013 to 2017. A source of `cmv_binary` and `cmv_freeform`."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from pydantic import Field

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.domain import Skipped
from truthgym.datasets.loading.download import FALLBACK, cache, download, get_json, is_url, lines
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.sources.changemyview import (
    BOTS,
    GONE,
    TURNS,
    ForumComment,
    LeftOut,
    confirms,
    day_of,
    event_of,
    exchange_of,
    post_of,
    verdict,
    view_of,
)

RECORD = 3778298
"""The record at Zenodo. Its files never change: another version has another number."""
HOST = "https://zenodo.org"
PAIRS, POSTS = "pairs.jsonl.bz2", "posts_malleability.jsonl.bz2"
LICENCE = (
    "Webis-CMV-20, posts and comments of r/changemyview from 2013 to 2017 (Al-Khatib and others), CC BY 4.0, "
    f"{HOST}/records/{RECORD}, with the MD5 that the record states."
)


class Comment(msgspec.Struct):
    """A comment."""

    id: str
    body: str | None = None
    created_utc: str | float | None = None
    level: int | None = None
    """Its depth in the thread, from 0."""
    delta: bool | None = None


class Submission(msgspec.Struct):
    """A post."""

    id: str
    title: str | None = None
    selftext: str | None = None
    author: str | None = None
    created_utc: str | float | None = None


class Branch(msgspec.Struct):
    """The comments of one person below a post."""

    comments: list[Comment]


class Pair(msgspec.Struct):
    """An argument that was awarded a delta, and one on the same post that was not."""

    submission_id: str
    submission: Submission
    delta_comment: Branch
    nodelta_comment: Branch


Record = TypeVar("Record")


@validate_call
def pairs(skipped: Skipped, known_after: date | None, *, location: str = HOST) -> Iterator[Row]:
    """Read exchanges from `pairs`. That file lacks the author's own replies: only readers speak.

    The argument that changed the view is read up to the delta, the other one up to the same number of comments. If the
    other has fewer, neither is read, so that length reveals nothing. An argument in several pairs is read once.
    """
    seen: set[str] = set()
    for where, pair in records(PAIRS, location, Pair):
        won = _until_delta(pair.delta_comment.comments)
        lost = _in_order(pair.nodelta_comment.comments)[: len(won)]
        for outcome, comments in (("yes", won), ("no", lost)):
            try:
                if not comments:
                    raise LeftOut("without an argument marked as the one that was awarded a delta")
                if len(lost) < len(won):
                    raise LeftOut("of pairs whose argument without a delta is the shorter one")
                if comments[0].id in seen:
                    raise LeftOut("that stand in several pairs")
                seen.add(comments[0].id)
                texts = [ForumComment("a reader", comment.body) for comment in comments]
                yield where, row_of(pair.submission, comments[0].id, texts, outcome, comments[-1].created_utc)
            except LeftOut as why:
                skipped[str(why)] += 1


@validate_call
def posts(skipped: Skipped, known_after: date | None, *, location: str = HOST) -> Iterator[Row]:
    """Read contested views, with why someone holds them, from `posts_malleability`."""
    for where, post in records(POSTS, location, Submission):
        try:
            yield where, {"id": f"webis-{_bare(post)}", **_head(post), "known_on": day_of(post.created_utc)}
        except LeftOut as why:
            skipped[str(why)] += 1


def row_of(
    post: Submission,
    identity: str,
    comments: list[ForumComment],
    outcome: str,
    day: str | float | None,
    turns: int = TURNS,
) -> dict[str, Any]:
    """Build a row of `cmv_binary` from a post and comments on it."""
    return {
        "id": f"webis-{_bare(post)}-{identity}",
        **_head(post, question_too=True),
        "exchange": exchange_of(comments, post.author, turns),
        "outcome": outcome,
        "known_on": day_of(day or post.created_utc),
    }


def _head(post: Submission, question_too: bool = False) -> dict[str, Any]:
    view = view_of(post.title)
    if not question_too and "?" in view:
        raise LeftOut("with a title that is a question")
    return {"view": view, "post": post_of(post.selftext), "event": event_of(_bare(post))}


def _bare(post: Submission) -> str:
    return post.id.removeprefix("t3_")


def _in_order(comments: list[Comment]) -> list[Comment]:
    return sorted(comments, key=lambda comment: comment.level or 0)


def _until_delta(comments: list[Comment]) -> list[Comment]:
    ordered = _in_order(comments)
    return next((ordered[: place + 1] for place, comment in enumerate(ordered) if comment.delta), [])


def records(name: str, location: str, kind: type[Record]) -> Iterator[tuple[str, Record]]:
    """Read the records of a file of the corpus, each with its place."""
    decoder = msgspec.json.Decoder(kind)
    for where, line in lines(_file(name, location)):
        try:
            yield where, decoder.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise BadInput(
                f"{where}: not in the shape that Webis-CMV-20 was published in ({error}); read {name} of Zenodo's "
                f"record {RECORD}"
            ) from None


def _file(name: str, location: str) -> Path:
    if not is_url(location):
        place = Path(location)
        return place / name if place.is_dir() else place
    address = f"{location}/records/{RECORD}/files/{name}"
    return download(address, cache(f"webis-cmv-20/{RECORD}") / name, lambda: _stated_md5(name, location))


def _stated_md5(name: str, location: str) -> str:
    import httpx

    with httpx.Client(timeout=60, follow_redirects=True) as client:
        record = get_json(client, f"{location}/api/records/{RECORD}", fallback=FALLBACK)
    try:
        stated = {file["key"]: file["checksum"] for file in record["files"]}
        return str(stated[name]).removeprefix("md5:")
    except (KeyError, TypeError):
        raise BadInput(
            f"{location}/api/records/{RECORD}: the record has no checksum of {name}; give the path of the file as "
            f"location, or {FALLBACK}"
        ) from None


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
    skipped: Skipped, known_after: date | None, *, location: str = HOST, max_turns: Annotated[int, Field(ge=1)] = TURNS
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
                comments = [node.comment for node in path]
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
    for awarded in won[: len(lost)]:
        near = [min(branch, key=lambda other: abs(len(other[1]) - len(awarded[1]))) for branch in lost]
        nearest = min(range(len(near)), key=lambda place: abs(len(near[place][1]) - len(awarded[1])))
        yield awarded
        yield near[nearest]
        del lost[nearest]


def _replies(comment: Reply, author: str, above: Above = ()) -> Iterator[tuple[Above, Reply]]:
    if comment.author in BOTS:
        return
    if comment.author == author and above:
        yield above, comment
    for child in comment.children:
        yield from _replies(child, author, (*above, comment))


def _awarded(comment: Reply) -> bool:
    return confirms(comment.comment) or any(_awarded(child) for child in comment.children)
