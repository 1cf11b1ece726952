"""Which part of an answer is judged: the text between tags, the group of a regular expression, or all of it."""

import re
from typing import Literal, Self

import regex
from pydantic import model_validator

from truthgym.scorers.rubrics.rubric import Data

TIME_LIMIT = 0.05
"""Seconds of CPU time that a regular expression may take on one answer. The policy writes the answer, and may write one
on which a careless expression takes hours; a reward server answers nobody meanwhile."""
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
    """The part of an answer that is judged."""
    if how.kind == "identity":
        return text, None
    try:
        extracted = "\n\n".join(part for start, end in _spans(text, how) if (part := text[start:end].strip()))
    except TimeoutError:
        return text, f"The regular expression took longer than {TIME_LIMIT:g} s."
    return (extracted, None) if extracted else (text, f"The answer has no text for {how.kind} {how.pattern!r}.")


def insert(text: str, how: Extraction, addition: str) -> str:
    """An answer with an addition at the end of the part that is judged, or of the whole if it has no such part."""
    try:
        places = [end for start, end in _spans(text, how) if text[start:end].strip()]
    except TimeoutError:
        places = []
    place = places[-1] if places else len(text)
    return text[:place] + addition + text[place:]


def _spans(text: str, how: Extraction) -> list[tuple[int, int]]:
    """Start and end of each part that is judged."""
    if how.kind == "identity":
        return [(0, len(text))]
    if how.kind == "regex":
        matches = regex.finditer(how.pattern, text, flags=regex.DOTALL, timeout=TIME_LIMIT)
        return [match.span(min(1, match.re.groups)) for match in matches]
    spans, depth, start = [], 0, 0
    for tag in re.finditer(rf"<(/?)\s*{re.escape(how.pattern)}\s*>", text, re.IGNORECASE):
        if not tag[1]:
            start = start if depth else tag.end()
            depth += 1
        elif depth:
            depth -= 1
            spans += [(start, tag.start())] if not depth else []
    return spans
