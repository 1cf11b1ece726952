"""Decides which samples of logs are eligible for training, and which of them are selected, by their score."""

import csv
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from truthgym.datasets.digests import text_share
from truthgym.datasets.splits import split_of
from truthgym.evallog.discovery import LogFile
from truthgym.evallog.errors import bad_input
from truthgym.evallog.schema import Outcome, QuestionFacts
from truthgym.scorers.statistics.direction import LETTERS, Best, direction, fault_of, worst
from truthgym.training.conversion.options import PairBy, Pairs, Selection, Validation, as_good

DEFAULT_KEY = "brier_score"
VALIDATION_SHARE = 0.1
"""Share of the events that are used for validation if a log has no validation split."""


class Candidate(NamedTuple):
    """A trajectory that may be selected, without its text."""

    log: int
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


class SampleFilter:
    """Checks every sample once, across all logs, and counts those that it leaves out.

    With `unread_as_worst` an answer that was scored stays, however it ended, and one that could not be read has the
    worst number of its score: left out, it would cost nothing to write what cannot be read.
    """

    def __init__(
        self,
        logs: Sequence[LogFile],
        selection: Selection,
        needs_score: bool,
        validation: Validation = "none",
        any_task: bool = False,
        unread_as_worst: bool = False,
    ) -> None:
        self.logs = logs
        self.selection = selection
        self.score = ScoreSelector(selection.score, selection.best)
        self.left_out: Counter[str] = Counter()
        self.unread = 0
        """Samples that have the worst number, since their answer could not be read."""
        self.read = 0
        self.labelled = any(log.header.eval.task.endswith("preferences") for log in logs)
        """Whether the samples are pairs that a judge labelled."""
        self.foreign = ""
        """The last task whose samples are no questions of Truthgym."""
        self.selected_by_outcome = 0
        """Candidates whose questions were chosen with their outcomes in view."""
        self._listed = read_trajectories(selection.trajectories) if selection.trajectories else None
        self.missing = set(self._listed or ())
        """Trajectories that the selection lists and no log had so far."""
        self._needs_score = needs_score
        self._validates = validation != "none"
        self._needs_side = selection.aligned or validation == "gt"
        self._any_task, self._unread_as_worst = any_task, unread_as_worst
        self._seen: set[int] = set()
        self._texts: dict[str, str] = {}
        self._runs = [(self._intern(log.header.eval.model), self._intern(log.solver)) for log in logs]

    def candidate(self, log: int, member: str, sample: Outcome) -> Candidate | None:
        """The sample as a candidate for selection. None if it is not eligible, which is counted."""
        self.read += 1
        if self._listed is not None:
            key = (self.logs[log].header.eval.eval_id, str(sample.id), sample.epoch)
            self.missing.discard(key)
            if key not in self._listed:
                self.left_out["trajectories that --trajectories does not list"] += 1
                return None
        keys = self._keys(log, sample)
        facts = sample.facts
        event, split = self._split(log, sample, facts)
        everything = self.selection.everything
        if not self._seen.isdisjoint(keys):
            reason: str | None = "samples that another log also holds"
        else:
            ended = not (self._unread_as_worst and sample.scores)
            reason = self._wrong_split(split) or (None if everything else _unusable(sample, facts, ended))
        score = self.score.value(sample) if self._needs_score and not reason else math.nan
        if not reason and self._unread_as_worst and math.isnan(score):
            score = self.score.worst(sample)
            self.unread += not math.isnan(score)
        if not reason and self._needs_score and math.isnan(score) and not everything:
            # Not marked as seen: another copy of the log may have the number, if `inspect score` was run on it.
            self.left_out["samples without a number for the score"] += 1
            return None
        self._seen.update(keys)
        side = on_correct_side(sample) if self._needs_side else None
        if not reason and self.selection.aligned and side is None:
            reason = "samples with an unknown belief or outcome"
        if reason:
            self.left_out[reason] += 1
            return None
        question = (facts.question if facts else None) or str(sample.id)
        self.selected_by_outcome += bool(facts and facts.selected_by_outcome)
        model, solver = self._runs[log]
        return Candidate(log, member, self._intern(question), self._intern(event), split, score, side, model, solver)

    def _keys(self, log: int, sample: Outcome) -> tuple[int, ...]:
        """Identify a sample across logs, by hashes to save memory."""
        run_key = hash((self.logs[log].header.eval.task_id, sample.id, sample.epoch))
        return (run_key, hash(sample.uuid)) if sample.uuid else (run_key,)

    def _split(self, log: int, sample: Outcome, facts: QuestionFacts | None) -> tuple[str, str]:
        """The sample's event and split. A split that was edited in the log cannot free a test question for training."""
        if facts:
            return facts.event, "test" if _split_of(facts.event) == "test" else facts.split
        task = self.logs[log].header.eval.task
        if not self._any_task:
            raise bad_input(
                f"{self.logs[log].path}: its task {task} is not a Truthgym task, so its samples may have no split that "
                "reserves questions for evaluation; give logs of Truthgym's tasks, or add --any-task to split samples "
                "without one by a hash of their ids"
            )
        self.foreign, event = task, f"{task} {sample.id}"
        named = msgspec.json.decode(sample.metadata).get("split")
        return event, named if named in ("train", "validation", "test") else split_of(event)

    def _wrong_split(self, split: str) -> str | None:
        if split == "test":
            return "questions of the test split, which are reserved for evaluation"
        if split not in self.selection.splits and not (self._validates and split == "validation"):
            return f"questions of the {split if split.isprintable() else ascii(split)} split, which was not requested"
        return None

    def _intern(self, text: str) -> str:
        """The same object for equal texts, to save memory: the epochs of a question share theirs."""
        return self._texts.setdefault(text, text)


