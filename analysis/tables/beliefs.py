"""Beliefs of many logs in one table: a row for each belief that a scorer recorded."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from truthgym.analysis.tables.answers import SAMPLE, labelled, no_scores, sample_facts, tabulate
from truthgym.analysis.tables.setups import Places, Run, Runs, bare_name, runs

if TYPE_CHECKING:
    import pandas as pd


class _Recorded(msgspec.Struct, gc=False):
    """The part of `scorers.beliefs.record.Belief` that is a column."""

    stage: str
    elicitor: str
    value: float | None = None
    reason: str = ""


class _Details(msgspec.Struct, gc=False):
    """The part of a score's metadata that is needed."""

    beliefs: list[_Recorded] = []
    outcome: float | None = None


class _Exact(msgspec.Struct, gc=False):
    """The exact beliefs in a question's metadata: before any evidence and after each piece."""

    posterior: list[float] = []


DETAILS, EXACT = msgspec.json.Decoder(_Details), msgspec.json.Decoder(_Exact)
COLUMNS = (*SAMPLE, "scorer", "reason", "stage", "step", "elicitor", "belief", "outcome", "posterior")


def beliefs(logs: Places, *, scorer: str = "martingale") -> "pd.DataFrame":
    """Read the beliefs that a scorer recorded. Of several passes with the same options the newest counts."""
    return _beliefs(runs(logs), scorer).copy()


@lru_cache(maxsize=2)
def _beliefs(evals: Runs, scorer: str) -> "pd.DataFrame":
    frame = tabulate(evals, COLUMNS, lambda run: _rows(run, scorer))
    if frame.empty:
        raise no_scores(evals, scorer)
    return frame


def _rows(run: Run, scorer: str) -> Iterator[tuple[Any, ...]]:
    for _, sample in run.log.reader.outcomes():
        scores = {name: score for name, score in labelled(run, sample).items() if bare_name(name) == scorer}
        if not scores:
            continue
        facts = sample_facts(sample)
        exact = _exact(sample.metadata)
        for name, score in scores.items():
            details = DETAILS.decode(score.metadata)
            last = max((_step(belief.stage) for belief in details.beliefs), default=0)
            outcome = math.nan if details.outcome is None else details.outcome
            for belief in details.beliefs:
                if belief.stage == "view":  # a first impression, which is text
                    continue
                end = belief.stage == "posterior"
                truth = exact[-1] if end else exact[0] if belief.stage.startswith("prior") else math.nan
                value = math.nan if belief.value is None else belief.value
                step = last + 1 if end else _step(belief.stage)
                yield (*facts, name, belief.reason, belief.stage, step, belief.elicitor, value, outcome, truth)


def _step(stage: str) -> int:
    """The number of a step; 0 of a prior, and of a posterior too."""
    return int(stage.removeprefix("step ")) if stage.startswith("step ") else 0


def _exact(metadata: msgspec.Raw) -> list[float]:
    try:
        return EXACT.decode(metadata).posterior or [math.nan]
    except msgspec.ValidationError:
        return [math.nan]
