"""The first look at logs: which of their samples may be learned from, and why the others may not."""

import math
from collections import Counter
from collections.abc import Sequence

from truthgym.evallog.discovery import LogFile
from truthgym.evallog.errors import bad_input
from truthgym.evallog.schema import Outcome
from truthgym.training.conversion.scored import WantedScore, aligned
from truthgym.training.conversion.selection import Candidate, Selection, Validation


class Scan:
    """Looks at every sample once, whatever log it is in, and counts what it leaves out.

    What a sample needs to pass: a question with a split that is asked for, never the test split; no error, limit,
    invalidation or early end; an answer that was not cut off; no opinion told (`truthgym/sycophancy`); a number for the
    score where one is needed. With `selection.everything` all pass but those of other splits.
    """

    def __init__(
        self,
        logs: Sequence[LogFile],
        selection: Selection,
        needs_score: bool,
        validation: Validation = "none",
        any_task: bool = False,
    ) -> None:
        self.logs = logs
        self.selection = selection
        self.wanted = WantedScore(selection.score, selection.best)
        self.left_out: Counter[str] = Counter()
        self.read = 0
        self.fallbacks: Counter[str] = Counter()
        self._needs_score = needs_score
        self._validates = validation != "none"
        self._gt = validation == "gt"
        self._any_task = any_task
        self._seen: set[int] = set()
        self._texts: dict[str, str] = {}
        self._runs = [(self._one(log.header.eval.model), self._one(log.solver)) for log in logs]

    def candidate(self, log: int, member: str, sample: Outcome) -> Candidate | None:
        """What the sample is to the selection; None where it is left out, which is counted.

        Raises:
            BadInput: A sample of another project's task, or a score that cannot be understood.
        """
        self.read += 1
        keys = self._keys(log, sample)
        event, split = self._event(log, sample)
        if not self._seen.isdisjoint(keys):
            reason: str | None = "samples that another log holds too"
        else:
            reason = self._outside(split) or (None if self.selection.everything else _unusable(sample))
        score = self.wanted.of(sample) if self._needs_score and not reason else math.nan
        if not reason and self._needs_score and score != score and not self.selection.everything:
            # Not seen: `inspect score` may have left a copy of the log that has the number.
            self.left_out["no number for the score"] += 1
            return None
        self._seen.update(keys)
        if reason:
            self.left_out[reason] += 1
            return None
        side = aligned(sample) if self.selection.aligned or self._gt else None
        if self.selection.aligned and side is None:
            self.left_out["belief or outcome not known"] += 1
            return None
        question = (sample.facts.question if sample.facts else None) or sample.id
        model, solver = self._runs[log]
        return Candidate(log, member, self._one(question), self._one(event), split, score, side, model, solver)

    def _keys(self, log: int, sample: Outcome) -> tuple[int, ...]:
        # Hashes, not texts: a log of many samples is not to fill the memory.
        place = hash((self.logs[log].header.eval.task_id, sample.id, sample.epoch))
        return (place, hash(sample.uuid)) if sample.uuid else (place,)

    def _event(self, log: int, sample: Outcome) -> tuple[str, str]:
        """The sample's event and split."""
        if sample.facts is not None:
            return sample.facts.event, sample.facts.split
        if not self._any_task:
            raise bad_input(
                f"{self.logs[log].path}: its samples hold no question of a Truthgym domain (the task is "
                f"{self.logs[log].header.eval.task}), and so no split that keeps questions for evaluation; give logs "
                "of Truthgym's tasks, or say --any-task: then a hash of each sample's id decides its split"
            )
        from truthgym.datasets.question import split_of

        event = f"{self.logs[log].header.eval.task} {sample.id}"
        return event, split_of(event)

    def _outside(self, split: str) -> str | None:
        if split == "test":
            return "questions of the test split, which are kept for evaluation"
        if split not in self.selection.splits and not (self._validates and split == "validation"):
            return f"questions of the {split} split, which is not asked for"
        return None

    def _one(self, text: str) -> str:
        """The same text as one object: the epochs of a question share it."""
        return self._texts.setdefault(text, text)


def _unusable(sample: Outcome) -> str | None:
    if sample.error:
        return "samples that failed with an error"
    if sample.invalidated:
        return "samples that were invalidated"
    if sample.limit:
        return "samples that a limit cut short"
    if sample.ended:
        return "samples whose reasoning ended before its answer"
    if sample.stop_reason in ("max_tokens", "model_length"):
        return "samples whose answer was cut off (max_tokens)"
    if sample.facts and (sample.facts.arm or "neutral") != "neutral":
        return "samples that were told an opinion"
    return None
