"""ConvoKit's winning-args-corpus: ChangeMyView from 2013 to 2015. A source of `cmv_binary` and `cmv_freeform`."""

import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
from pydantic import Field

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.domain import Skipped
from truthgym.datasets.loading.download import cache, download, is_url
from truthgym.datasets.loading.row_files import Row, parse_json, read_lines
from truthgym.datasets.sources.changemyview import (
    BOTS,
    GONE,
    TURNS,
    ForumComment,
    LeftOut,
    day_of,
    event_of,
    exchange_of,
    post_of,
    verdict,
    view_of,
)

LOCATION = "https://zissou.infosci.cornell.edu/convokit/datasets/winning-args-corpus/winning-args-corpus.zip"
MD5 = "d17056c46f4805a83cd192e56900863f"
"""The MD5 in public code that reads the file. It was not computed here; the option `md5` replaces it."""
LICENCE = (
    "ConvoKit's winning-args-corpus, r/changemyview from 2013 to 2015 (Tan and others, 2016), "
    "https://convokit.cornell.edu/documentation/winning.html. NO LICENCE OF THE DATA IS STATED: see whether your use "
    "is covered before you publish or train."
)


class Meta(msgspec.Struct):
    success: int | None = None
    """1 in a line of argument that was awarded a delta, including the award; 0 in the one paired with it; else None."""
    pair_ids: list[str] | None = None


class Utterance(msgspec.Struct):
    """A comment or a post, whose `root` is its own id."""

    id: str
    root: str
    user: str | None = None
    reply_to: str | None = msgspec.field(name="reply-to", default=None)
    timestamp: float | str | None = None
    text: str | None = None
    meta: Meta = msgspec.field(default_factory=Meta)


@validate_call
def winning_args(
    skipped: Skipped,
    known_after: date | None,
    *,
    location: str = LOCATION,
    md5: str = MD5,
    max_turns: Annotated[int, Field(ge=1)] = TURNS,
) -> Iterator[Row]:
    """Read paired exchanges: from each pair the one that was awarded a delta and the one that was not.

    An exchange runs from the first comment to the last one marked as part of its line of argument, with the author's
    replies between, and ends before the award. An exchange in several pairs is read once.
    """
    path = _file(location, md5)
    lines = _Lines()
    for _, utterance in _utterances(path):
        lines.note(utterance)
    lines.trace()
    for _, utterance in _utterances(path):
        lines.keep(utterance)
    posts = _conversations(path)
    seen: set[str] = set()
    for pair, outcome, ids in lines.lines():
        where = f"{path.name}, pair {pair}"
        root = lines.root[ids[-1]]
        try:
            if ids[0] in seen:
                raise LeftOut("that stand in several pairs")
            seen.add(ids[0])
            head, author = _head(root, posts, lines.comments.get(root))
            comments = [lines.comments.get(utterance_id, ForumComment(None, None)) for utterance_id in ids]
            if outcome == "no" and any((utterance_id, author) in lines.verdicts for utterance_id in ids):
                raise LeftOut("in which the author speaks of a delta that was not awarded")
            exchange = exchange_of([comment for comment in comments if comment.author not in BOTS], author, max_turns)
            day = day_of(lines.time.get(ids[-1]))
            identity = f"winning-args-{root.removeprefix('t3_')}-{ids[0].removeprefix('t1_')}"
            yield where, {"id": identity, **head, "exchange": exchange, "outcome": outcome, "known_on": day}
        except LeftOut as why:
            skipped[str(why)] += 1


@validate_call
def posts(skipped: Skipped, known_after: date | None, *, location: str = LOCATION, md5: str = MD5) -> Iterator[Row]:
    """Read only the posts: contested views, with why someone holds them."""
    path = _file(location, md5)
    for root, post in _conversations(path).items():
        try:
            head, _ = _head(root, {root: post}, None)
            if "?" in head["view"]:
                raise LeftOut("with a title that is a question")
            yield f"{path.name}, conversation {root}", {"id": f"winning-args-{root.removeprefix('t3_')}", **head}
        except LeftOut as why:
            skipped[str(why)] += 1


