"""Arrays of beliefs from the scores of `martingale`: questions x epochs, and questions x epochs x points."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from inspect_ai.scorer import SampleScore

from truthgym.scorers.statistics.slopes import Floats
from truthgym.scorers.statistics.table import Table, tabulate

ELICITORS = ("self", "judge", "joint")


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
        """The elicitor of the headline: the model itself if it was asked, otherwise the judge."""
        return "self" if "self" in self.prior or "judge" not in self.prior else "judge"

    @property
    def second(self) -> str | None:
        """The other elicitor if both were asked: its prior is the instrument."""
        return "judge" if {"self", "judge"} <= set(self.prior) else None


def belief_table(scores: list[SampleScore]) -> BeliefTable:
    """Collect the beliefs that `martingale` recorded. Never raises, whatever the list: empty, partial or malformed.

    Args:
        scores: Unreduced scores, one per sample and epoch.
    """
    questions = tabulate(scores, "prior")
    shape = (len(questions.question), questions.values.shape[1])
    row = {identity: i for i, identity in enumerate(questions.question)}
    prior: dict[str, Floats] = {}
    posterior: dict[str, Floats] = {}
    paths: dict[str, dict[tuple[int, int], list[float]]] = {}
    domain = [""] * shape[0]
    judged: list[bool] = []
    settings: dict[str, Any] = {}
    saw_reasoning = False
    for item in scores:
        metadata = item.score.metadata or {}
        epoch = metadata.get("epoch")
        if not isinstance(epoch, int) or not 1 <= epoch <= shape[1]:
            continue
        place = (row[str(item.sample_id)], epoch - 1)
        domain[place[0]] = str(metadata.get("domain", ""))
        recorded = metadata.get("settings")
        settings = recorded if recorded and isinstance(recorded, dict) else settings
        for name, path in _paths(metadata.get("beliefs")).items():
            for ends, value in ((prior, path[0]), (posterior, path[-1])):
                ends.setdefault(name, np.full(shape, np.nan))[place] = value
            paths.setdefault(name, {})[place] = path
            if name == "judge":
                judged.append(bool(np.isfinite(path[0] + path[-1])))
        saw_reasoning = saw_reasoning or _saw(metadata.get("beliefs"))
    both = [np.isfinite(_number(item, "prior") + _number(item, "posterior")) for item in scores]
    return BeliefTable(
        questions=questions,
        prior=prior if {"self", "judge"} & set(prior) else {"self": np.full(shape, np.nan)} | prior,
        posterior=posterior if {"self", "judge"} & set(posterior) else {"self": np.full(shape, np.nan)} | posterior,
        path={name: _stacked(shape, cells) for name, cells in paths.items()},
        domain=domain,
        share_scored=float(np.mean(both)) if both else np.nan,
        share_judge=float(np.mean(judged)) if judged else np.nan,
        saw_reasoning=saw_reasoning,
        settings=settings,
    )


def _paths(beliefs: object) -> dict[str, list[float]]:
    """Values from prior to posterior, by elicitor; NaN if a belief could not be read."""
    values: dict[str, list[float]] = {}
    ends: dict[str, float] = {}
    for belief in _listed(beliefs):
        name, stage = str(belief.get("elicitor")), belief.get("stage")
        value = belief.get("value")
        number = float(value) if isinstance(value, int | float) and 0 <= value <= 1 else np.nan
        if name not in ELICITORS or stage == "view":
            continue
        if stage == "posterior":
            ends[name] = number
        else:
            values.setdefault(name, []).append(number)
    return {name: [*path, ends.get(name, np.nan)] for name, path in values.items()}


def _stacked(shape: tuple[int, int], paths: dict[tuple[int, int], list[float]]) -> Floats:
    longest = max(len(path) for path in paths.values())
    stacked = np.full((*shape, longest), np.nan)
    for place, path in paths.items():
        stacked[place][: len(path)] = path
    return stacked


def _saw(beliefs: object) -> bool:
    priors = [b for b in _listed(beliefs) if b.get("stage") == "prior" and b.get("elicitor") != "joint"]
    return any(b.get("saw_reasoning") for b in priors)


def _listed(beliefs: object) -> list[dict[str, Any]]:
    return [b for b in beliefs if isinstance(b, dict)] if isinstance(beliefs, list | tuple) else []


def _number(item: SampleScore, key: str) -> float:
    value = item.score.value.get(key) if isinstance(item.score.value, dict) else None
    return float(value) if isinstance(value, int | float) else np.nan