_split_of = cache(split_of)


def _unusable(sample: Outcome, facts: QuestionFacts | None, ended: bool = True) -> str | None:
    """Why a sample cannot be learned from. `ended`: also if it ended without an answer, or was cut off."""
    if sample.error:
        return "samples that failed with an error"
    if sample.invalidation is not None:
        return "samples that were invalidated"
    if sample.limit and ended:
        return "samples that a limit cut short"
    if sample.store.ended and ended:
        return "samples whose reasoning ended before its answer"
    if sample.stop_reason in ("max_tokens", "model_length") and ended:
        return "samples whose answer was cut off (max_tokens)"
    if facts and (facts.arm or "neutral") != "neutral":
        return "samples that were told an opinion"
    return None


class ScoreSelector:
    """Finds the score of a given name in the samples of all logs."""

    def __init__(self, name: str | None, best: Best | None) -> None:
        self.name = name
        self.best = best
        self._known: Counter[str] = Counter()
        self._found: tuple[str, str] | None = None
        self._scorers: set[tuple[str, ...]] = set()

    def value(self, sample: Outcome) -> float:
        """The sample's number, NaN if it has none."""
        scores = sample.scores or {}
        scorers = tuple(scores)
        if self._found is not None and scorers in self._scorers:  # the scorers of an earlier sample: a fast path
            value = scores[self._found[0]].value
            number = value.get(self._found[1]) if isinstance(value, dict) else None
            if type(number) is float and math.isfinite(number):
                return number
        all_numbers = _all_numbers(sample)
        self._known.update(name for name, number in all_numbers.items() if math.isfinite(number))
        name = self._match(all_numbers)
        if name is None or not math.isfinite(all_numbers[name]):
            return math.nan
        scorer, key = name.split("/", 1)
        if self._found != (scorer, key):
            self._settle(scorer, key, scores[scorer].details)
        self._scorers.add(scorers)
        return all_numbers[name]

    def worst(self, sample: Outcome) -> float:
        """The worst number of the score, for a sample whose answer could not be read."""
        name = self._match(_all_numbers(sample))
        scorer, _, key = (name or "").partition("/")
        details = sample.scores[scorer].details if name and sample.scores else {}
        if not details.get("reason") or fault_of(details) != "answer":
            return math.nan
        end = self.best or direction(scorer, key, details)
        least = worst(scorer, key, end, details) if end else None
        if least is None:
            raise bad_input(
                f"--score {name}: the answer of sample {sample.id}, epoch {sample.epoch}, could not be read, and the "
                "score has no worst number to give it; choose another --score, such as brier/brier_score"
            )
        return least

    def _match(self, all_numbers: dict[str, float]) -> str | None:
        """The name of the score among those of a sample."""
        wanted = self.name or DEFAULT_KEY
        matches = [name for name in all_numbers if wanted in (name, *name.split("/", 1))]
        if not matches and self.name is None and len(all_numbers) == 1:
            # The only number, unless earlier samples had another one.
            matches = [name for name in all_numbers if self._found in (None, tuple(name.split("/", 1)))]
        matches = [name for name in matches if wanted in (name, name.split("/", 1)[1])] or matches
        if len(matches) > 1:
            raise bad_input(f"--score {wanted} is ambiguous: it may be {', '.join(sorted(matches))}; give one of them")
        return matches[0] if matches else None

    def _settle(self, scorer: str, key: str, metadata: dict[str, Any]) -> None:
        """Record which score was found, and which end of it is better."""
        end = direction(scorer, key, metadata)
        if self.best is None and end is None:
            raise bad_input(
                f"--score {scorer}/{key}: the scorer does not say which end is better; add --best lowest or --best "
                "highest"
            )
        if self._found is not None:
            raise bad_input(
                f"--score {self.name or DEFAULT_KEY} is {'/'.join(self._found)} in one log and {scorer}/{key} in "
                "another; give one of them as SCORER/KEY"
            )
        self.best = self.best or end
        self._found = (scorer, key)

    @property
    def full_name(self) -> str | None:
        """The score that was found, as "SCORER/KEY"."""
        return "/".join(self._found) if self._found else self.name

    def not_found(self) -> str:
        """The error message if no sample has the score: lists those that there are."""
        names = ", ".join(sorted(self._known)) or "none; run `inspect score` on the log, or convert it with --all"
        return f"--score {self.name or DEFAULT_KEY}: no sample has a number of that name. Scores in the logs: {names}"


