"""Arrays of beliefs from the scores of `martingale`: questions x epochs, and questions x epochs x points."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from inspect_ai.scorer import SampleScore

from truthgym.scorers.statistics.instrumented_slope import Floats
from truthgym.scorers.statistics.table import Table, tabulate

ELICITORS = ("self", "token", "judge")
"""Those whose beliefs the score can be of, first the one that is preferred."""


@dataclass(frozen=True)
class BeliefTable:
    """Beliefs of many samples. NaN if one could not be read or was not requested."""

    questions: Table
    """Facts about each question. Its values are the priors of the first elicitor."""
    prior: dict[str, Floats]
    """By elicitor: questions x epochs."""
    posterior: dict[str, Floats]
    path: dict[str, Floats]
    """By elicitor: questions x epochs x points, from prior to posterior."""
    prior_2: Floats
    """The model's prior in a second wording, questions x epochs. NaN where it was not requested."""
    exact: Floats
    """Exact posterior of each question. NaN if unknown."""
    selected: bool
    """Whether the outcomes influenced which questions were asked."""
    domain: list[str]
    """Of each question."""
    share_scored: float
    """Share of the scores with both beliefs of the first elicitor."""
    share_judge: float
    """The same for the judge; NaN without a judge."""
    saw_reasoning: bool
    """Whether any prior was read with the reasoning visible."""
    settings: dict[str, Any]
    """The scorer's arguments that the metrics depend on."""

    @property
    def first(self) -> str:
        """The elicitor of the headline: the model itself if it was asked, otherwise its tokens or the judge."""
        return next((name for name in ELICITORS if name in self.prior), "self")

    @property
    def second(self) -> str | None:
        """The other elicitor if both were asked: its prior is the instrument."""
        return "judge" if {"self", "judge"} <= set(self.prior) else None


def belief_table(scores: list[SampleScore]) -> BeliefTable:
    """Collect the beliefs that `martingale` recorded. The list may be empty or, during a run, incomplete.

    Args:
        scores: Unreduced scores, one per sample and epoch.
    """
    questions = tabulate(scores, "prior")
    shape = (len(questions.question), questions.values.shape[1])
    row = {identity: i for i, identity in enumerate(questions.question)}
    paths: dict[str, dict[tuple[int, int], list[float]]] = {}
    prior_2 = np.full(shape, np.nan)
    exact = np.full(shape[0], np.nan)
    selected = False
    domain = [""] * shape[0]
    settings: dict[str, Any] = {}
    saw_reasoning = False
    for item in scores:
        metadata = item.score.metadata or {}
        if not metadata.get("beliefs") or not isinstance(metadata.get("epoch"), int):
            continue
        place = (row[str(item.sample_id)], metadata["epoch"] - 1)
        domain[place[0]] = str(metadata.get("domain", ""))
        exact[place[0]] = metadata.get("exact", np.nan)
        selected = selected or bool(metadata.get("selected_by_outcome"))
        settings = metadata.get("settings") or settings
        for name, path in _paths(metadata["beliefs"]).items():
            paths.setdefault(name, {})[place] = path
        for belief in metadata["beliefs"]:
            if belief["stage"] == "prior 2" and belief.get("value") is not None:
                prior_2[place] = belief["value"]
        saw_reasoning = saw_reasoning or any(
            belief["saw_reasoning"] and belief["stage"] == "prior" and belief["elicitor"] != "joint"
            for belief in metadata["beliefs"]
        )
    if not set(ELICITORS) & set(paths):
        paths = {"self": {}} | paths
    both = np.isfinite([_number(item, "prior") + _number(item, "posterior") for item in scores])
    judged = np.isfinite([path[0] + path[-1] for path in paths.get("judge", {}).values()])
    return BeliefTable(
        questions=questions,
        prior={name: _ends(shape, cells, 0) for name, cells in paths.items()},
        posterior={name: _ends(shape, cells, -1) for name, cells in paths.items()},
        path={name: _stacked(shape, cells) for name, cells in paths.items() if cells},
        prior_2=prior_2,
        exact=exact,
        selected=selected,
        domain=domain,
        share_scored=float(both.mean()) if both.size else np.nan,
        share_judge=float(judged.mean()) if judged.size else np.nan,
        saw_reasoning=saw_reasoning,
        settings=settings,
    )


def _paths(beliefs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Values from prior to posterior, by elicitor; NaN if a belief could not be read."""
    values: dict[str, list[float]] = {}
    for belief in beliefs:
        if belief["stage"] not in ("view", "prior 2"):
            value = belief.get("value")
            values.setdefault(belief["elicitor"], []).append(np.nan if value is None else float(value))
    return values


def _ends(shape: tuple[int, int], paths: dict[tuple[int, int], list[float]], end: int) -> Floats:
    ends = np.full(shape, np.nan)
    for place, path in paths.items():
        ends[place] = path[end]
    return ends


def _stacked(shape: tuple[int, int], paths: dict[tuple[int, int], list[float]]) -> Floats:
    stacked = np.full((*shape, max(len(path) for path in paths.values())), np.nan)
    for place, path in paths.items():
        stacked[place][: len(path)] = path
    return stacked


def _number(item: SampleScore, key: str) -> float:
    value = item.score.value.get(key) if isinstance(item.score.value, dict) else None
    return float(value) if isinstance(value, int | float) else np.nan
