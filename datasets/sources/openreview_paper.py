"""A paper under review, whichever source holds it: its event, its outcome, and what its reviewers wrote."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from truthgym.datasets.errors import BadInput

RATINGS = ("rating", "recommendation", "overall_recommendation", "overall_assessment", "confidence")
"""Fields of a review in which the reviewer gives marks. Most forms say at each mark whether it is one to accept."""
NO_EVIDENCE = {*RATINGS, "title", "reviewer", "review_id", "rebuttal", "final_justification"}
"""Fields that are no part of what the review says of the paper: marks, titles (often the verdict), names, the authors'
answer, and what NeurIPS reviewers write last to say why they kept or changed their mark."""
OF_THE_FORM = ("review_assessment", "experience", "code_of_conduct", "ethic", "flag_", "details_of_ethics", "llm_")
"""How names of fields begin that are about the reviewer or the form."""
FEWEST_WORDS = 8
"""Words of a field that holds prose. With fewer it is a mark, such as "3 good", or nothing, such as "N/A"."""
_MARK = re.compile(r"\s*-?\d+(\.\d+)?\s*:")
_LINK = re.compile(r"(https?://|www\.)[^\s)\]}>]+")
LONGEST_EVENT = 80


def event_of(title: str) -> str:
    """Name the event of a paper: the same for the same title, so that a paper sent to two venues is one event.

    Case, punctuation and what comes after 80 letters do not count.
    """
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", title).casefold())
    return "paper-" + "-".join(words)[:LONGEST_EVENT].rstrip("-")


def outcome_of(decision: str) -> str | None:
    """Whether a decision's words, such as "Accept: notable-top-25%" or "Reject", accept the paper: "yes" or "no".

    None for all that is neither: an invitation to the workshops, a withdrawal, a desk rejection.
    """
    said = decision.strip().casefold()
    if "withdraw" in said or "desk" in said:
        return None
    return "yes" if said.startswith("accept") else "no" if said.startswith("reject") else None


def abstract_of(text: str) -> str:
    """An abstract with its links masked: those of a paper that was accepted more often lead to the authors' code."""
    return _LINK.sub("[link]", text).strip()


def review_of(fields: Mapping[str, Any], ratings: bool = False) -> str | None:
    """Make evidence of a review: its prose, field by field under the field's name.

    Args:
        fields: What the reviewer entered, by the name of the form's field. Forms differ by venue and year: all prose is
            taken but what `NO_EVIDENCE` and `OF_THE_FORM` name.
        ratings: Whether the reviewer's marks stand first. They nearly give the decision away.

    Returns:
        The text, or None where there is no prose.
    """
    marks = [(name, fields[name]) for name in RATINGS if ratings and fields.get(name) not in (None, "")]
    prose = [(name, value.strip()) for name, value in fields.items() if _is_prose(name, value)]
    if not prose:
        return None
    return "\n\n".join(f"{name.replace('_', ' ').capitalize()}: {value}" for name, value in [*marks, *prose])


def check_ratings(where: str, ratings: object) -> None:
    """Refuse a value of the option `ratings` that is neither true nor false.

    Raises:
        BadInput: It is neither.
    """
    if not isinstance(ratings, bool):
        raise BadInput(f"{where}: ratings={ratings!r} cannot be used; give true or false")


def _is_prose(name: str, value: object) -> bool:
    if not isinstance(value, str) or name in NO_EVIDENCE or name.startswith(OF_THE_FORM):
        return False
    return len(value.split()) >= FEWEST_WORDS and not _MARK.match(value)
