"""Metaculus: resolved questions of a forecasting community, for those who have its written permission.

Metaculus' terms of use say that its data may not be used to train or evaluate an AI model without its prior written
permission, and its interface answers no one without a token. So this source reads nothing until both are given, and is
read by `truthgym fetch` alone. A source of `forecasting`.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.datasets.errors import BadInput, whole_number
from truthgym.datasets.loading.http import get_json
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.sources.question_dates import (
    UNSAID,
    crowd_before,
    date_at_fraction,
    has_edit_marker,
    instant,
    share_given,
    statement,
)

if TYPE_CHECKING:
    import httpx

LOCATION = "https://www.metaculus.com/api"
LICENCE = (
    "Metaculus, resolved questions and community predictions, from https://www.metaculus.com/api; Metaculus' terms of "
    "use: not to be used to train or evaluate AI models without its prior written permission, which the user said to "
    "have, and not to be passed on."
)
PAGE = 100
"""Posts asked for at once. 1,000 requests an hour are allowed."""
INSTEAD = 'see whether the token and its account\'s access are right, or use source="bundled"'


def metaculus(
    skipped: Counter[str],
    known_after: date | None,
    *,
    permission: bool = False,
    token_file: str | None = None,
    asked: float = 0.5,
    least_forecasters: int = 10,
    location: str = LOCATION,
) -> Iterator[Row]:
    """Read resolved yes-or-no questions as rows of `forecasting`.

    A question is asked on a day in the middle of the time for which it was planned to be open, and only if it was not
    yet closed or resolved then. The crowd's probability is the community prediction from before that day, never one
    from later. Questions planned to be resolved in the future are left out: of these only the ones that were resolved
    early are to be had, and "will it happen by ...?" is resolved early with yes alone.

    Args:
        skipped: Takes what is left out, by reason.
        known_after: Keep questions that are asked on or after this day. Those asked earlier that were still open on it
            would be chosen by their outcome: what does not happen by its date is open for longer.
        permission: Whether you hold Metaculus' written permission to use its data to evaluate, or train, AI models.
        token_file: Path of a file with your token and nothing else. The token itself is no option, so that it is in no
            list of processes, history of commands, log or snapshot.
        asked: Share of the planned open time after which a question is asked, above 0 and below 1.
        least_forecasters: Fewest people who forecast.
        location: Address of the interface.

    Raises:
        BadInput: No permission or no token; an option that cannot be used; an answer that cannot be had, or is not of
            the known shape.
    """
    if permission is not True:
        raise BadInput(
            "metaculus: Metaculus' terms of use say that its data may not be used to train or evaluate an AI model "
            "without its prior written permission (ask api-requests@metaculus.com). If you have it, say so with "
            '-T permission=true; else use source="forecastbench"'
        )
    share_given("metaculus", "asked", asked)
    whole_number("metaculus", "least_forecasters", least_forecasters, 0)
    return _rows(skipped, known_after, _token(token_file), asked, least_forecasters, location)


def _token(path: str | None) -> str:
    where = "your account's settings at metaculus.com hold the token: write it to a file of its own, and give its path"
    if path is None:
        raise BadInput(f"metaculus: its interface answers no one without a token; {where} with -T token_file=PATH")
    try:
        words = Path(str(path)).expanduser().read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"metaculus: token_file={path} cannot be read ({type(error).__name__}); {where}") from None
    # What is in the file is never shown, whatever it is.
    if len(words) != 1 or not words[0].isascii():
        raise BadInput(f"metaculus: token_file={path} does not hold one word; {where}")
    return words[0]


def _rows(
    skipped: Counter[str], known_after: date | None, token: str, asked: float, least_forecasters: int, location: str
) -> Iterator[Row]:
    import httpx

    headers = {"Authorization": f"Token {token}", "User-Agent": "truthgym"}
    today = datetime.now(UTC).date()
    with httpx.Client(base_url=location, headers=headers, timeout=60) as client:
        for post in _posts(client, known_after):
            row = _row(post, asked, least_forecasters, today)
            if isinstance(row, dict) and known_after and row["opened_on"] < known_after.isoformat():
                row = f"asked before {known_after}"
            if isinstance(row, str):
                skipped[row] += 1
            else:
                yield f"Metaculus, post {post.get('id')}", row


def _posts(client: "httpx.Client", known_after: date | None) -> Iterator[dict[str, Any]]:
    query: dict[str, str | int] = {
        "statuses": "resolved",
        "forecast_type": "binary",
        "with_cp": "true",
        "include_cp_history": "true",
        "include_descriptions": "true",
        "order_by": "published_at",  # what is added meanwhile comes last, and moves no page
        "limit": PAGE,
    }
    if known_after:
        query["scheduled_resolve_time__gt"] = known_after.isoformat()
    offset, more = 0, True
    while more:
        # The address of the next page, which an answer names, is not followed: the token goes to the given one alone.
        page = get_json(client, "posts/", query | {"offset": offset}, instead=INSTEAD)
        posts = page.get("results") if isinstance(page, dict) else None
        if not isinstance(posts, list) or not all(isinstance(post, dict) for post in posts):
            raise BadInput(f"{client.base_url}posts/: no list of posts came, but {str(page)[:80]!r}; {INSTEAD}")
        yield from posts
        offset, more = offset + len(posts), bool(posts and page.get("next"))


def _row(post: dict[str, Any], asked: float, least_forecasters: int, today: date) -> dict[str, Any] | str:
    """The row of a post, or why there is none."""
    of = post.get("question")
    if not isinstance(of, dict) or of.get("type") != "binary":
        return "with no single yes-or-no question"
    text, outcome = _text(of, "title") or _text(post, "title"), of.get("resolution")
    if outcome in ("annulled", "ambiguous"):
        return "annulled or ambiguous"
    if not text or outcome not in ("yes", "no"):
        return "whose text or resolution is withheld"
    names = ("open_time", "scheduled_close_time", "actual_resolve_time")
    opened, closes, resolved = (instant(of.get(name)) for name in names)
    if opened is None or closes is None or resolved is None or not post.get("id"):
        return "without an id or a time"
    if (post.get("nr_forecasters") or 0) < least_forecasters:
        return "with fewer forecasters than asked for"
    if max(closes, instant(of.get("scheduled_resolve_time")) or closes).date() >= today:
        return "planned to be resolved in the future"
    day = date_at_fraction(opened, closes, asked)
    if day >= min(resolved, instant(of.get("actual_close_time")) or resolved).date():
        return "closed by the day on which they are asked"
    background = _text(of, "description")
    criteria = "\n\n".join(part for part in (_text(of, "resolution_criteria"), _text(of, "fine_print")) if part)
    if has_edit_marker(f"{background}\n{criteria}"):
        return "with a later edit marked in their text"
    made = {
        "id": f"metaculus-{post['id']}",
        "question": text,
        "proposition": statement(text),
        "background": background or None,
        "criteria": criteria or UNSAID,
        "opened_on": day.isoformat(),
        "known_on": resolved.date().isoformat(),
        "outcome": outcome,
        "event": f"metaculus-{post['id']}",
        "field": _field(post),
        "recorded": f"https://www.metaculus.com/questions/{post['id']}/",
        "crowd": crowd_before(day, _community(of)),
    }
    return {name: value for name, value in made.items() if value is not None}


def _text(held: dict[str, Any], name: str) -> str:
    value = held.get(name)
    return value.strip() if isinstance(value, str) else ""


def _field(post: dict[str, Any]) -> str:
    projects = post.get("projects")
    categories = projects.get("category") if isinstance(projects, dict) else None
    first = categories[0] if isinstance(categories, list) and categories else None
    return str((isinstance(first, dict) and first.get("slug")) or "metaculus")


def _community(of: dict[str, Any]) -> Iterator[tuple[datetime, float]]:
    """Moments and community predictions. An account without access to them gets null at any depth."""
    held: Any = of
    for name in ("aggregations", "recency_weighted", "history"):
        held = held.get(name) if isinstance(held, dict) else None
    for entry in held if isinstance(held, list) else ():
        centers = entry.get("centers") if isinstance(entry, dict) else None
        begins = entry.get("start_time") if isinstance(entry, dict) else None
        value = centers[0] if isinstance(centers, list) and centers else None
        if isinstance(begins, int | float) and isinstance(value, int | float) and 0 <= value <= 1:
            yield datetime.fromtimestamp(begins, UTC), float(value)
