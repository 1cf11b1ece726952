"""Beliefs of many logs in one table: a row for each belief that a scorer recorded."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
import pandas as pd

from truthgym.analysis.tables.answers import SAMPLE, labelled, no_scores, sample_facts, tabulate
from truthgym.analysis.tables.setups import Places, Run, Runs, bare_name, runs

COLUMNS = (*SAMPLE, "scorer", "reason", "stage", "step", "elicitor", "belief", "outcome", "posterior")


def beliefs(logs: Places, *, scorer: str = "martingale") -> pd.DataFrame:
    """Read the beliefs that a scorer recorded. Of several passes with the same options the newest counts."""
    return _beliefs(runs(logs), scorer).copy()


@lru_cache(maxsize=2)
def _beliefs(evals: Runs, scorer: str) -> pd.DataFrame:
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
            details = score.details
            outcome = math.nan if details.get("outcome") is None else float(details["outcome"])
            # without first impressions, which are texts
            recorded = [belief for belief in details.get("beliefs") or [] if belief["stage"] != "view"]
            last = max((_step(belief["stage"]) for belief in recorded), default=0)
            for belief in recorded:
                stage, value = belief["stage"], belief.get("value")
                end = stage == "posterior"
                truth = exact[-1] if end else exact[0] if stage.startswith("prior") else math.nan
                facts_of = (name, belief.get("reason") or "", stage, last + 1 if end else _step(stage))
                yield (*facts, *facts_of, belief["elicitor"], math.nan if value is None else value, outcome, truth)


def _step(stage: str) -> int:
    """The number of a step; 0 of a prior, and of a posterior too."""
    return int(stage.removeprefix("step ")) if stage.startswith("step ") else 0


def _exact(metadata: msgspec.Raw) -> list[float]:
    """The exact beliefs in a question's metadata: before any evidence and after each piece."""
    exact: Any = (msgspec.json.decode(metadata) or {}).get("posterior")
    usable = isinstance(exact, list) and exact and all(isinstance(belief, int | float) for belief in exact)
    return exact if usable else [math.nan]
