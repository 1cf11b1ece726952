"""Metaculus: resolved questions of a forecasting community, for users with its written permission."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.domain import Record, Skipped, keep_rows
from truthgym.datasets.loading.download import check_secret, read_pages
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.question import statement
from truthgym.datasets.sources.question_dates import (
    NO_CRITERIA,
    crowd_before,
    date_at_fraction,
    has_edit_marker,
    instant,
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
"""Posts in one request. 1,000 requests an hour are allowed."""
FALLBACK = 'check the token and its account\'s access, or use source="bundled"'


@validate_call
def metaculus(
    skipped: Skipped,
    known_after: date | None,
    *,
    permission: bool = False,
    token_file: str | None = None,
    asked: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    least_forecasters: Annotated[int, Field(ge=0)] = 10,
    location: str = LOCATION,
) -> Iterator[Row]:
    """Read resolved yes-or-no questions as rows of `forecasting`."""
    if permission is not True:
        raise BadInput(
            "metaculus: Metaculus' terms of use forbid using its data to train or evaluate an AI model without its "
            "prior written permission (ask api-requests@metaculus.com). If you have it, give -T permission=true; "
            'else use source="forecastbench"'
        )
    return keep_rows(_rows(known_after, _token(token_file), asked, least_forecasters, location), skipped, known_after)


def _token(path: str | None) -> str:
    remedy = "copy the token from your account's settings at metaculus.com to a file of its own, and give its path"
    if path is None:
        raise BadInput(f"metaculus: its API requires a token; {remedy} with -T token_file=PATH")
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"metaculus: token_file={path} cannot be read ({type(error).__name__}); {remedy}") from None
    return check_secret(f"metaculus: the content of token_file={path}", text)


def _rows(
    known_after: date | None, token: str, asked: float, least_forecasters: int, location: str
) -> Iterator[Record]:
    import httpx

    headers = {"Authorization": f"Token {token}", "User-Agent": "truthgym"}
    today = datetime.now(UTC).date()
    with httpx.Client(base_url=location, headers=headers, timeout=60) as client:
        for post in _posts(client, known_after):
            yield f"Metaculus, post {post.get('id')}", partial(_row, post, asked, least_forecasters, today)


def _posts(client: "httpx.Client", known_after: date | None) -> Iterator[dict[str, Any]]:
    query: dict[str, str | int] = {
        "statuses": "resolved",
        "forecast_type": "binary",
        "with_cp": "true",
        "include_cp_history": "true",
        "include_descriptions": "true",
        "order_by": "published_at",  # posts added meanwhile come last and shift no page
        "limit": PAGE,
        "offset": 0,
    }
    if known_after:
        query["scheduled_resolve_time__gt"] = known_after.isoformat()
    offset = 0

    def following(page: dict[str, Any], posts: list[dict[str, Any]]) -> dict[str, int] | None:
        # The URL of the next page in a response is not followed: the token is sent only to the given location.
        nonlocal offset
        offset += len(posts)
        return {"offset": offset} if page.get("next") else None

    return read_pages(client, "posts/", query, "results", following, fallback=FALLBACK)


def _row(post: dict[str, Any], asked: float, least_forecasters: int, today: date) -> dict[str, Any] | str:
    """The row of a post, or the reason why it is left out."""
    question = post.get("question")
    if not isinstance(question, dict) or question.get("type") != "binary":
        return "with no single yes-or-no question"
    text, outcome = _text(question, "title") or _text(post, "title"), question.get("resolution")
    if outcome in ("annulled", "ambiguous"):
        return "annulled or ambiguous"
    if not text or outcome not in ("yes", "no"):
        return "whose text or resolution is withheld"
    names = ("open_time", "scheduled_close_time", "actual_resolve_time")
    opened, closes, resolved = (instant(question.get(name)) for name in names)
    if opened is None or closes is None or resolved is None or not post.get("id"):
        return "without an id or a time"
    if (post.get("nr_forecasters") or 0) < least_forecasters:
        return "with fewer forecasters than asked for"
    if max(closes, instant(question.get("scheduled_resolve_time")) or closes).date() >= today:
        return "planned to be resolved in the future"
    day = date_at_fraction(opened, closes, asked)
    if day >= min(resolved, instant(question.get("actual_close_time")) or resolved).date():
        return "closed by the day on which they are asked"
    background = _text(question, "description")
    criteria = "\n\n".join(
        part for part in (_text(question, "resolution_criteria"), _text(question, "fine_print")) if part
    )
    if has_edit_marker(f"{background}\n{criteria}"):
        return "with a later edit marked in their text"
    return {
        "id": f"metaculus-{post['id']}",
        "question": text,
        "proposition": statement(text),
        "background": background or None,
        "criteria": criteria or NO_CRITERIA,
        "opened_on": day.isoformat(),
        "known_on": resolved.date().isoformat(),
        "outcome": outcome,
        "event": f"metaculus-{post['id']}",
        "field": _field(post),
        "recorded": f"https://www.metaculus.com/questions/{post['id']}/",
        "crowd": crowd_before(day, _community(question)),
    }


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value.strip() if isinstance(value, str) else ""


def _field(post: dict[str, Any]) -> str:
    projects = post.get("projects")
    categories = projects.get("category") if isinstance(projects, dict) else None
    first = categories[0] if isinstance(categories, list) and categories else None
    return str((isinstance(first, dict) and first.get("slug")) or "metaculus")


def _community(question: dict[str, Any]) -> Iterator[tuple[datetime, float]]:
    """Times and community predictions. An account without access to them gets null at any depth."""
    history: Any = question
    for name in ("aggregations", "recency_weighted", "history"):
        history = history.get(name) if isinstance(history, dict) else None
    for entry in history if isinstance(history, list) else ():
        centers = entry.get("centers") if isinstance(entry, dict) else None
        begins = entry.get("start_time") if isinstance(entry, dict) else None
        value = centers[0] if isinstance(centers, list) and centers else None
        if isinstance(begins, int | float) and isinstance(value, int | float) and 0 <= value <= 1:
            yield datetime.fromtimestamp(begins, UTC), float(value)
