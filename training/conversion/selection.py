"""Selects which of the trajectories in logs to learn from, and pairs them for preference training."""

import csv
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Annotated, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from truthgym.datasets.digests import text_share
from truthgym.evallog.errors import bad_input
from truthgym.scorers.statistics.direction import Best

DEFAULT_TOP = 0.1
"""The share of trajectories that is selected by default, as in TruthSeekingGym."""
VALIDATION_SHARE = 0.1
"""Share of the events that are used for validation if a log has no validation split."""
SPLITS = ("train", "validation", "test")

Validation = Literal["none", "train", "gt"]
PairBy = Literal["epoch", "solver", "model"]
Pairs = Literal["widest", "all"]


class Candidate(NamedTuple):
    """A trajectory that may be selected, without its text."""

    log: int
    """Index of its log."""
    member: str
    """Name of the sample in the log's archive."""
    question: str
    event: str
    split: str
    score: float
    """NaN if no score is needed."""
    aligned: bool | None
    """Whether its belief is on the side of the outcome. None if that is unknown."""
    model: str = ""
    solver: str = ""

    @property
    def question_key(self) -> tuple[str, str]:
        """Identifies the question. Its id alone does not: tasks number their samples from 1."""
        return self.event, self.question


@dataclass(frozen=True)
class Selection:
    """Which trajectories to select. A trajectory must meet every condition.

    Raises:
        BadInput: A value or a combination that is not allowed.
    """

    score: str | None = None
    """"KEY", "SCORER" or "SCORER/KEY" of a number in the log."""
    best: Best | None = None
    """Which end of the score is better. None uses the scorer's own direction."""
    top: Annotated[float, Meta(gt=0, le=1)] | None = None
    """The share of trajectories with the best scores, in (0, 1]."""
    count: Annotated[int, Meta(ge=1)] | None = None
    """At most this many of them."""
    threshold: float | None = None
    """Only scores at least as good as this."""
    best_per_question: bool = False
    """Only the best trajectory of each question."""
    aligned: bool = False
    """Only trajectories whose stated belief is on the side of the outcome."""
    everything: bool = False
    """All trajectories, scored or not, with columns that describe their outcome."""
    trajectories: str | None = None
    """Only those that a .csv file lists by `eval_id`, `sample_id` and `epoch`: see `truthgym.analysis.trajectories`."""
    splits: tuple[str, ...] = ("train",)
    seed: int = 0
    """Seed of the draw among trajectories with equal scores."""

    def __post_init__(self) -> None:
        problems = []
        if "test" in self.splits:
            problems.append(
                "--split test: questions of the test split are reserved for evaluation and are never trained on; use "
                "train, or train,validation"
            )
        elif not self.splits or not {*self.splits} <= {*SPLITS}:
            problems.append(f"--split {','.join(self.splits)}: unknown split; use train, or train,validation")
        if self.threshold is not None and not math.isfinite(self.threshold):
            problems.append(f"--threshold {self.threshold} is not finite; give a number")
        conditions = (self.top, self.count, self.threshold)
        if self.everything and (any(c is not None for c in conditions) or self.best_per_question or self.aligned):
            problems.append("--all takes every trajectory; omit --all, or omit the options that select among them")
        check_fields(self, problems)

    @property
    def ranks(self) -> bool:
        """Whether trajectories are compared with one another, so that all must be read before one is selected."""
        return not self.everything and (self.share < 1 or self.count is not None or self.best_per_question)

    @property
    def needs_score(self) -> bool:
        """Whether a score is needed."""
        conditions = (self.top, self.threshold, self.score)
        return not self.everything and (self.ranks or any(condition is not None for condition in conditions))

    @property
    def share(self) -> float:
        """The share to select: `DEFAULT_TOP` unless another condition is set."""
        if self.top is not None:
            return self.top
        selects = self.everything or self.aligned or self.best_per_question or self.trajectories
        return 1.0 if selects or self.count is not None or self.threshold is not None else DEFAULT_TOP

    def passes(self, score: float, aligned: bool | None, best: Best | None) -> bool:
        """Whether a trajectory meets the conditions that do not depend on other trajectories."""
        if self.aligned and not aligned:
            return False
        return self.threshold is None or as_good(score, self.threshold, best)

    def non_default(self) -> dict[str, object]:
        """The options that differ from their defaults, and the splits and the share in any case, for the card."""
        default = Selection()
        options = {name: value for name, value in vars(self).items() if value != getattr(default, name)}
        share = {"top": self.share} if self.ranks and self.share < 1 else {}
        return options | share | {"splits": list(self.splits)}


def read_trajectories(path: str) -> set[tuple[str, str, int]]:
    """The eval id, sample id and epoch of each trajectory in a file for `Selection.trajectories`."""
    columns = ("eval_id", "sample_id", "epoch")
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            listed = {(row["eval_id"], row["sample_id"], int(row["epoch"])) for row in csv.DictReader(file)}
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise bad_input(
            f"--trajectories {path} cannot be used ({type(error).__name__}: {error}); give a .csv file with the "
            f"columns {', '.join(columns)}, as `python -m truthgym.analysis.trajectories LOGS {path}` writes it"
        ) from None
    if not listed:
        raise bad_input(f"--trajectories {path} lists nothing; write it again with another --filter")
    return listed


