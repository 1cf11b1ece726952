"""ForecastBench: questions of a public, biweekly forecasting benchmark, with the crowd's probability."""

import math
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.domain import Record, Skipped, keep_rows
from truthgym.datasets.loading.download import FALLBACK, cache, download, is_url
from truthgym.datasets.loading.row_files import Row, read_json
from truthgym.datasets.question import statement
from truthgym.datasets.sources.question_dates import NO_CRITERIA

COMMIT = "4eafa5cdda4d9fbf3542ea9f5f71050b9dd89110"
"""The commit of forecastingresearch/forecastbench-datasets that is read."""
LOCATION = f"https://raw.githubusercontent.com/forecastingresearch/forecastbench-datasets/{COMMIT}/datasets"
LICENCE = (
    "ForecastBench, question and resolution sets (Forecasting Research Institute), CC BY-SA 4.0, "
    f"https://github.com/forecastingresearch/forecastbench-datasets at {COMMIT}."
)
# fmt: off
ROUNDS = (
    "2025-03-02", "2025-03-16", "2025-03-30", "2025-04-13", "2025-04-27", "2025-05-11", "2025-05-25", "2025-06-08",
    "2025-06-22", "2025-08-03", "2025-08-17", "2025-08-31", "2025-10-26", "2025-11-09", "2025-11-23", "2025-12-07",
    "2025-12-21", "2026-01-04", "2026-01-18", "2026-02-01", "2026-02-15", "2026-03-01", "2026-03-15", "2026-03-29",
    "2026-04-12", "2026-04-26", "2026-05-10", "2026-05-24", "2026-06-07", "2026-06-21", "2026-07-05", "2026-07-19",
    "2026-08-02", "2026-08-16", "2026-08-30", "2026-09-13", "2026-09-27",
)
# fmt: on
"""Forecast due dates of all rounds in the repository at the pinned commit. Each has one question set and one resolution
set."""
NAMED_BY_ADDRESS = ("polymarket", "kalshi")
"""Markets whose URL ends with a name. On Kalshi it is the event's, which the markets on its outcomes share; on
Polymarket it is the market's own, which the sources `polymarket` and `halawi` use too."""
LEFT_OUT = ("metaculus",)
"""Metaculus requires written permission to use its data to evaluate a model."""


@validate_call
def forecastbench(skipped: Skipped, known_after: date | None, *, location: str = LOCATION) -> Iterator[Row]:
    """Read all resolved binary questions of the rounds, as rows of `forecasting`."""
    for due in ROUNDS:
        if known_after is None or date.fromisoformat(due) >= known_after:
            yield from round_rows(due, skipped, location)


def round_rows(due: str, skipped: Counter[str], location: str = LOCATION) -> Iterator[Row]:
    """Read the questions of the round that was due on a day, written as 2026-05-10."""
    try:
        yield from keep_rows(_round(due, skipped, location), skipped)
    except (LookupError, TypeError, AttributeError) as error:
        raise BadInput(
            f"ForecastBench, round {due}: not in the shape that was published at {COMMIT[:7]} "
            f"({type(error).__name__}: {error}); read that commit"
        ) from None


def _round(due: str, skipped: Counter[str], location: str) -> Iterator[Record]:
    resolved = _read(f"{location}/resolution_sets/{due}_resolution_set.json")
    asked = _read(f"{location}/question_sets/{resolved['question_set']}")
    # A combination of questions has a list of ids.
    rows = {(row["source"], row["id"]): row for row in asked["questions"] if isinstance(row["id"], str)}
    resolutions = [row for row in resolved["resolutions"] if isinstance(row["id"], str)]
    skipped["combinations of questions"] += len(resolved["resolutions"]) - len(resolutions)
    pairs = [(rows.get((resolution["source"], resolution["id"])), resolution) for resolution in resolutions]
    data_end = max((outcome["resolution_date"] for row, outcome in pairs if row and _is_market(row)), default=due)
    for row, resolution in pairs:
        why = _unusable(due, data_end, row, resolution)
        place = f"ForecastBench, round {due}, question {resolution['id']}"
        if why or row is None:
            yield place, why or "not in the question set"
        else:
            yield place, _row(due, row, resolution["resolution_date"], "yes" if resolution["resolved_to"] else "no")


def _unusable(due: str, data_end: str, row: dict[str, Any] | None, resolution: dict[str, Any]) -> str | None:
    if resolution["source"] in LEFT_OUT:
        return "of Metaculus, whose terms ask for written permission"
    if not resolution["resolved"]:
        return "not resolved"
    if resolution["resolved_to"] not in (0, 1):
        return "resolved to something between yes and no"
    if resolution["resolution_date"] <= due:
        return "resolved by the day on which they are asked"
    late = row and _is_market(row) and row["market_info_close_datetime"][:10] > data_end
    return "markets to close after the data end" if late else None


def _row(due: str, row: dict[str, Any], resolves: str, outcome: str) -> dict[str, Any]:
    market = _is_market(row)
    dates = {"{forecast_due_date}": due, "{resolution_date}": resolves}
    names = ("question", "resolution_criteria", "market_info_resolution_criteria", "background")
    text, criteria, rules, background = (_filled(row[name], dates) for name in names)
    value, meaning = row["freeze_datetime_value"], row["freeze_datetime_value_explanation"]
    last = "" if market else f"On {row['freeze_datetime'][:10]} the value was {value}. {meaning}"
    identity = f"forecastbench-{due}-{row['source']}-{row['id']}" + ("" if market else f"-{resolves}")
    return {
        "id": identity,
        "question": text,
        "proposition": statement(text.split("\n")[0]),
        "background": "\n\n".join(part for part in (background, last) if part) or None,
        "criteria": "\n\n".join(part for part in (criteria, rules) if part) or NO_CRITERIA,
        "opened_on": due,
        "known_on": resolves,
        "outcome": outcome,
        "event": _event(row),
        "field": row["source"],
        "recorded": row["url"],
        "crowd": _crowd(value) if market else None,
    }


def _is_market(row: dict[str, Any]) -> bool:
    """Whether its value at the freeze date is a crowd's probability: only a data series has a list of days."""
    return not isinstance(row["resolution_dates"], list)


def _event(row: dict[str, Any]) -> str:
    if row["source"] in NAMED_BY_ADDRESS:
        return f"{row['source']}-{row['url'].rstrip('/').rsplit('/', 1)[-1]}"
    return f"forecastbench-{row['source']}-{row['id']}"


def _filled(text: str, dates: dict[str, str]) -> str:
    for name, day in dates.items():
        text = text.replace(name, day)
    return "" if text == "N/A" else text.strip()


def _crowd(value: str) -> float | None:
    try:
        crowd = float(value)
    except ValueError:
        return None  # the benchmark writes N/A if the market had no price
    return None if math.isnan(crowd) else crowd


def _read(address: str) -> Any:  # noqa: ANN401 (JSON)
    path = Path(address)
    if is_url(address):
        # The commit is part of the path, so what is in the cache cannot be out of date.
        path = download(address, cache("forecastbench") / COMMIT / address.split("://")[1], None)
    try:
        return read_json(path, "read the published file")
    except BadInput as error:
        if is_url(address):
            path.unlink(missing_ok=True)  # an error page
        raise BadInput(f"ForecastBench: {address} cannot be read ({error}); try again, or {FALLBACK}") from None
