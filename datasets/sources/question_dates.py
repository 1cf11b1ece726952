"""Question dates: the day on which a resolved question is asked, and the crowd's probability before that day."""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

NO_CRITERIA = "The platform that asked the question decides."
_EDIT = re.compile(
    r"^[^\w\n]*(?:(?:admin|author|creator|mod|moderator)\W+)?(?:edit(?:ed|s)?|update[ds]?|clarifications?)\b[^\n]{0,30}[:\d]",
    re.IGNORECASE | re.MULTILINE,
)


def has_edit_marker(text: str) -> bool:
    """Whether a line of a text begins with a marker of later edits, which may reveal the outcome: "EDIT: ..."."""
    return bool(_EDIT.search(text))


def instant(value: object) -> datetime | None:
    """Parse a time as platforms write it: ISO 8601 with a zone or without (then UTC). None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def date_at_fraction(opened: datetime, planned_end: datetime, fraction: float) -> date:
    """The day on which a fraction of the time between the opening and the planned end has passed."""
    return (opened + (planned_end - opened) * fraction).date()


def crowd_before(day: date, history: Iterable[tuple[datetime, float]], most_days: int | None = None) -> float | None:
    """The crowd's latest probability before a day began (UTC), as far as a model asked that day could know it."""
    begins = datetime.combine(day, time(), UTC)
    oldest = begins - timedelta(days=most_days) if most_days is not None else datetime.min.replace(tzinfo=UTC)
    before = [(moment, value) for moment, value in history if oldest <= moment < begins]
    if not before:
        return None
    last = max(moment for moment, _ in before)
    latest = [value for moment, value in before if moment == last]
    return sum(latest) / len(latest)
