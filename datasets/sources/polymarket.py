"""Polymarket: closed markets on real events, each with its price long before it was settled."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from pydantic_core import from_json

from truthgym.datasets.errors import BadInput, shown, validate_call
from truthgym.datasets.loading.domain import Record, Skipped, keep_rows
from truthgym.datasets.loading.download import FALLBACK, read_pages
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.loading.selection import parse_day
from truthgym.datasets.question import split_of, statement
from truthgym.datasets.sources.question_dates import (
    NO_CRITERIA,
    crowd_before,
    date_at_fraction,
    has_edit_marker,
    instant,
)

if TYPE_CHECKING:
    import httpx

GAMMA = "https://gamma-api.polymarket.com"
CLOB = "https://clob.polymarket.com"
LICENCE = (
    "Polymarket, closed markets and their prices, from its public interfaces (gamma-api.polymarket.com and "
    "clob.polymarket.com); no licence is stated and Polymarket's terms of use apply: read them before passing any on."
)
NAMED = {"User-Agent": "truthgym"}
"""The default user agent of an HTTP library is sometimes refused."""
PAGE = 100
"""Markets in one request: the most that Gamma lists."""
HALF_DAY = 720
"""Minutes between two prices. Closed markets have no finer resolution."""
SETTLING = 7
"""Days after which nearly all ended markets are settled."""
STALE = 3
"""Age in days from which a price is too old for the day of the question."""


@validate_call
def polymarket(
    skipped: Skipped,
    known_after: date | None,
    *,
    ended_from: date | str | None = None,
    ended_to: date | str | None = None,
    asked: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    least_days: Annotated[int, Field(ge=2)] = 7,
    least_volume: Annotated[int, Field(ge=0)] = 50_000,
    share: Annotated[float, Field(gt=0, le=1)] = 1.0,
    prices: bool = True,
    gamma: str = GAMMA,
    clob: str = CLOB,
) -> Iterator[Row]:
    """Read closed yes-or-no markets as rows of `forecasting`."""
    today = datetime.now(UTC).date()
    last = parse_day("ended_to", ended_to) if ended_to else today - timedelta(days=SETTLING)
    first = parse_day("ended_from", ended_from) if ended_from else known_after
    first = first or last - timedelta(days=90)
    if not first <= last < today:
        raise BadInput(
            f"polymarket: no market ended from {first} to {last}, as of {today}; give ended_from and ended_to in the "
            "past, or an earlier known_after"
        )
    markets = _markets(gamma, first, last, least_days, least_volume)
    records: Iterator[Record] = (
        (f"Polymarket, market {market.get('id')}", partial(_row, market, asked, share, least_days))
        for market in markets
    )
    return _with_prices(keep_rows(records, skipped, known_after), clob if prices else None)


def _with_prices(rows: Iterator[Row], clob: str | None) -> Iterator[Row]:
    import httpx

    with httpx.Client(base_url=clob or CLOB, headers=NAMED, timeout=30) as books:
        for where, row in rows:
            token = row.pop("token", None)
            if clob and token:
                crowd = crowd_before(date.fromisoformat(row["opened_on"]), _history(books, token), STALE)
                row |= {} if crowd is None else {"crowd": crowd}
            yield where, row


def _markets(gamma: str, first: date, last: date, least_days: int, least_volume: int) -> Iterator[dict[str, Any]]:
    """Closed markets by the day of their planned end."""
    import httpx

    with httpx.Client(base_url=gamma, headers=NAMED, timeout=30) as listing:
        for day in (first + timedelta(days=k) for k in range((last - first).days + 1)):
            yield from _ended_on(listing, day, least_days, least_volume)


def _ended_on(listing: "httpx.Client", day: date, least_days: int, least_volume: int) -> Iterator[dict[str, Any]]:
    asked: dict[str, str | int] = {
        "closed": "true",
        "end_date_min": f"{day}T00:00:00Z",
        "end_date_max": f"{day + timedelta(days=1)}T00:00:00Z",
        "start_date_max": f"{day - timedelta(days=least_days - 1)}T00:00:00Z",
        "volume_num_min": least_volume,
        "include_tag": "true",
        "limit": PAGE,
    }
    for market in read_pages(listing, "/markets/keyset", asked, "markets", _following):
        end = instant(market.get("endDate"))
        if end and end.date() == day:  # midnight ends one day's page and begins the next one's
            yield market


def _following(page: dict[str, Any], markets: list[dict[str, Any]]) -> dict[str, str] | None:
    return {"after_cursor": str(page["next_cursor"])} if page.get("next_cursor") else None


def _row(market: dict[str, Any], asked: float, share: float, least_days: int) -> dict[str, Any] | str:
    """The row of a market, or the reason why it is left out."""
    text, event = market.get("question"), _event(market)
    opened, end = instant(market.get("startDate")), instant(market.get("endDate"))
    closed = instant(market.get("closedTime"))
    if not isinstance(text, str) or not text.strip() or not (market.get("id") and opened and end and closed):
        return "without a text, an id or a time"
    if not _in_share(event, share):
        return "of events that are not read"
    if _of_two_splits(event, market.get("slug")):
        return "in the test split by their own name or their event's, and not by both"
    if [name.lower() for name in _texts(market.get("outcomes"))] not in (["yes", "no"], ["no", "yes"]):
        return "with other answers than yes and no"
    outcome = _settled(market)
    if outcome is None:
        return "voided, split, or not settled"
    if (end - opened).days < least_days:
        return "planned for fewer days than asked for"
    day = date_at_fraction(opened, end, asked)
    closed_on = min(closed, end).date()
    if day >= closed_on:
        return "closed by the day on which they are asked about"
    criteria = market.get("description")
    criteria = criteria.strip() if isinstance(criteria, str) else ""
    if has_edit_marker(criteria):
        return "with a later edit marked in their text"
    return {
        "id": f"polymarket-{market['id']}",
        "question": text.strip(),
        "proposition": statement(text),
        "criteria": criteria or NO_CRITERIA,
        "opened_on": day.isoformat(),
        "known_on": closed_on.isoformat(),
        "outcome": outcome,
        "event": f"polymarket-{event}",
        "field": _field(market),
        "recorded": f"https://polymarket.com/event/{event}",
        "token": _by_answer(market, "clobTokenIds").get("yes"),
    }


def _texts(encoded: object) -> list[str]:
    """Parse a list of texts, which Gamma encodes as JSON in a string."""
    try:
        parsed = from_json(encoded) if isinstance(encoded, str) else encoded
    except ValueError:
        return []
    return [str(item) for item in parsed] if isinstance(parsed, list) else []


def _settled(market: dict[str, Any]) -> str | None:
    """The outcome that a closed market paid for: its price is 1 and the other outcome's is 0.

    In a voided market both are 0 or one half. Without a status, the prices decide.
    """
    if market.get("closed") is not True or market.get("umaResolutionStatus") not in (None, "resolved", "settled"):
        return None
    paid = _by_answer(market, "outcomePrices")
    try:
        return {(1.0, 0.0): "yes", (0.0, 1.0): "no"}.get((float(paid["yes"]), float(paid["no"])))
    except (KeyError, ValueError):
        return None


def _by_answer(market: dict[str, Any], name: str) -> dict[str, str]:
    pairs = zip(_texts(market.get("outcomes")), _texts(market.get(name)), strict=False)
    return {answer.lower(): item for answer, item in pairs}


def _event(market: dict[str, Any]) -> str:
    """Name of a market's event: "who will win?" is one event, with a market for each candidate."""
    events = market.get("events")
    first = events[0] if isinstance(events, list) and events and isinstance(events[0], dict) else {}
    return str(first.get("slug") or market.get("slug") or market.get("id"))


