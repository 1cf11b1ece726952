"""Which part of an answer is judged: the text between tags, the group of a regular expression, or all of it."""

import re
from typing import Literal, Self

import regex
from pydantic import model_validator

from truthgym.scorers.rubrics.rubric import Data

TIME_LIMIT = 1.0
"""Seconds of CPU time that a regular expression may take on one answer. The policy writes the answer, and may write one
on which a careless expression takes hours."""
TAG_NAME = re.compile(r"[A-Za-z][\w-]*")


class Extraction(Data):
    """Which part of an answer is judged."""

    kind: Literal["identity", "tag", "regex"] = "identity"
    pattern: str = ""
    """Name of the tag, in any case, or the regular expression, in which the dot matches line ends. Its first group is
    judged, or the whole match if it has none."""

    @model_validator(mode="after")
    def _can_be_used(self) -> Self:
        if (self.kind == "identity") != (not self.pattern):
            raise ValueError("a pattern goes with kind='tag' or kind='regex', and none with kind='identity'")
        if self.kind == "tag" and not TAG_NAME.fullmatch(self.pattern):
            raise ValueError(f"{self.pattern!r} is not the name of a tag; write answer, without < and >")
        if self.kind == "regex":
            try:
                regex.compile(self.pattern)
            except regex.error as error:
                raise ValueError(f"{self.pattern!r} is not a regular expression ({error})") from None
        return self


def extract(text: str, how: Extraction) -> tuple[str, str | None]:
    """The part of an answer that is judged.

    All parts that match are joined by blank lines. Tags of the same name may be nested: the outermost counts.

    Returns:
        The part and None; or the whole text and why there is no such part: nothing matches, a tag is not closed, or the
        expression took longer than `TIME_LIMIT`.
    """
    if how.kind == "identity":
        return text, None
    try:
        parts = _tagged(text, how.pattern) if how.kind == "tag" else _matches(text, how.pattern)
    except TimeoutError:
        return text, f"The regular expression took longer than {TIME_LIMIT:g} s."
    found = "\n\n".join(part.strip() for part in parts if part.strip())
    return (found, None) if found else (text, f"The answer has no text for {how.kind} {how.pattern!r}.")


def _matches(text: str, pattern: str) -> list[str]:
    found = regex.finditer(pattern, text, flags=regex.DOTALL, timeout=TIME_LIMIT)
    return [match[1] or "" if match.re.groups else match[0] for match in found]


def _tagged(text: str, name: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for tag in re.finditer(rf"<(/?)\s*{re.escape(name)}\s*>", text, re.IGNORECASE):
        if not tag[1]:
            start = start if depth else tag.end()
            depth += 1
        elif depth:
            depth -= 1
            parts += [text[start : tag.start()]] if not depth else []
    return parts