class _Lines:
    """The marked lines of argument. Of 293,297 texts, only theirs are kept in memory."""

    def __init__(self) -> None:
        self.above: dict[str, str | None] = {}
        self.root: dict[str, str] = {}
        self.comments: dict[str, ForumComment] = {}
        self.time: dict[str, float | str | None] = {}
        self.verdicts: set[tuple[str, str | None]] = set()
        """Texts whose replies mention a verdict, with the reply's author: a delta that the bot rejects has no mark."""
        self._marked: dict[tuple[str, int], list[str]] = defaultdict(list)
        self._paths: dict[tuple[str, int], list[str]] = {}
        self._wanted: set[str] = set()

    def note(self, utterance: Utterance) -> None:
        self.above[utterance.id] = utterance.reply_to
        if utterance.meta.success in (0, 1):
            self.root[utterance.id] = utterance.root
            for pair in utterance.meta.pair_ids or []:
                self._marked[pair, utterance.meta.success].append(utterance.id)

    def trace(self) -> None:
        for key, marked in self._marked.items():
            self._paths[key] = max((self._path(utterance) for utterance in marked), key=len)
            self._wanted.update(self._paths[key], [self.root[marked[0]]])

    def keep(self, utterance: Utterance) -> None:
        if utterance.id in self._wanted:
            self.comments[utterance.id] = ForumComment(utterance.user, utterance.text)
            self.time[utterance.id] = utterance.timestamp
        if utterance.reply_to in self._wanted and verdict(utterance.text):
            self.verdicts.add((utterance.reply_to, utterance.user))

    def lines(self) -> Iterator[tuple[str, str, list[str]]]:
        for (pair, success), path in self._paths.items():
            yield pair, "yes" if success else "no", path

    def _path(self, last: str) -> list[str]:
        path = [last]
        while (above := self.above.get(path[-1])) is not None and above != self.root[last] and above not in path:
            path.append(above)
        return path[::-1]


def _head(root: str, posts: dict[str, dict[str, Any]], comment: ForumComment | None) -> tuple[dict[str, Any], str]:
    post = posts.get(root, {})
    author = post.get("op-userID") or (comment.author if comment else None)
    if author is None or author in GONE:
        raise LeftOut("with a post whose author is gone")
    view, text = view_of(post.get("op-title")), post_of(post.get("op-text-body") or (comment.text if comment else None))
    return {"view": view, "post": text, "event": event_of(root)}, author


def _file(location: str, md5: str) -> Path:
    if not is_url(location):
        if not Path(location).is_file():
            raise BadInput(f"winning_args: there is no file {location}; give the path of winning-args-corpus.zip")
        return Path(location)
    return download(location, cache("winning-args-corpus") / md5 / "winning-args-corpus.zip", lambda: md5)


def _utterances(path: Path) -> Iterator[tuple[str, Utterance]]:
    decoder = msgspec.json.Decoder(Utterance)
    with _member(path, "utterances.jsonl") as file:
        for where, line in read_lines(file, f"{path.name}, utterances.jsonl"):
            try:
                yield where, decoder.decode(line)
            except msgspec.DecodeError as error:
                raise BadInput(f"{where}: not in the shape that was published ({error}); download it anew") from None


def _conversations(path: Path) -> dict[str, dict[str, Any]]:
    with _member(path, "conversations.json") as file:
        conversations = parse_json(file, f"{path.name}, conversations.json", "download it again")
    # Later versions of ConvoKit put the same fields under "meta".
    return {root: post.get("meta", post) for root, post in conversations.items()}


@contextmanager
def _member(path: Path, name: str) -> Iterator[IO[bytes]]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.namelist() if m.endswith(f"/{name}") and not m.startswith("__MACOSX")]
            if not members:
                raise BadInput(f"{path.name} has no {name}; give ConvoKit's winning-args-corpus.zip")
            with archive.open(members[0]) as file:
                yield file
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise BadInput(
            f"{path.name}: {name} cannot be read ({error}); the file is damaged or incomplete: remove {path} and "
            "try again"
        ) from None
