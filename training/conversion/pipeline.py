"""One conversion under way: from the samples that a scan lets through to rows, by split."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from truthgym.evallog.discovery import LogFile, Readers
from truthgym.evallog.errors import bad_input
from truthgym.evallog.schema import LoggedSample
from truthgym.training.conversion.config import Settings
from truthgym.training.conversion.filtering import Scan
from truthgym.training.conversion.messages import not_carried
from truthgym.training.conversion.pairs import pair_up
from truthgym.training.conversion.rows import (
    Row,
    Unfit,
    example_row,
    outcome_columns,
    preference_row,
    prompt_row,
    sft_rows,
    step_row,
    unpaired_rows,
    with_images_apart,
)
from truthgym.training.conversion.selection import Candidate, Selection, better_half, choose, hold_out

Progress = Callable[[float], None]
"""Told now and then which share of the work is done, from 0 to 1."""
OFTEN = 200
"""Samples after which progress is told: to draw a bar takes longer than to read a sample."""


def rows_of_logs(scan: Scan, settings: Settings, progress: Progress) -> Iterator[tuple[str, Row]]:
    """All rows of a conversion, with the split of the dataset that each goes to.

    Raises:
        BadInput: A score or sample that cannot be used, or nothing to validate on.
    """
    with Readers(scan.logs) as readers:
        work = _Work(scan, readers, settings, progress)
        once = settings.rows in ("sft", "steps") and not scan.selection.ranks and settings.validation == "none"
        yield from work.in_one_go() if once else work.in_two_goes()


class _Work:
    def __init__(self, scan: Scan, readers: Readers, settings: Settings, progress: Progress) -> None:
        self.scan, self.readers, self.settings, self.progress = scan, readers, settings, progress
        self._sizes = [max(1, log.size) for log in scan.logs]
        # Of labels a threshold parts the good from the bad: all are kept.
        label_only = settings.rows == "unpaired"
        self._conditions = replace(scan.selection, threshold=None) if label_only else scan.selection
        self._cut: float | None = None

    def in_one_go(self) -> Iterator[tuple[str, Row]]:
        for number in range(len(self.scan.logs)):
            reader = self.readers.of(number)
            for done, (member, sample) in enumerate(reader.samples()):
                if not done % OFTEN:
                    self._tell(number, done / len(reader))
                candidate = self.scan.candidate(number, member, sample)
                if candidate is not None and self._kept([candidate], self._passes):
                    yield from self._written("train", candidate, sample)
            self.scan.fallbacks.update(reader.fallbacks)

    def in_two_goes(self) -> Iterator[tuple[str, Row]]:
        right = self.settings.validation == "gt"  # to validate on, however it was scored
        held = self._kept(list(self._look()), lambda c: self._passes(c) or (right and bool(c.aligned)))
        if not held:
            return
        train, validation = held, list[Candidate]()
        selection = self.scan.selection
        if self.settings.validation != "none":
            train, validation = hold_out(held, selection.splits)
        yield from self._chosen("train", self._kept(train, self._passes), selection)
        if self.settings.validation == "none":
            return
        if right:
            validation = self._kept(validation, lambda c: bool(c.aligned), "held out, and not on the outcome's side")
            if not selection.everything:
                selection = replace(selection, top=1.0, count=None, threshold=None, best_per_question=False)
        empty = True
        for split, row in self._chosen("validation", validation, selection):
            empty = False
            yield split, row
        if empty:
            raise bad_input(
                f"--validation {self.settings.validation}: of {len(validation)} trajectories that were held out no row "
                "is left to validate on; add logs, or use --validation none"
            )

    def _look(self) -> Iterator[Candidate]:
        for number in range(len(self.scan.logs)):
            reader = self.readers.of(number)
            for done, (member, sample) in enumerate(reader.outcomes()):
                if not done % OFTEN:
                    self._tell(number, done / len(reader))
                candidate = self.scan.candidate(number, member, sample)
                if candidate is not None:
                    yield candidate
            self.scan.fallbacks.update(reader.fallbacks)

    def _passes(self, candidate: Candidate) -> bool:
        return self._conditions.passes(candidate.score, candidate.aligned, self.scan.wanted.best)

    def _kept(
        self, candidates: list[Candidate], keeps: Callable[[Candidate], bool], reason: str = "not selected"
    ) -> list[Candidate]:
        kept = [candidate for candidate in candidates if keeps(candidate)]
        self.scan.left_out[reason] += len(candidates) - len(kept)
        return kept

    def _chosen(self, split: str, candidates: list[Candidate], selection: Selection) -> Iterator[tuple[str, Row]]:
        if not candidates:
            return
        if self.settings.rows == "preference":
            yield from self._pairs(split, candidates)
            return
        if self.settings.rows == "unpaired":
            good = self._good(candidates, selection)
            yield from self._read(split, candidates, good)
            return
        if self.settings.rows == "prompts":
            once = list({c.asked: c for c in reversed(candidates)}.values())[::-1]
            self.scan.left_out["samples of questions that are there already"] += len(candidates) - len(once)
            yield from self._read(split, once, None)
            return
        chosen = choose(candidates, selection, self.scan.wanted.best)
        if self.settings.rows == "few_shot":  # the best first: few_shot takes as many as have room
            chosen.sort(key=lambda c: c.score, reverse=self.scan.wanted.best == "highest")
        self.scan.left_out["not selected"] += len(candidates) - len(chosen)
        yield from self._read(split, chosen, None)

    def _good(self, candidates: list[Candidate], selection: Selection) -> set[Candidate]:
        """Those to be labelled as good. The trajectories to train on decide it for those to validate on as well."""
        best = self.scan.wanted.best
        self._cut = selection.threshold if self._cut is None else self._cut
        if self._cut is None:
            good = set(choose(candidates, selection, best)) if selection.ranks else better_half(candidates, best)
            self._cut = (min if best == "highest" else max)(c.score for c in good)
            return good
        return {c for c in candidates if (c.score >= self._cut if best == "highest" else c.score <= self._cut)}

    def _read(self, split: str, chosen: list[Candidate], good: set[Candidate] | None) -> Iterator[tuple[str, Row]]:
        by_log: dict[int, dict[str, Candidate]] = {}
        for candidate in chosen:
            by_log.setdefault(candidate.log, {})[candidate.member] = candidate
        for number, members in by_log.items():
            for member, sample in self.readers.of(number).samples(list(members)):
                label = None if good is None else members[member] in good
                yield from self._written(split, members[member], sample, label)
        self.progress(1.0)

    def _pairs(self, split: str, candidates: list[Candidate]) -> Iterator[tuple[str, Row]]:
        how, best = self.settings, self.scan.wanted.best
        assert best is not None  # a scan that needs a score finds out
        used, unfit = set[Candidate](), dict[Candidate, str]()
        for pair in pair_up(candidates, best, how.pair_by, how.pairs, how.margin):
            better, worse = (self.readers.sample(one.log, one.member) for one in (pair.chosen, pair.rejected))
            try:
                self._refuse_uncarried(better, worse)
                row = preference_row(better, worse, how.reasoning)
                if how.to == "openai" and not (row["chosen"][0]["content"] and row["rejected"][0]["content"]):
                    raise Unfit("pairs that part at a tool call, which OpenAI does not compare")
            except Unfit as reason:
                unfit |= {pair.chosen: str(reason), pair.rejected: str(reason)}
                continue
            used |= {pair.chosen, pair.rejected}
            made = self._traced(row, pair.chosen, better)
            if how.to == "preference":
                made["margin"] = round(pair.margin, 6)
                made |= {f"rejected_{name}": getattr(pair.rejected, name) for name in ("score", "model", "solver")}
                made["rejected_uuid"] = worse.uuid
            yield split, made
        # Samples are counted, not pairs: each is used, or left out for one reason.
        rest = (unfit.get(c, "no pair with another score") for c in candidates if c not in used)
        self.scan.left_out.update(rest)
        self.progress(1.0)

    def _written(
        self, split: str, candidate: Candidate, sample: LoggedSample, good: bool | None = None
    ) -> Iterator[tuple[str, Row]]:
        how = self.settings
        try:
            self._refuse_uncarried(sample)
            match how.rows:
                case "unpaired":
                    made = list(unpaired_rows(sample, bool(good), how.reasoning))
                case "prompts":
                    made = [prompt_row(sample)]
                case "steps":
                    made = [step_row(sample)]
                case "few_shot":
                    made = [example_row(sample, candidate)]
                case _:
                    made = list(sft_rows(sample, how.form, how.reasoning))
        except Unfit as unfit:
            self.scan.left_out[str(unfit)] += 1
            return
        for row in made:
            if how.rows == "few_shot":
                yield split, row
            else:
                yield split, self._traced(row, candidate, sample)

    def _refuse_uncarried(self, *samples: LoggedSample) -> None:
        for sample in samples:
            kind = not_carried(sample)
            if kind:
                raise Unfit(f"trajectories with a {kind} in them")

    def _traced(self, row: Row, candidate: Candidate, sample: LoggedSample) -> Row:
        """A row in the shape of what reads it, with where it comes from."""
        if self.settings.to == "openai":
            return self._for_openai(row, candidate, sample)
        log = self.scan.logs[candidate.log]
        everything = outcome_columns(sample) if self.scan.selection.everything else {}
        return with_images_apart(row) | everything | _trace(log, candidate, sample)

    def _for_openai(self, row: Row, candidate: Candidate, sample: LoggedSample) -> Row:
        from truthgym.training.conversion.openai_format import preference, reinforcement, supervised

        where = f"{self.scan.logs[candidate.log].path}, sample {sample.id}, epoch {sample.epoch}"
        return {"supervised": supervised, "preference": preference, "reinforcement": reinforcement}[
            self.settings.method
        ]({**row, "sample_id": sample.id}, where)

    def _tell(self, log: int, share: float) -> None:
        self.progress((sum(self._sizes[:log]) + share * self._sizes[log]) / sum(self._sizes))


def _trace(log: LogFile, candidate: Candidate, sample: LoggedSample) -> Row:
    header = log.header.eval
    return {
        "log": log.path,
        "eval_id": header.eval_id,
        "task": header.task,
        "sample_id": str(sample.id),
        "sample_uuid": sample.uuid,
        "epoch": sample.epoch,
        "model": candidate.model,
        "solver": candidate.solver,
        "score": None if candidate.score != candidate.score else candidate.score,
        "split": candidate.split,
        "event": candidate.event,
    }
