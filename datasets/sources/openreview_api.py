"""OpenReview's API, version 2: a venue's submissions with public reviews and decisions. A source of `openreview`."""

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.domain import Record, Skipped, keep_rows
from truthgym.datasets.loading.download import check_secret, get_json, read_pages
from truthgym.datasets.loading.row_files import Row

if TYPE_CHECKING:
    import httpx

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
    """The event of a paper: the same for the same title, so that a paper submitted to two venues is one event."""
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", title).casefold())
    return "paper-" + "-".join(words)[:LONGEST_EVENT].rstrip("-")


def outcome_of(decision: str) -> str | None:
    """Whether a decision such as "Accept: notable-top-25%" or "Reject" accepts the paper: "yes" or "no"."""
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


API = "https://api2.openreview.net"
LICENCE = (
    "Submissions, reviews and decisions of OpenReview (openreview.net/legal/terms), whose texts are their authors', "
    "each under the licence named at the paper; read through api2.openreview.net on the day of the snapshot."
)
PAGE = 500
"""Submissions in one request, with their replies: 10 to 20 MB. OpenReview allows some dozens of requests an hour."""
SECONDS = 120.0
FALLBACK = (
    "OpenReview asks for an account: put yours in OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD, or a token in "
    'OPENREVIEW_TOKEN; or use source="reviewbench" or source="bundled"'
)
_VENUE = re.compile(r"([\w.-]+/)*?(?P<series>[\w-]+)(\.[\w.-]+)?/(?P<year>\d{4})/(?P<track>[\w/.-]+)")
_LEFT_OUT = {"Withdrawn": "withdrawn", "Desk_Rejected": "rejected without review"}


@validate_call
def api(
    skipped: Skipped, known_after: date | None, *, venue: str | None = None, ratings: bool = False, location: str = API
) -> Iterator[Row]:
    """Read the submissions of a venue, a page at a time."""
    if venue is None or not _VENUE.fullmatch(venue):
        raise BadInput(
            f"openreview: venue={venue!r} is not the id of a venue; give it as OpenReview writes it, such as "
            "venue=ICLR.cc/2025/Conference"
        )
    return keep_rows(_papers(venue, ratings, location), skipped)


def venue_name(venue: str) -> str:
    """The name of a venue from its id: "ICLR 2025" of "ICLR.cc/2025/Conference"."""
    match = _VENUE.fullmatch(venue)
    if match is None:
        return venue
    track = match["track"].replace("_", " ").replace("/", " ")
    return " ".join(part for part in (match["series"], match["year"], "" if track == "Conference" else track) if part)


def _papers(venue: str, ratings: bool, location: str) -> Iterator[Record]:
    import httpx

    # As OpenReview's own client: ordered by id, from the last id on, so that nothing is missed or repeated when
    # submissions come and go meanwhile.
    query: dict[str, str | int] = {
        "invitation": f"{venue}/-/Submission", "details": "directReplies", "sort": "id", "limit": PAGE
    }  # fmt: skip
    note = None
    with httpx.Client(base_url=location, timeout=SECONDS, headers={"User-Agent": "truthgym"}) as client:
        _log_in(client)
        for note in read_pages(client, "/notes", query, "notes", _following, fallback=FALLBACK):
            yield f"OpenReview, {venue}, paper {note.get('id')}", partial(_row, note, venue, ratings)
    if note is None:
        raise BadInput(
            f"OpenReview, {venue}: API 2 shows no submissions of this venue; check the id (venues before the end of "
            '2023 are not on this API), or use source="reviewbench"'
        )


def _following(_: dict[str, Any], notes: list[dict[str, Any]]) -> dict[str, str]:
    return {"after": str(notes[-1].get("id"))}


def _log_in(client: "httpx.Client") -> None:
    token = os.environ.get("OPENREVIEW_TOKEN")
    name, password = os.environ.get("OPENREVIEW_USERNAME"), os.environ.get("OPENREVIEW_PASSWORD")
    if not token and name and password:
        remedy = f"log in as {name} with the right OPENREVIEW_PASSWORD, or give a token in OPENREVIEW_TOKEN"
        answer = get_json(client, "/login", post={"id": name, "password": password}, fallback=remedy)
        token = answer.get("token") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            second = isinstance(answer, dict) and answer.get("mfaPending")
            why = "the account asks for a second factor" if second else "the server sent no token"
            raise BadInput(f"OpenReview: {why}; {remedy}")
    if token:
        client.headers["Authorization"] = f"Bearer {check_secret('OpenReview: OPENREVIEW_TOKEN', token)}"


def _row(note: dict[str, Any], venue: str, ratings: bool) -> dict[str, Any] | str:
    """The row of a submission, or the reason why it is left out."""
    content = note["content"]
    title, abstract, listing = (_value(content, name) for name in ("title", "abstract", "venueid"))
    listed = str(listing or "").removeprefix(venue).strip("/")
    for begins, why in _LEFT_OUT.items():
        if listed.startswith(begins):
            return why
    if not (isinstance(title, str) and title.strip() and isinstance(abstract, str) and abstract.strip()):
        return "without a title or an abstract"
    replies = sorted(note["details"]["directReplies"], key=_written)
    decisions = [reply for reply in replies if _answers(reply, "Decision")]
    words = str(_value(decisions[-1]["content"], "decision")) if decisions else str(_value(content, "venue"))
    decided = outcome_of(words) if decisions else None
    if decisions and decided is None:
        return "with a decision that neither accepts nor rejects"
    shown = "yes" if listing == venue else "no" if listed.startswith("Rejected") else None
    if decided is None and shown is None:
        return "not decided, or not publicly"
    if None not in (decided, shown) and decided != shown:
        return "whose decision and listing disagree"
    opened, decided_on = _day(note), _day(decisions[-1]) if decisions else None
    if decided_on is not None and opened >= decided_on:
        return "decided before the day of submission"
    reviews = [review_of(_plain(reply["content"]), ratings) for reply in replies if _answers(reply, "Official_Review")]
    return {
        "id": f"openreview-{note['id']}",
        "title": title.strip(),
        "summary": abstract_of(abstract),
        "venue": venue_name(venue),
        "decision": words,
        "outcome": decided or shown,
        "opened_on": opened.isoformat(),
        "event": event_of(title),
        "recorded": f"https://openreview.net/forum?id={note['id']}",
        "known_on": decided_on and decided_on.isoformat(),
        "reviews": [text for text in reviews if text] or None,
    }


def _answers(reply: dict[str, Any], form: str) -> bool:
    return any(name.endswith(f"/-/{form}") for name in reply["invitations"])


def _value(content: dict[str, Any], name: str) -> object:
    """A field of a note: API 2 nests it as {"value": ...}."""
    field = content.get(name)
    return field.get("value") if isinstance(field, dict) else None


def _plain(content: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(content, name) for name in content}


def _written(note: dict[str, Any]) -> int:
    """When a note was written, in milliseconds since 1970."""
    return int(note.get("cdate") or note["tcdate"])


def _day(note: dict[str, Any]) -> date:
    return datetime.fromtimestamp(_written(note) / 1000, UTC).date()
