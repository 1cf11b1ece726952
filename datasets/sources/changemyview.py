"""ChangeMyView: the posts and comments of that forum, without the verdict."""

import html
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

BOTS = frozenset({"DeltaBot", "AutoModerator"})
GONE = frozenset({"", "[deleted]", "[removed]", "[missing]"})
"""Placeholders for a deleted text or name."""
MAX_TITLE = 1000
"""Longest title to read. The forum allows 300 characters."""
TURNS = 12
"""Most texts in an exchange: few are longer, and some have a hundred."""
_CONFIRMED = re.compile(r"\W*confirmed\W+\d+ deltas? awarded", re.IGNORECASE)
_AWARD = re.compile(r"∆|δ|#8710;|#916;|\bdeltas?\b")
_CHANGED = re.compile(
    r"\b(?:chang|alter|shift|flipp)ed (?:my|your|(?:the )?op(?:['’]?s)?) (?:view|mind|opinion|stance|position)s?\b"
    r"|\b(?:my|your) (?:view|mind|opinion|stance|position)s? (?:has |have |is |was |been |now |officially |partially )*"
    r"(?:changed|shifted|altered)\b"
    r"|\b(?:you|this|that|he|she|they)(?:['’]ve| have| has)? (?:\w+ )?(?:convinced|persuaded|swayed) (?:me|op)\b"
    r"|\bcmv['’]?(?:e?d)\b|\bview changed\b"
)
_VERDICT_WORDS = "∆ δ #8710; #916; delta chang alter shift flip convinced persuaded swayed cmv".split()  # noqa: SIM905
"""Every match of `_AWARD` and `_CHANGED` contains one of them. Searching for them first is faster."""
_EDIT = re.compile(
    r"(?:^[^\w\n]*(?:(?i:(?:final |last )?(?:edit(?:ed)?|update|eta)\b(?=[^\S\n]*(?:\d|[^\w\s]|$)))|(?:EDIT|UPDATE)\b)"
    r"|(?i:[*(\[]{0,9}\bedit\s*(?:#\d*\s*|\d+\s*)?[*)\]]*:))[^\n]*",
    re.MULTILINE,
)
"""An edit, to the end of its line."""
_FOOTER = re.compile(r"Hello, users of (?:CMV|/?r/changemyview)|This is a footnote from (?:your|the CMV) mod")
_RULE = re.compile(r"[\s_>*&;#]*")
"""What stands between a post and the moderators' footer."""
_USER = re.compile(r"(?<![\w/])/?u/[A-Za-z0-9_-]{3,20}")
_SENTENCE = re.compile(r"(?<=[.!?])[^\S\n]+|(?=\n)")
_TAG = re.compile(r"^\s*\[[^\]]*\]\s*|\s*\[[^\]]*\]\s*$")
_CMV = re.compile(r"^\W*(?:cmv|change my view)\b[^\w\"“']*|[^\w\"”'.!?]*\b(?:cmv|change my view)\W*$", re.IGNORECASE)
_OPINION = re.compile(
    r"^(?:in my opinion,?|i (?:\w+ly |do )?(?:believe|think|feel)(?: that)?)(?: that)?[,:]? ", re.IGNORECASE
)


class LeftOut(Exception):
    """A post or exchange that makes no usable question. The message is the reason under which it is counted."""


class ForumComment(NamedTuple):
    """A comment."""

    author: str | None
    text: str | None


def view_of(title: str | None) -> str:
    """The author's view from a post's title: one sentence, without "CMV:" and "I think that"."""
    text = " ".join(html.unescape(title or "").split())[:MAX_TITLE]
    for noise in (_TAG, _CMV, _TAG, _OPINION):
        text = noise.sub("", text)
    if len(text.split()) < 3:
        raise LeftOut("with a title that is not a view")
    return text[0].upper() + text[1:] + ("" if text[-1] in '.!?"”' else ".")


def post_of(text: str | None) -> str:
    """The text of a post before anyone replied: without the moderators' footer and everything after an edit marker."""
    if (text or "").strip() in GONE:
        raise LeftOut("with a post that was deleted or empty")
    kept = html.unescape(text or "")
    if footer := _FOOTER.search(kept):
        before = kept[: footer.start()]
        rule = _RULE.match(before[::-1])  # reversed: a search for what ends at the footer would take quadratic time
        kept = before[: len(before) - (rule.end() if rule else 0)]
    kept = kept.strip()
    while (edit := _EDIT.search(kept)) and not kept[: edit.start()].strip():
        kept = kept[edit.end() :].strip()  # the text after a leading edit is older
    kept = _without_verdict(kept[: edit.start()] if edit else kept)
    if not kept:
        raise LeftOut("with a post of edits alone")
    return kept


def exchange_of(path: Sequence[ForumComment], author: str | None, turns: int = TURNS) -> list[str]:
    """Build an exchange from comments, each a reply to the one before. It ends before the author's verdict.

    Its last text is another person's: the reader has to guess the author's response to it.
    """
    names: dict[str | None, str] = {author: "Author"}
    texts = []
    for comment in path:
        if comment.author == author and verdict(comment.text):
            break
        name = names.setdefault(comment.author, f"Reader {chr(ord('A') + (len(names) - 1) % 26)}")
        texts.append(f"{name}: {comment_of(comment.text)}")
    while texts and texts[-1].startswith("Author: "):
        texts.pop()
    if not texts:
        raise LeftOut("without an answer before the verdict")
    if len(texts) > turns:
        raise LeftOut(f"with more than {turns} texts")
    return texts


def comment_of(text: str | None) -> str:
    """The text of a comment without its edits."""
    if (text or "").strip() in GONE:
        raise LeftOut("with a comment that was deleted")
    kept = _without_verdict(_EDIT.sub("", html.unescape(text or "")))
    if not kept:
        raise LeftOut("with a comment that is about its effect alone")
    return kept


def verdict(text: str | None) -> bool:
    """Whether an author's reply awards a delta, mentions one, or says that the view was changed."""
    return _may_hold_verdict(text or "") and any(_is_verdict(part) for part in _SENTENCE.split(text or ""))


def confirms(comment: ForumComment) -> bool:
    """Whether a comment is the bot's confirmation that the comment above it awarded a delta."""
    return comment.author == "DeltaBot" and bool(_CONFIRMED.match(comment.text or ""))


def event_of(submission: str) -> str:
    """The event of a post, from its id on Reddit: the same in every archive, so that its split is too."""
    return f"cmv-{submission.removeprefix('t3_')}"


def day_of(seconds: str | float | None) -> str | None:
    """Convert seconds since 1970 to a day, or None if that is not possible."""
    try:
        return datetime.fromtimestamp(float(seconds or 0), UTC).date().isoformat() if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


def _may_hold_verdict(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _VERDICT_WORDS)


def _is_verdict(sentence: str) -> bool:
    lowered = sentence.lower()
    return _may_hold_verdict(sentence) and bool(_AWARD.search(lowered) or _CHANGED.search(lowered))


def _without_verdict(text: str) -> str:
    if _may_hold_verdict(text):
        kept = [part for part in _SENTENCE.split(text) if not _is_verdict(part)]
        text = "".join(part if part.startswith("\n") or not place else f" {part}" for place, part in enumerate(kept))
    return (_USER.sub("another user", text) if "u/" in text else text).strip()
