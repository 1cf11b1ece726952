"""Halawi: 5,516 questions of five forecasting platforms, 2015 to 2024, with their crowds' forecasts over time."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import from_json

from truthgym.datasets.errors import BadInput, names_in, one_of, validate_call
from truthgym.datasets.loading.domain import Record, Skipped, keep_rows
from truthgym.datasets.loading.download import FALLBACK, hub_file, is_url
from truthgym.datasets.loading.row_files import Row, read_json
from truthgym.datasets.question import statement
from truthgym.datasets.sources.question_dates import NO_CRITERIA, crowd_before, has_edit_marker, instant

REPOSITORY = "YuehHanChen/forecasting"
REVISION = "093009d0085f05c6b591448809e07b3ee96a2d3b"
PARTS = ("train", "validation", "test")
"""Its files, one JSON array each: 26.8, 11.1 and 10.8 MB at that revision."""
LICENCE = (
    "Approaching Human-Level Forecasting, 5,516 questions (Halawi, Zhang, Chen, Steinhardt), Apache-2.0 as its authors "
    "give it; the texts are those of Good Judgment Open, INFER, Manifold, Metaculus and Polymarket, whose own terms "
    f"apply; https://huggingface.co/datasets/{REPOSITORY} at {REVISION}."
)
_UNAVAILABLE = "not applicable/available for this question"
_METACULUS = re.compile(r"metaculus\.com/questions/(\d+)")
_POLYMARKET = re.compile(r"polymarket\.com/(?:event|market)/([^/?#]+)")
_OUTCOMES = {"0": "no", "0.0": "no", "1": "yes", "1.0": "yes"}


@validate_call
def halawi(
    skipped: Skipped,
    known_after: date | None,
    *,
    parts: str | Sequence[str] = PARTS,
    after_days: Annotated[int, Field(ge=1)] = 7,
    permission: bool = False,
    location: str | None = None,
) -> Iterator[Row]:
    """Read the questions as rows of `forecasting`. Each is asked some days after it was opened."""
    names = names_in(parts)
    for name in names:
        one_of("part of halawi", name, PARTS)
    return keep_rows(_rows(names, after_days, permission, location), skipped, known_after)


def _rows(names: Sequence[str], after_days: int, permission: bool, location: str | None) -> Iterator[Record]:
    for name in names:
        path = _file(f"{name}.json", location)
        questions = read_json(path, f"delete it to download it again, or {FALLBACK}")
        if not isinstance(questions, list):
            raise BadInput(f"{path}: not a JSON array of questions; give the published file, or {FALLBACK}")
        for number, published in enumerate(questions, start=1):
            yield f"{name}.json question {number}", partial(_row, published, after_days, permission)


def _row(published: dict[str, Any], after_days: int, permission: bool) -> dict[str, Any] | str:
    """The row of a question, or the reason why it is left out."""
    platform, text = str(published.get("data_source") or "").lower(), published.get("question")
    opened, resolved = instant(published.get("date_begin")), instant(published.get("date_resolve_at"))
    outcome = _OUTCOMES.get(str(published.get("resolution")))
    if platform == "metaculus" and not permission:
        return "of Metaculus, whose terms ask for written permission"
    if (
        str(published.get("question_type", "binary")).lower() != "binary"
        or published.get("is_resolved") is False
        or outcome is None
    ):
        return "not resolved to yes or no"
    if not isinstance(text, str) or not text.strip() or not platform or opened is None or resolved is None:
        return "without a text, a platform or a day"
    asked_on = (opened + timedelta(days=after_days)).date()
    if asked_on >= min(resolved, instant(published.get("date_close")) or resolved).date():
        return "closed by the day on which they are asked"
    background, criteria = _text(published.get("background")), _text(published.get("resolution_criteria"))
    if has_edit_marker(f"{background}\n{criteria}"):
        return "with a later edit marked in their text"
    address = str(published.get("url") or "")
    return {
        "id": f"halawi-{blake2b(f'{address} {text}'.encode(), digest_size=8).hexdigest()}",
        "question": text.strip(),
        "proposition": statement(text),
        "background": background or None,
        "criteria": criteria or NO_CRITERIA,
        "opened_on": asked_on.isoformat(),
        "known_on": resolved.date().isoformat(),
        "outcome": outcome,
        "event": _event(platform, address, text),
        "field": _text(published.get("gpt_3p5_category")) or platform,
        "recorded": address or platform,
        "crowd": crowd_before(asked_on, _crowd(published.get("community_predictions"), opened)),
    }


def _text(text: object) -> str:
    stripped = text.strip() if isinstance(text, str) else ""
    return "" if stripped.lower().rstrip(".") == _UNAVAILABLE else stripped


def _event(platform: str, address: str, text: str) -> str:
    """The event of a question. Parts of one question with several answers share a URL, and so an event."""
    metaculus, polymarket = _METACULUS.search(address), _POLYMARKET.search(address)
    if metaculus:
        return f"metaculus-{metaculus[1]}"
    if polymarket:
        return f"polymarket-{polymarket[1]}"
    return f"{platform}-{address.split('://')[-1].rstrip('/') or text.strip()}"


def _crowd(encoded: object, opened: datetime) -> Iterator[tuple[datetime, float]]:
    """Times and probabilities, which the files encode as JSON in a string."""
    try:
        pairs = from_json(encoded) if isinstance(encoded, str) else encoded
    except ValueError:
        return
    for pair in pairs if isinstance(pairs, list) else ():
        day, value = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)
        moment = instant(day)
        # A day stands for any of its hours, so it has passed only before the next day.
        moment = moment and datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
        if moment and isinstance(value, int | float) and 0 <= value <= 1 and moment.date() >= opened.date():
            yield moment, float(value)


def _file(name: str, location: str | None) -> Path:
    if location is None or is_url(location):
        return hub_file("halawi", REPOSITORY, REVISION, name, location)
    return Path(location) / name