def check_fields(options: object, problems: Sequence[str] = ()) -> None:
    """Check the fields of a dataclass against their annotations: `Literal` lists allowed values, `Meta` a range.

    By msgspec, which is loaded anyway: importing pydantic would add 9 MB and 0.1 s to each conversion.
    """
    found = []
    for name, annotation in get_type_hints(type(options), include_extras=True).items():
        value = getattr(options, name)
        try:
            msgspec.convert(value, annotation)
        except msgspec.ValidationError as error:
            kinds = [kind for kind in (annotation, *get_args(annotation)) if get_origin(kind) is Literal]
            allowed = [str(value) for kind in kinds for value in get_args(kind)]
            expected = f"give one of {', '.join(allowed)}" if allowed else str(error).lower()
            found.append(f"{name}={value!r} cannot be used; {expected}")
    if found or problems:
        raise bad_input(". ".join([*found, *problems]))


def as_good(score: float, limit: float, best: Best | None) -> bool:
    """Whether a score is at least as good as a limit."""
    return score <= limit if best == "lowest" else score >= limit


def choose(candidates: Sequence[Candidate], selection: Selection, best: Best | None) -> list[Candidate]:
    """Select by score, keeping the order of the candidates.

    If `best_per_question` is set, the best candidate of each question is selected first. Of the rest, the smaller of
    the share and the count is taken, at least 1. Ties are broken by a seeded draw, not by the order of the log.
    """
    if not selection.ranks:
        return list(candidates)
    sign = -1 if best == "highest" else 1
    shuffled = list(range(len(candidates)))
    random.Random(selection.seed).shuffle(shuffled)
    ranked = sorted(shuffled, key=lambda i: sign * candidates[i].score)
    if selection.best_per_question:
        first: dict[tuple[str, str], int] = {}
        for i in ranked:
            first.setdefault(candidates[i].question_key, i)
        ranked = list(first.values())
    number = math.floor(selection.share * len(ranked) + 1e-9)
    if selection.count is not None:
        number = min(number, selection.count)
    return [candidates[i] for i in sorted(ranked[: max(1, number)])]


def good_candidates(
    train: Sequence[Candidate], validation: Sequence[Candidate], selection: Selection, best: Best | None
) -> set[Candidate]:
    """The candidates to label as good.

    By the threshold if one is set. Otherwise the selected trajectories of `train`, or the better half of all of them,
    are good, and so are the trajectories of `validation` whose score is as good as the worst of these.
    """
    limit = selection.threshold
    if limit is not None:
        return {c for c in (*train, *validation) if as_good(c.score, limit, best)}
    good = set(choose(train, selection, best)) if selection.ranks else better_half(train, best)
    limit = (min if best == "highest" else max)(c.score for c in good)
    return good | {c for c in validation if as_good(c.score, limit, best)}


def better_half(candidates: Sequence[Candidate], best: Best | None) -> set[Candidate]:
    """The candidates with the better scores, about half of them. Candidates with equal scores stay together."""
    middle = median(c.score for c in candidates)
    better = {c for c in candidates if c.score != middle and as_good(c.score, middle, best)}
    ties = [c for c in candidates if c.score == middle]
    if len(ties) == len(candidates):
        raise bad_input(
            f"All {len(candidates)} trajectories have the score {middle:g}, so none is better than another; use "
            "another --score, or a --threshold"
        )
    # The ties go to the side that makes the halves more equal.
    with_ties = len(better) + len(ties)
    more_equal = abs(2 * with_ties - len(candidates)) < abs(2 * len(better) - len(candidates))
    return better.union(ties) if (more_equal and with_ties < len(candidates)) or not better else better


def is_validation_event(event: str) -> bool:
    """Whether an event is used for validation if a log has no validation split: one in ten, by its hash.

    The result does not depend on other events, and is independent of the hash that makes the splits.
    """
    return _hash_share(event) < VALIDATION_SHARE


def split_validation(candidates: Sequence[Candidate], splits: Sequence[str]) -> tuple[list[Candidate], list[Candidate]]:
    """Divide candidates into those for training and those for validation, by event.

    Candidates of other splits than `splits` are for validation. If there are none, one event in ten is, by its hash,
    and at least one.
    """
    validation = [c for c in candidates if c.split not in splits]
    if validation:
        return [c for c in candidates if c.split in splits], validation
    events = {c.event for c in candidates}
    if len(events) < 2:
        raise bad_input(
            f"--validation: all {len(candidates)} trajectories are of {len(events)} event, and validation needs "
            "questions of another one; add logs, or use --validation none"
        )
    chosen = {event for event in events if is_validation_event(event)}
    if not chosen or chosen == events:
        chosen = {min(events, key=_hash_share)}
    return [c for c in candidates if c.event not in chosen], [c for c in candidates if c.event in chosen]


def _hash_share(event: str) -> float:
    return text_share(f"validation {event}")


class Pair(NamedTuple):
    chosen: Candidate
    rejected: Candidate
    margin: float
    """How much better the chosen one's score is, above 0."""


def pair_up(candidates: Sequence[Candidate], best: Best, by: PairBy, pairs: Pairs, margin: float) -> Iterator[Pair]:
    """Pair trajectories of the same question."""
    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in candidates:
        shared = {
            "epoch": (*candidate.question_key, candidate.model, candidate.solver),
            "solver": (*candidate.question_key, candidate.model),
            "model": (*candidate.question_key, candidate.solver),
        }[by]
        groups.setdefault(shared, []).append(candidate)
    for group in groups.values():
        wide = [pair for pair in _pairs_within(group, best, by) if pair.margin >= margin]
        yield from [max(wide, key=lambda pair: pair.margin)] if wide and pairs == "widest" else wide


def _pairs_within(group: Sequence[Candidate], best: Best, by: PairBy) -> Iterator[Pair]:
    for one, other in combinations(group, 2):
        if (by == "solver" and one.solver == other.solver) or (by == "model" and one.model == other.model):
            continue
        difference = one.score - other.score if best == "highest" else other.score - one.score
        if difference:
            yield Pair(one, other, difference) if difference > 0 else Pair(other, one, -difference)
