"""ForecastBench: questions of a public, biweekly forecasting benchmark, with the crowd's probability.

Read at run time from the benchmark's own repository at a pinned commit, and kept in a local cache. The data are the
Forecasting Research Institute's, licensed CC BY-SA 4.0.
"""

import json
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import date
from pathlib import Path
from typing import Any, TextIO, cast

from inspect_ai.dataset import Sample

from truthgym.datasets.question import BadInput, Question, question, sample

COMMIT = "4eafa5cdda4d9fbf3542ea9f5f71050b9dd89110"
"""The commit of forecastingresearch/forecastbench-datasets that is read."""
LOCATION = f"https://raw.githubusercontent.com/forecastingresearch/forecastbench-datasets/{COMMIT}/datasets"
# fmt: off
ROUNDS = (
    "2025-03-02", "2025-03-16", "2025-03-30", "2025-04-13", "2025-04-27", "2025-05-11", "2025-05-25", "2025-06-08",
    "2025-06-22", "2025-08-03", "2025-08-17", "2025-08-31", "2025-10-26", "2025-11-09", "2025-11-23", "2025-12-07",
    "2025-12-21", "2026-01-04", "2026-01-18", "2026-02-01", "2026-02-15", "2026-03-01", "2026-03-15", "2026-03-29",
    "2026-04-12", "2026-04-26", "2026-05-10", "2026-05-24", "2026-06-07", "2026-06-21", "2026-07-05", "2026-07-19",
    "2026-08-02", "2026-08-16", "2026-08-30", "2026-09-13", "2026-09-27",
)
# fmt: on
"""Forecast due dates that are read: the rounds seen in the repository at the pinned commit. Each has one question set
and one resolution set."""
MARKETS = ("manifold", "polymarket", "infer")
"""Sources whose value at the freeze date is a crowd probability."""
LEFT_OUT = ("metaculus",)
"""Metaculus asks for written permission before its data are used to evaluate a model."""


class ForecastBenchQuestion(Question, frozen=True):
    """A question of one round at one resolution date."""

    source: str
    """Where the benchmark took it from: a market, or a series of data such as "fred"."""
    opened_on: date
    """The round's forecast due date."""
    url: str


def forecastbench_samples(known_after: date | None = None, location: str = LOCATION) -> list[Sample]:
    """Read all resolved binary questions of the rounds.

    A question of a data series is asked once for each resolution date; these, and its returns in later rounds, share
    an `event`. Left out are questions that have not resolved, or resolved to something between yes and no, combinations
    of questions, those of Metaculus, and markets that were to close after the data end: of these, only the ones that
    resolved early would be seen, and "will it happen by ...?" resolves early to yes alone.

    Args:
        known_after: Read only rounds due on or after this day, whose outcomes were all open then. This also saves
            downloads (about 2 MB a round).
        location: Folder or address that holds `question_sets/` and `resolution_sets/`.

    Raises:
        BadInput: A set cannot be read, or a row is not as the benchmark publishes it.
    """
    rounds = [due for due in ROUNDS if known_after is None or date.fromisoformat(due) >= known_after]
    return [item for due in rounds for item in round_samples(due, location)]


def round_samples(due: str, location: str = LOCATION) -> Iterator[Sample]:
    """Read the questions of the round that was due on a day, written as 2026-05-10."""
    try:
        yield from _round(due, location)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"ForecastBench, round {due}: not in the shape that was published at {COMMIT[:7]} "
            f"({type(error).__name__}: {error}); read that commit"
        ) from None


def _round(due: str, location: str) -> Iterator[Sample]:
    resolved = _read(f"{location}/resolution_sets/{due}_resolution_set.json")
    asked = _read(f"{location}/question_sets/{resolved['question_set']}")
    # A combination of questions has a list of ids.
    rows = {(row["source"], row["id"]): row for row in asked["questions"] if isinstance(row["id"], str)}
    resolutions = [row for row in resolved["resolutions"] if isinstance(row["id"], str)]
    data_end = max((row["resolution_date"] for row in resolutions if row["source"] in MARKETS), default=due)
    for resolution in resolutions:
        row = rows.get((resolution["source"], resolution["id"]))
        outcome = {0.0: "no", 1.0: "yes"}.get(resolution["resolved_to"])
        if row is None or outcome is None or not resolution["resolved"] or row["source"] in LEFT_OUT:
            continue
        if row["source"] in MARKETS and not row["market_info_close_datetime"][:10] <= data_end:
            continue
        yield _sample(due, row, resolution["resolution_date"], outcome)


def _sample(due: str, row: dict[str, Any], resolves: str, outcome: str) -> Sample:
    where = f"ForecastBench, round {due}, question {row['id']}"
    market = row["source"] in MARKETS
    dates = {"{forecast_due_date}": due, "{resolution_date}": resolves}
    text, criteria, background = (
        _filled(row[name], dates) for name in ("question", "resolution_criteria", "background")
    )
    subject = text.split("\n")[0]
    known = question(
        ForecastBenchQuestion,
        where,
        domain="forecasting",
        event=f"forecastbench-{row['source']}-{row['id']}",
        proposition=f"The answer to this question is yes: {subject}",
        known_on=resolves,
        crowd=_crowd(row["freeze_datetime_value"]) if market else None,
        source=row["source"],
        opened_on=due,
        url=row["url"],
    )
    parts = [
        text,
        f"Background: {background}" if background else "",
        f"What counts: {criteria}",
        f"On {row['freeze_datetime'][:10]} the value was {row['freeze_datetime_value']}. "
        f"{row['freeze_datetime_value_explanation']}"
        if not market
        else "",
        f"The question is asked on {due}.",
    ]
    identity = f"forecastbench-{due}-{row['source']}-{row['id']}" + ("" if market else f"-{resolves}")
    return sample(identity, "\n\n".join(part for part in parts if part), outcome, known, where)


def _filled(text: str, dates: dict[str, str]) -> str:
    for name, day in dates.items():
        text = text.replace(name, day)
    return "" if text == "N/A" else text.strip()


def _crowd(value: str) -> float | None:
    try:
        crowd = float(value)
    except ValueError:
        return None  # the benchmark writes N/A where the market had no price
    return None if math.isnan(crowd) else crowd


def _read(address: str) -> dict[str, Any]:
    import fsspec
    from platformdirs import user_cache_dir

    cache = Path(user_cache_dir("truthgym")) / "forecastbench" / COMMIT
    # The commit is part of the address, so what is in the cache cannot be out of date.
    remote = address.startswith("http")
    options = {"filecache": {"cache_storage": str(cache)}} if remote else {}
    try:
        opened = fsspec.open(f"filecache::{address}" if remote else address, "rt", encoding="utf-8", **options)
        with cast(AbstractContextManager[TextIO], opened) as file:
            return cast(dict[str, Any], json.load(file))
    except (OSError, json.JSONDecodeError) as error:
        raise BadInput(
            f"ForecastBench: {address} cannot be read ({type(error).__name__}: {error}); it is downloaded at run time, "
            'so check the network, or use source="bundled"'
        ) from None
