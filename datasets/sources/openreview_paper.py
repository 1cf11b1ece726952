"""A paper under review, from any source: its event, its outcome, and the text of its reviews."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

RATINGS = ("rating", "recommendation", "overall_recommendation", "overall_assessment", "confidence")
"""Fields of a review with marks. Most forms say for each mark whether it means to accept."""
NO_EVIDENCE = {*RATINGS, "title", "reviewer", "review_id", "rebuttal", "final_justification"}
"""Fields that are not the review's text on the paper: marks, titles (often the verdict), names, the authors' reply, and
the NeurIPS reviewers' final justification of why they kept or changed their mark."""
OF_THE_FORM = ("review_assessment", "experience", "code_of_conduct", "ethic", "flag_", "details_of_ethics", "llm_")
"""Prefixes of fields that are about the reviewer or the form."""
FEWEST_WORDS = 8
"""Least number of words in a field of prose. Shorter fields are marks, such as "3 good", or empty, such as "N/A"."""
_MARK = re.compile(r"\s*-?\d+(\.\d+)?\s*:")
_LINK = re.compile(r"(https?://|www\.)[^\s)\]}>]+")
LONGEST_EVENT = 80


def event_of(title: str) -> str:
    """The event of a paper: the same for the same title, so that a paper submitted to two venues is one event.

    Case, punctuation and everything after 80 characters are ignored.
    """
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", title).casefold())
    return "paper-" + "-".join(words)[:LONGEST_EVENT].rstrip("-")


def outcome_of(decision: str) -> str | None:
    """Whether a decision such as "Accept: notable-top-25%" or "Reject" accepts the paper: "yes" or "no".

    None for anything else: an invitation to the workshops, a withdrawal, a desk rejection.
    """
    text = decision.strip().casefold()
    if "withdraw" in text or "desk" in text:
        return None
    return "yes" if text.startswith("accept") else "no" if text.startswith("reject") else None


def abstract_of(text: str) -> str:
    """An abstract with its links masked: links to the authors' code are more frequent in accepted papers."""
    return _LINK.sub("[link]", text).strip()


def review_of(fields: Mapping[str, Any], ratings: bool = False) -> str | None:
    """The evidence in a review: its prose, field by field, each after the name of the field."""
    marks = [(name, fields[name]) for name in RATINGS if ratings and fields.get(name) not in (None, "")]
    prose = [(name, value.strip()) for name, value in fields.items() if _is_prose(name, value)]
    if not prose:
        return None
    return "\n\n".join(f"{name.replace('_', ' ').capitalize()}: {value}" for name, value in [*marks, *prose])


def _is_prose(name: str, value: object) -> bool:
    if not isinstance(value, str) or name in NO_EVIDENCE or name.startswith(OF_THE_FORM):
        return False
    return len(value.split()) >= FEWEST_WORDS and not _MARK.match(value)
