"""Selection: which of the trajectories that a log holds are worth learning from."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from statistics import median
from typing import Literal, NamedTuple, get_args

from truthgym.evallog.errors import bad_input
from truthgym.scorers.statistics.direction import Best

TOP = 0.1
"""The share that is taken where nothing else is asked for: TruthSeekingGym's."""
HELD_OUT = 0.1
"""Share of the events that `held_out` puts aside."""
SPLITS = ("train", "validation", "test")

Validation = Literal["none", "train", "gt"]


class Candidate(NamedTuple):
    """A trajectory that may be chosen, without its text."""

    log: int
    """Which of the logs it is in."""
    member: str
    """What the log's reader calls it."""
    question: str
    event: str
    split: str
    score: float
    """NaN where none was asked for."""
    aligned: bool | None
    """Whether its belief is on the side of the outcome. None where that is not known."""
    model: str = ""
    solver: str = ""

    @property
    def asked(self) -> tuple[str, str]:
        """The same for trajectories of one question. An id alone is not: tasks number their samples from 1."""
        return self.event, self.question


@dataclass(frozen=True)
class Selection:
    """What to choose. Every condition that is given must be met."""

    score: str | None = None
    """"KEY", "SCORER" or "SCORER/KEY" of a number in the log."""
    best: Best | None = None
    """Which end of the score is better. None is what the scorer says."""
    top: float | None = None
    """The share of trajectories with the best scores, in (0, 1]."""
    count: int | None = None
    """At most so many of them."""
    threshold: float | None = None
    """Scores as good as this, or better."""
    best_per_question: bool = False
    """Of each question the best one."""
    aligned: bool = False
    """Only those whose stated belief is on the side of the outcome."""
    everything: bool = False
    """All of them, with their outcomes, scored or not."""
    splits: tuple[str, ...] = ("train",)
    seed: int = 0
    """Of the draw among trajectories with equal scores."""

    def __post_init__(self) -> None:
        for split in self.splits:
            if split == "test":
                raise bad_input(
                    "--split test: questions of the test split are kept for evaluation, and nothing learns from them; "
                    "use train, or train,validation"
                )
            if split not in SPLITS:
                raise bad_input(f"Unknown split {split!r}; known: train, validation")
        if not self.splits:
            raise bad_input("No split is asked for; use train, or train,validation")
        if self.top is not None and not 0 < self.top <= 1:
            raise bad_input(f"--top {self.top}: a share is above 0 and at most 1; for a number use --count")
        if self.count is not None and self.count < 1:
            raise bad_input(f"--count {self.count}: give 1 or more")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise bad_input(f"--threshold {self.threshold}: give a number")
        if self.best is not None and self.best not in get_args(Best):
            raise bad_input(f"--best {self.best}: which end is better? Say lowest or highest")
        asked = (self.top, self.count, self.threshold)
        if self.everything and (any(value is not None for value in asked) or self.best_per_question or self.aligned):
            raise bad_input("--all takes every trajectory; leave out what selects among them, or leave out --all")

    @property
    def ranks(self) -> bool:
        """Whether trajectories must be compared with one another, so that all are read before one is chosen."""
        return not self.everything and (self.share < 1 or self.count is not None or self.best_per_question)

    @property
    def scores(self) -> bool:
        """Whether a score is needed."""
        asked = (self.top, self.threshold, self.score)
        return not self.everything and (self.ranks or any(value is not None for value in asked))

    @property
    def share(self) -> float:
        """The share to take: all where something else than the share selects."""
        if self.top is not None:
            return self.top
        selects = self.everything or self.aligned or self.best_per_question
        return 1.0 if selects or self.count is not None or self.threshold is not None else TOP

    def passes(self, score: float, aligned: bool | None, best: Best | None) -> bool:
        """Whether a trajectory meets the conditions that need no other trajectory."""
        if self.aligned and not aligned:
            return False
        if self.threshold is None:
            return True
        return score <= self.threshold if best == "lowest" else score >= self.threshold

    def said(self) -> dict[str, object]:
        """What was asked for, for the card: all that is not as usual."""
        usual = Selection()
        told = {name: value for name, value in vars(self).items() if value != getattr(usual, name)}
        return told | ({"top": self.share} if self.ranks and self.share < 1 else {}) | {"splits": list(self.splits)}


def choose(candidates: Sequence[Candidate], selection: Selection, best: Best | None) -> list[Candidate]:
    """Choose by score, in the order in which the candidates stand.

    First the best of each question where that is asked for, then the smaller of the share and the count of those left,
    1 at least. Among equal scores a draw decides, not the order of the log.

    Args:
        candidates: Those that meet every condition of their own.
        selection: What is asked for.
        best: Which end of the score is better; needed where `selection.ranks`.
    """
    if not selection.ranks:
        return list(candidates)
    sign = -1 if best == "highest" else 1
    drawn = list(range(len(candidates)))
    random.Random(selection.seed).shuffle(drawn)
    ranked = sorted(drawn, key=lambda i: sign * candidates[i].score)
    if selection.best_per_question:
        first: dict[tuple[str, str], int] = {}
        for i in ranked:
            first.setdefault(candidates[i].asked, i)
        ranked = list(first.values())
    number = math.floor(selection.share * len(ranked) + 1e-9)
    if selection.count is not None:
        number = min(number, selection.count)
    return [candidates[i] for i in sorted(ranked[: max(1, number)])]


def better_half(candidates: Sequence[Candidate], best: Best | None) -> set[Candidate]:
    """The candidates with the better scores: about half of them. Equal scores are never parted.

    Raises:
        BadInput: All have the same score.
    """
    middle = median(c.score for c in candidates)
    better = {c for c in candidates if (c.score > middle if best == "highest" else c.score < middle)}
    rest = [c for c in candidates if c.score == middle]
    if len(rest) == len(candidates):
        raise bad_input(
            f"All {len(candidates)} trajectories have the score {middle:g}, and none is better than another; take "
            "another --score, or a --threshold"
        )
    # Those in the middle go where the halves come out more even.
    with_middle = len(better) + len(rest)
    takes = abs(2 * with_middle - len(candidates)) < abs(2 * len(better) - len(candidates))
    return better.union(rest) if (takes and with_middle < len(candidates)) or not better else better


def held_out(event: str) -> bool:
    """Whether an event is put aside for validation where a log has no validation split: one in ten, by its hash.

    Growth and order of a set move none, and it has nothing to do with the hash that makes the splits.
    """
    return _place(event) < HELD_OUT


def hold_out(candidates: Sequence[Candidate], splits: Sequence[str]) -> tuple[list[Candidate], list[Candidate]]:
    """Part candidates into those to train on and those to validate on, by event.

    To validate on are the questions of the validation split, where the log has any and they are not asked for to train
    on; else one event in ten by its hash, and at least one.

    Raises:
        BadInput: All are of one event.
    """
    aside = [c for c in candidates if c.split not in splits]
    if aside:
        return [c for c in candidates if c.split in splits], aside
    events = {c.event for c in candidates}
    if len(events) < 2:
        raise bad_input(
            f"--validation: all {len(candidates)} trajectories are of {len(events)} event, and validation needs "
            "questions of another one; add logs, or use --validation none"
        )
    chosen = {event for event in events if held_out(event)}
    if not chosen or chosen == events:
        chosen = {min(events, key=_place)}
    return [c for c in candidates if c.event not in chosen], [c for c in candidates if c.event in chosen]


def _place(event: str) -> float:
    return int.from_bytes(sha256(f"validation {event}".encode()).digest()[:8]) / 2**64
