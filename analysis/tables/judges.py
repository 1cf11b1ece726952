"""Ratings of many logs in one table: a row for each answer and judge that rated it."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from truthgym.analysis.tables.answers import SAMPLE, labelled, no_scores, sample_facts, tabulate
from truthgym.analysis.tables.setups import Places, Run, bare_name, runs

if TYPE_CHECKING:
    import pandas as pd


class Record(msgspec.Struct, gc=False):
    """The part of a judge's record that is a column."""

    judge: str
    ratings: list[list[list[float] | None]] = []
    """Rounds x orders x qualities, from 0 to 100."""


class Details(msgspec.Struct, gc=False):
    judges: list[Record] = []


DETAILS = msgspec.json.Decoder(Details)
COLUMNS = (*SAMPLE, "scorer", "judge", "rating")


def judges(logs: Places, *, scorer: str = "qualitative") -> "pd.DataFrame":
    """Read the ratings of every judge of a scorer."""
    evals = runs(logs)
    frame = tabulate(evals, COLUMNS, lambda run: _rows(run, scorer))
    if frame.empty:
        raise no_scores(evals, scorer)
    return frame


def _rows(run: Run, scorer: str) -> Iterator[tuple[Any, ...]]:
    for _, sample in run.log.reader.outcomes():
        for known, score in labelled(run, sample).items():
            if bare_name(known) != scorer:
                continue
            times = Counter[str]()
            for record in DETAILS.decode(score.metadata).judges:
                times[record.judge] += 1
                again = f" ({times[record.judge]})" * (times[record.judge] > 1)  # one model with other arguments
                numbers = [number for row in record.ratings for one in row for number in one or []]
                mean = sum(numbers) / len(numbers) / 100 if numbers else math.nan
                yield (*sample_facts(sample), known, record.judge + again, mean)
