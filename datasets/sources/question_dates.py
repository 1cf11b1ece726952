"""Asking: on which day a question that has since been resolved is asked anew, and what the crowd had said by then.

The day must not tell how the question ended. So it depends on nothing but what was known on it: when the question was
opened, and for when its end was planned. Whatever was resolved by that day is left out, as it would have been then.
"""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

from truthgym.datasets.errors import BadInput

UNSAID = "The platform that asked the question decides."
"""What counts, where a platform says nothing of it."""
_EDIT = re.compile(
    r"^\W*(?:(?:admin|author|creator|mod|moderator)\W+)?(?:edit(?:ed|s)?|update[ds]?|clarifications?)\b[^\n]{0,30}[:\d]",
    re.IGNORECASE | re.MULTILINE,
)


def statement(question: str) -> str:
    """The proposition that a platform's question is answered with yes."""
    return f"The answer to this question is yes: {question.strip()}"


def has_edit_marker(text: str) -> bool:
    """Whether a line of a text begins as later additions to a question do: "EDIT: ...", "Update from 3 May: ...".

    A platform gives a question's text as it stands today, and such a line may tell what happened after the question was
    asked. Additions that are not marked cannot be told from the rest.
    """
    return bool(_EDIT.search(text))


def instant(value: object) -> datetime | None:
    """Read a moment as platforms write it: ISO 8601 with or without a zone (then UTC), or None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        read = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)


def parse_day(source: str, name: str, value: object) -> date:
    """Read a day that is given as an option.

    Raises:
        BadInput: It is none.
    """
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError:
        raise BadInput(f"{source}: {name}={value!r} is not a day; write it as 2025-06-01") from None


def share_given(source: str, name: str, value: object, whole: bool = False) -> float:
    """Read a share that is given as an option.

    Args:
        source: Whose option.
        name: Its name.
        value: A number above 0 and below 1.
        whole: Whether 1 is a share, too.

    Raises:
        BadInput: It is none.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not (0 < value < 1 or (whole and value == 1)):
        reach = "at most" if whole else "below"
        raise BadInput(f"{source}: {name}={value!r} is no share; give a number above 0 and {reach} 1")
    return float(value)


def date_at_fraction(opened: datetime, planned_end: datetime, share: float) -> date:
    """The day on which a share of the time between the opening and the planned end has passed."""
    return (opened + (planned_end - opened) * share).date()


def crowd_before(day: date, said: Iterable[tuple[datetime, float]], most_days: int | None = None) -> float | None:
    """What a crowd had said before a day began (UTC), so that it knew no more than one who is asked on that day.

    Args:
        day: The day.
        said: Moments and probabilities, in any order. Where a platform gives days only, each is its midnight.
        most_days: How old it may be. None: as old as it is, since a forecast stands until it is changed.

    Returns:
        The latest probability, the mean where several have the latest moment; None where there is none.
    """
    begins = datetime.combine(day, time(), UTC)
    oldest = begins - timedelta(days=most_days) if most_days is not None else datetime.min.replace(tzinfo=UTC)
    before = [(moment, value) for moment, value in said if oldest <= moment < begins]
    if not before:
        return None
    last = max(moment for moment, _ in before)
    latest = [value for moment, value in before if moment == last]
    return sum(latest) / len(latest)
