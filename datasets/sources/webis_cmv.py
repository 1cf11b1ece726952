"""Webis-CMV-20: ChangeMyView from 2013 to 2017, read while it is unpacked. A source of `cmv_binary` and `cmv_freeform`.

Two of its files are read here, each packed with bzip2 and one JSON object a line: `pairs` (17 MB; of one post an
argument that changed its author's view and one that did not) and `posts_malleability` (427 MB; posts). For its threads
see `webis_threads.py`. The shapes are those that public code which reads the files describes.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.download import INSTEAD, cache, download, lines
from truthgym.datasets.loading.http import get_json
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.sources.changemyview import TURNS, LeftOut, Said, day_of, event_of, exchange_of, post_of, view_of

RECORD = 3778298
"""The record at Zenodo. A record's files never change: another version has another number."""
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
    """How deep it stands, from 0."""
    delta: bool | None = None
    """Whether it was awarded a delta."""


class Submission(msgspec.Struct):
    """A post."""

    id: str
    title: str | None = None
    selftext: str | None = None
    author: str | None = None
    created_utc: str | float | None = None


class Branch(msgspec.Struct):
    """What one person wrote below a post."""

    comments: list[Comment]


class Pair(msgspec.Struct):
    """An argument that was awarded a delta, and one on the same post that was not."""

    submission_id: str
    submission: Submission
    delta_comment: Branch
    nodelta_comment: Branch


Record = TypeVar("Record")


def pairs(skipped: Counter[str], known_after: date | None, *, location: str = HOST) -> Iterator[Row]:
    """Read exchanges from `pairs`. The author's own replies are not in that file: readers alone speak.

    Of the argument that changed the view, what stands up to the delta is read, and of the other as many comments. Where
    the other has fewer, neither is read, so that length tells nothing. An argument that stands in several pairs is read
    once.

    Args:
        skipped: Takes what is left out, by reason.
        known_after: Not used here: all is known since 2017.
        location: Address of Zenodo, or the path of the file or of the folder that it is in.

    Raises:
        BadInput: The file cannot be had, or is not in the shape that was published.
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
                said = [Said("a reader", comment.body) for comment in comments]
                yield where, row_of(pair.submission, comments[0].id, said, outcome, comments[-1].created_utc)
            except LeftOut as why:
                skipped[str(why)] += 1


def posts(skipped: Counter[str], known_after: date | None, *, location: str = HOST) -> Iterator[Row]:
    """Read contested views, with why someone holds them, from `posts_malleability`.

    Args:
        skipped: Takes what is left out, by reason.
        known_after: Not used here.
        location: Address of Zenodo, or the path of the file or of the folder that it is in.

    Raises:
        BadInput: The file cannot be had, or is not in the shape that was published.
    """
    for where, post in records(POSTS, location, Submission):
        try:
            yield where, {"id": f"webis-{_bare(post)}", **_head(post), "known_on": day_of(post.created_utc)}
        except LeftOut as why:
            skipped[str(why)] += 1


def row_of(
    post: Submission, identity: str, said: list[Said], outcome: str, day: str | float | None, turns: int = TURNS
) -> dict[str, Any]:
    """Make a row of `cmv_binary` of a post and comments on it.

    Raises:
        LeftOut: No question can be made of them.
    """
    return {
        "id": f"webis-{_bare(post)}-{identity}",
        **_head(post, question_too=True),
        "exchange": exchange_of(said, post.author, turns),
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
    """Read a file of the corpus, one record after the other, with the place of each.

    Raises:
        BadInput: It cannot be had, or a record is not of that kind.
    """
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
    if not location.startswith(("http://", "https://")):
        place = Path(location)
        return place / name if place.is_dir() else place
    address = f"{location}/records/{RECORD}/files/{name}"
    return download(address, cache(f"webis-cmv-20/{RECORD}") / name, lambda: _stated_md5(name, location))


def _stated_md5(name: str, location: str) -> str:
    import httpx

    with httpx.Client(timeout=60, follow_redirects=True) as client:
        record = get_json(client, f"{location}/api/records/{RECORD}", instead=INSTEAD)
    try:
        stated = {file["key"]: file["checksum"] for file in record["files"]}
        return str(stated[name]).removeprefix("md5:")
    except (KeyError, TypeError):
        raise BadInput(
            f"{location}/api/records/{RECORD}: the record names no checksum of {name}; give the path of the file as "
            f"location, or {INSTEAD}"
        ) from None