def finite_numbers(sample: Outcome) -> dict[str, float]:
    """All finite numbers among a sample's scores, by "SCORER/KEY". The key of a single number is its scorer."""
    return {name: number for name, number in _all_numbers(sample).items() if math.isfinite(number)}


def _all_numbers(sample: Outcome) -> dict[str, float]:
    """Like `finite_numbers`, including NaN: the scorer ran on the sample and has no number for it."""
    all_numbers: dict[str, float] = {}
    for scorer, score in (sample.scores or {}).items():
        for key, value in (score.value if isinstance(score.value, dict) else {scorer: score.value}).items():
            number = LETTERS.get(value) if isinstance(value, str) else math.nan if value is None else value
            if isinstance(number, int | float):
                all_numbers[f"{scorer}/{key}"] = float(number)
    return all_numbers


class Recorded(msgspec.Struct, gc=False):
    """What a scorer's metadata say of a belief."""

    belief: Any = None
    outcome: Any = None


RECORDED = msgspec.json.Decoder(Recorded | None)


def on_correct_side(sample: Outcome) -> bool | None:
    """Whether the belief stated in the answer is on the side of the outcome. A belief of 0.5 is on neither."""
    for score in (sample.scores or {}).values():
        recorded = RECORDED.decode(score.metadata)
        belief, outcome = (recorded.belief, recorded.outcome) if recorded else (None, None)
        if isinstance(score.value, dict):  # an edit of the score changes its value, not its metadata
            belief = score.value.get("belief", belief)
        if isinstance(belief, int | float) and isinstance(outcome, int | float) and math.isfinite(belief):
            return bool(abs(belief - outcome) < 0.5)
    return None


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


def choose(candidates: Sequence[Candidate], selection: Selection, best: Best | None) -> list[Candidate]:
    """Select by score, keeping the order of the candidates."""
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
    """The candidates to label as good."""
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
    """Whether an event is used for validation if a log has no validation split: one in ten, by its hash."""
    return _hash_share(event) < VALIDATION_SHARE


def split_validation(candidates: Sequence[Candidate], splits: Sequence[str]) -> tuple[list[Candidate], list[Candidate]]:
    """Divide candidates into those for training and those for validation, by event."""
    validation = [c for c in candidates if c.split not in splits]
    if validation:
        return [c for c in candidates if c.split in splits], validation
    events = {c.event for c in candidates}
    if len(events) < 2:
        raise bad_input(
            f"--validation: all {len(candidates)} trajectories are of {len(events)} event, and validation needs "
            "questions of another one; add logs, or use --validation none"
        )
    held_out = {event for event in events if is_validation_event(event)}
    if not held_out or held_out == events:
        held_out = {min(events, key=_hash_share)}
    return [c for c in candidates if c.event not in held_out], [c for c in candidates if c.event in held_out]


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
    for first, second in combinations(group, 2):
        if (by == "solver" and first.solver == second.solver) or (by == "model" and first.model == second.model):
            continue
        difference = first.score - second.score if best == "highest" else second.score - first.score
        if difference:
            yield Pair(first, second, difference) if difference > 0 else Pair(second, first, -difference)