def _of_two_splits(event: str, name: object) -> bool:
    """Whether exactly one of the market's and the event's names is in the test split."""
    return [split_of(f"polymarket-{slug}") for slug in (event, name or event)].count("test") == 1


def _field(market: dict[str, Any]) -> str:
    tags = market.get("tags")
    slugs = [tag.get("slug") for tag in tags if isinstance(tag, dict)] if isinstance(tags, list) else []
    names = [str(slug) for slug in slugs if slug and slug != "all"]
    return str(market.get("category") or (names[0] if names else "polymarket")).lower()


def _in_share(event: str, share: float) -> bool:
    # Not the hash that decides the split, or a share of the events would be one of the splits.
    place = int.from_bytes(blake2b(event.encode(), digest_size=8, person=b"share").digest()) / 2**64
    return place < share


def _history(books: "httpx.Client", token: str) -> Iterator[tuple[datetime, float]]:
    asked: dict[str, str | int] = {"market": token, "interval": "max", "fidelity": HALF_DAY}
    for point in read_pages(books, "/prices-history", asked, "history", lambda *_: None):
        try:
            moment, price = datetime.fromtimestamp(point["t"], UTC), float(point["p"])
        except (TypeError, KeyError, ValueError, OverflowError, OSError):
            raise BadInput(f"{books.base_url}: {shown(point)} is not a time and a price; {FALLBACK}") from None
        if 0 <= price <= 1:
            yield moment, price
