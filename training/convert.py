"""Converts Inspect logs to a dataset for a trainer.

truthgym convert LOGS --to sft --score brier_score --top 0.1 --out data/sft
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from truthgym.evallog.discovery import UNREADABLE, LogFile, find_logs
from truthgym.evallog.errors import MALFORMED, bad_input, is_bad_input
from truthgym.evallog.reader import LogReader
from truthgym.evallog.schema import LoggedSample, Outcome
from truthgym.training.conversion.options import TOKEN_KINDS, ConversionConfig, Kind, Selection
from truthgym.training.conversion.rows import (
    Row,
    SkipSample,
    check_parts,
    example_row,
    is_broken_call,
    labelled_row,
    outcome_columns,
    preference_row,
    prompt_row,
    sft_rows,
    step_row,
    with_image_column,
)
from truthgym.training.conversion.selection import (
    Candidate,
    SampleFilter,
    choose,
    good_candidates,
    pair_up,
    split_validation,
)
from truthgym.training.conversion.token_rows import token_rows
from truthgym.training.conversion.writer import DatasetFolder, card_text

Progress = Callable[[float], None]
"""Called repeatedly with the share of the work that is done, from 0 to 1."""
PROGRESS_INTERVAL = 200
"""Samples between two calls of `Progress`: drawing a bar takes longer than reading a sample."""

MANY_LABELS = 12
"""Labels from which on all of one side are no chance: 1 in 2,000."""

UNSCORED_KINDS = ("prompts", "steps")
"""Kinds whose trajectories are selected by a score only on request."""
SELECTED_BY_OUTCOME = (
    "{:,} eligible trajectories answer questions that were chosen with their outcomes in view, such as the bundled "
    "events of forecasting. Which of these came true is a choice of the writers: do not train a forecaster on it"
)
BEST_BY_DEFAULT = (
    "no option selects, so these are the best tenth by their score. Training on the best tenth made forecasts worse "
    "where it was measured (docs/training_urns.md): choose with --aligned, --all, --best-per-question or --top"
)
FEW_SHOT_COUNT = 100
"""The most examples for few_shot if no count is given, as in TruthSeekingGym."""

AnyOutcome = TypeVar("AnyOutcome", bound=Outcome)
RowsOfSplit = Iterator[tuple[str, Row]]
"""Rows, each with the split of the dataset that it belongs to: `train` or `validation`."""


@dataclass
class ConversionResult:
    """The result of a conversion."""

    out: Path
    rows: dict[str, int]
    """Rows by split: `train`, and `validation` if it was requested."""
    samples: int
    """Number of samples in the logs."""
    left_out: Counter[str]
    """Number of samples (and logs) that were left out, by reason."""
    fallbacks: Counter[str]
    """Number of samples that Inspect's own reader read, which is slower, by reason."""
    warning: str | None = None
    """Why models should not be trained on these rows."""


def convert(
    logs: Sequence[str | Path],
    to: Kind | ConversionConfig,
    out: str | Path,
    selection: Selection | None = None,
    *,
    unfinished: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ConversionResult:
    """Convert logs to a dataset. If anything fails, nothing is written.

    Args:
        logs: Logs and folders of logs.
        to: The kind of dataset, or the full configuration.
        out: The dataset's folder.
        selection: Which trajectories to take. None is the top tenth by the Brier score, or all of them for the kinds
            that need no score (`prompts`, `steps`) or compare trajectories (`preference`, `unpaired`).
        unfinished: Whether to read logs of runs that never finished.
        overwrite: Whether an earlier dataset may be replaced.
        progress: Called with the share of the work that is done, from 0 to 1.

    Raises:
        BadInput: Logs, scores or options that cannot be used, nothing to convert, or `out` exists.
    """
    config = to if isinstance(to, ConversionConfig) else ConversionConfig(to)
    selection = resolve_selection(config, selection or Selection())
    folder = DatasetFolder(out, config.written_format, overwrite)
    grader_json = None
    if config.to == "openai" and config.method == "reinforcement":
        from truthgym.scorers.graders.openai_export import grader

        grader_json = grader(config.grader or "python_brier")  # before any log is read: the name may be unknown
    log_files, skipped_logs = find_logs(logs, unfinished)
    selection = _of_labels(log_files, config, selection)
    on_request = selection.ranks or selection.threshold is not None or selection.score is not None
    needs_score = on_request or config.to in TOKEN_KINDS
    needs_score |= config.row_kind not in UNSCORED_KINDS and selection.needs_score
    by_tokens = config.to in TOKEN_KINDS
    samples = SampleFilter(log_files, selection, needs_score, config.validation, config.any_task, by_tokens)
    conversion = Conversion(samples, config, progress or (lambda share: None))
    with folder:
        rows = conversion.rows()
        if by_tokens:
            rows = token_rows(list(rows), config.to, str(config.model), samples.score.best)
        for split, row in rows:
            folder.write(split, row)
        samples.left_out.update(skipped_logs)
        samples.left_out["trajectories that --trajectories lists and no log has"] += len(samples.missing)
        if not folder.counts["train"]:
            raise _no_rows(samples, config)
        warnings = [SELECTED_BY_OUTCOME.format(samples.selected_by_outcome)] * bool(samples.selected_by_outcome)
        warnings += [BEST_BY_DEFAULT] * (selection.top is None and selection.share < 1)
        warning = ". Also, ".join(warnings) or None
        score = {"score": samples.score.full_name, "best": samples.score.best} if needs_score else {}
        facts = {
            "kind": config.to,
            "rows": dict(folder.counts),
            "samples": samples.read,
            "left_out": dict(+samples.left_out),
            "selection": selection.non_default() | score,
            "settings": config.non_default(),
            "logs": [log.card_entry() for log in log_files],
            **({"warning": warning} if warning else {}),
            **({"unread_as_worst": samples.unread} if by_tokens else {}),
        }
        if grader_json:
            folder.add("grader.json", grader_json)
        folder.finish(facts, folder.out.name, card_text(facts, str(out), folder.columns))
    return ConversionResult(
        folder.out, dict(folder.counts), samples.read, samples.left_out, conversion.fallbacks, warning
    )


def resolve_selection(config: ConversionConfig, selection: Selection) -> Selection:
    """The selection with the defaults of the kind of dataset."""
    conditions = {
        "--top": selection.top,
        "--count": selection.count,
        "--threshold": selection.threshold,
        "--best-per-question": selection.best_per_question or None,
        "--all": selection.everything or None,
    }
    given = {name for name, value in conditions.items() if value is not None}
    kind = "tokens" if config.to in TOKEN_KINDS else config.row_kind
    excluded, reason = {
        "tokens": ({*conditions}, "an advantage compares all trajectories of a question"),
        "preference": ({*conditions}, "pairs are selected by --pairs and --margin"),
        "prompts": ({*conditions}, "every question is taken once, whatever its answers"),
        "unpaired": ({"--best-per-question", "--all"}, "--threshold, or --top and --count, separate good from bad"),
        "few_shot": ({"--all"}, "examples are selected by a score"),
    }.get(kind, (set[str](), ""))
    if kind == "unpaired" and "--threshold" in given:
        excluded |= {"--top", "--count"}
    if given & excluded:
        raise bad_input(f"--to {config.to}: {reason}; omit {', '.join(sorted(given & excluded))}")
    takes_all = kind in ("tokens", "unpaired", "preference", "steps", "prompts") and not selection.everything
    if takes_all and selection.top is None and selection.count is None:
        return replace(selection, top=1.0)
    if kind == "few_shot":
        return replace(selection, count=selection.count or FEW_SHOT_COUNT, top=selection.share)
    return selection


def _of_labels(logs: Sequence[LogFile], config: ConversionConfig, selection: Selection) -> Selection:
    """The selection for logs of `truthgym/preferences`, whose score is the margin of the label."""
    labels = [log.path for log in logs if log.header.eval.task.endswith("preferences")]
    if not labels:
        return selection
    problem = (
        f"--to {config.to}: it holds labels of pairs; use --to preference"
        if config.to != "preference"
        else "the other logs hold answers; convert them apart"
        if len(labels) < len(logs)
        else f"--score {selection.score}: labels are selected by their margin; use --margin"
        if selection.score
        else None
    )
    if problem:
        raise bad_input(f"{labels[0]}: {problem}")
    return replace(selection, score="preference/margin", best="highest")


def _no_rows(samples: SampleFilter, config: ConversionConfig) -> Exception:
    """The error if there are no rows, with the reasons."""
    left_out = +samples.left_out
    unscored = left_out["samples without a number for the score"]
    of_other_splits = sum(number for reason, number in left_out.items() if "split" in reason)
    if not samples.read:
        problem = f"There are no samples in {len(samples.logs)} logs, such as {samples.logs[0].path}; give others"
    elif len(left_out) == 1 and "test split" in next(iter(left_out)):
        remedy = (
            f"a hash of each id reserves one in five, or the metadata do; convert more samples of {samples.foreign}"
            if samples.foreign
            else "evaluate on another one (-T split=train) and convert that log"
        )
        problem = f"All {samples.read} samples are of the test split, which is reserved for evaluation; {remedy}"
    elif unscored and unscored == samples.read - of_other_splits:
        problem = samples.score.not_found()
    else:
        reasons = "; ".join(f"{number} {reason}" for reason, number in left_out.items())
        problem = (
            f"--to {config.to}: none of {samples.read} samples is left to convert: {reasons}. Use fewer conditions, or "
            "give other logs"
        )
    return bad_input(problem)


class Conversion:
    """One conversion of logs."""

    def __init__(self, samples: SampleFilter, config: ConversionConfig, progress: Progress) -> None:
        self.samples, self.config, self.progress = samples, config, progress
        self.fallbacks: Counter[str] = Counter()
        self._place = ""
        """The sample that is being converted, for errors."""
        self._sizes = [max(1, log.size) for log in samples.logs]
        # For labels, the threshold separates good from bad: trajectories on both sides are kept.
        labels = config.row_kind == "unpaired"
        self._conditions = replace(samples.selection, threshold=None) if labels else samples.selection

    def rows(self) -> RowsOfSplit:
        """All rows."""
        one_pass = self.config.row_kind in ("sft", "steps") and self.config.validation == "none"
        try:
            yield from self.single_pass() if one_pass and not self.samples.selection.ranks else self.two_pass()
        except MALFORMED as error:
            raise bad_input(
                f"{self._place} has a value that cannot be used ({type(error).__name__}: {error}); remove the sample, "
                "or convert other logs"
            ) from error
        finally:
            for log in self.samples.logs:
                log.reader.close()

    def single_pass(self) -> RowsOfSplit:
        """Filter each sample and emit its rows at once."""
        for sample, candidate in self._candidates(partial(LogReader.samples, invalidated=True)):
            if self.filter([candidate], self._passes):
                yield from self.emit("train", candidate, sample)

    def two_pass(self) -> RowsOfSplit:
        """Read all scores first, then the text of the selected trajectories."""
        selection, validation_kind = self.samples.selection, self.config.validation
        candidates = [candidate for _, candidate in self._candidates(partial(LogReader.outcomes, invalidated=True))]
        # `gt` validates on correct trajectories, whatever their score.
        by_truth = validation_kind == "gt"
        candidates = self.filter(candidates, lambda c: self._passes(c) or (by_truth and bool(c.aligned)))
        train, validation = candidates, list[Candidate]()
        if validation_kind != "none" and candidates:
            train, validation = split_validation(candidates, selection.splits)
        train = self.filter(train, self._passes)
        if not train:
            return
        if by_truth:
            validation = self.filter(validation, lambda c: bool(c.aligned), "held out, and not on the outcome's side")

        if self.config.row_kind == "preference":
            emit = self._emit_labelled if self.samples.labelled else self._emit_pairs
            yield from emit("train", train)
            validation_rows = emit("validation", validation)
        else:
            unpaired = self.config.row_kind == "unpaired"
            good = good_candidates(train, validation, selection, self.samples.score.best) if unpaired else None
            yield from self._emit_all("train", self._choose(train, selection), good)
            if by_truth and not selection.everything:
                selection = replace(selection, top=1.0, count=None, threshold=None, best_per_question=False)
            validation_rows = self._emit_all("validation", self._choose(validation, selection), good)

        if validation_kind == "none":
            return
        first = next(validation_rows, None)
        if first is None:
            raise bad_input(
                f"--validation {validation_kind}: the {len(validation)} trajectories that were held out give no row to "
                "validate on; add logs, or use --validation none"
            )
        yield first
        yield from validation_rows

    def filter(
        self, candidates: list[Candidate], passes: Callable[[Candidate], bool], reason: str = "not selected"
    ) -> list[Candidate]:
        """The candidates that pass. The others are counted as left out."""
        passed = [candidate for candidate in candidates if passes(candidate)]
        self.samples.left_out[reason] += len(candidates) - len(passed)
        return passed

    def emit(self, split: str, candidate: Candidate, sample: LoggedSample, good: bool = False) -> RowsOfSplit:
        """The rows of one trajectory. One of which no row can be made is counted as left out."""
        self._place = self._name(candidate.log, candidate.member)
        try:
            check_parts(sample)
            rows = self._rows_of(candidate, sample, good)
        except SkipSample as reason:
            self.samples.left_out[str(reason)] += 1
            return
        self._count_broken_calls(sample)
        columns = self._columns(candidate, sample)
        for row in rows:
            yield split, self._finish(row, columns, candidate, sample)

    def _count_broken_calls(self, *samples: LoggedSample) -> None:
        broken = sum(is_broken_call(message) for sample in samples for message in sample.messages)
        self.samples.left_out["replies with a tool call that could not be parsed"] += broken

    def _rows_of(self, candidate: Candidate, sample: LoggedSample, good: bool) -> list[Row]:
        match self.config.row_kind:
            case "unpaired":
                rows = sft_rows(sample, "prompt-completion", self.config.reasoning)
                return [{**row, "label": good} for row in rows]
            case "prompts":
                return [prompt_row(sample)]
            case "steps":
                return [step_row(sample)]
            case "few_shot":
                return [example_row(sample, candidate)]
            case _:
                return list(sft_rows(sample, self.config.form, self.config.reasoning))

    def _candidates(
        self, read: Callable[[LogReader], Iterable[tuple[str, AnyOutcome]]]
    ) -> Iterator[tuple[AnyOutcome, Candidate]]:
        """All eligible samples, as `read` reads them."""
        for log, file in enumerate(self.samples.logs):
            reader, samples = file.reader, iter(read(file.reader))
            for number in count():
                try:
                    member, sample = next(samples)
                except StopIteration:
                    break
                except Exception as error:
                    if not is_bad_input(error) or len(self.samples.logs) == 1:
                        raise
                    self.samples.left_out[f"{UNREADABLE}, from a damaged sample on: {error}"] += 1
                    break
                if not number % PROGRESS_INTERVAL:
                    self._report(log, number / len(reader))
                self._place = self._name(log, member)
                candidate = self.samples.candidate(log, member, sample)
                if candidate is not None:
                    yield sample, candidate
            self.fallbacks.update(reader.fallbacks)

    def _passes(self, candidate: Candidate) -> bool:
        return self._conditions.passes(candidate.score, candidate.aligned, self.samples.score.best)

    def _choose(self, candidates: list[Candidate], selection: Selection) -> list[Candidate]:
        """Select among candidates what becomes rows. The others are counted as left out."""
        best = self.samples.score.best
        if self.config.row_kind == "unpaired":
            return candidates
        if self.config.row_kind == "prompts":
            first = {candidate.question_key: candidate for candidate in reversed(candidates)}
            selected, reason = [*first.values()][::-1], "samples of a question that is already included"
        else:
            selected, reason = choose(candidates, selection, best), "not selected"
        self.samples.left_out[reason] += len(candidates) - len(selected)
        if self.config.row_kind == "few_shot":  # the best first, because the solver takes as many as fit
            selected.sort(key=lambda c: c.score, reverse=best == "highest")
        return selected

    def _emit_all(self, split: str, candidates: list[Candidate], good: set[Candidate] | None) -> RowsOfSplit:
        by_log: dict[int, dict[str, Candidate]] = {}
        for candidate in candidates:
            by_log.setdefault(candidate.log, {})[candidate.member] = candidate
        for log, members in by_log.items():
            for member, sample in self.samples.logs[log].reader.samples(list(members)):
                candidate = members[member]
                yield from self.emit(split, candidate, sample, good is not None and candidate in good)
        self.progress(1.0)

    def _emit_pairs(self, split: str, candidates: list[Candidate]) -> RowsOfSplit:
        config, best = self.config, self.samples.score.best
        assert best is not None  # the score selector has found it
        used, skipped = set[Candidate](), dict[Candidate, str]()
        for pair in pair_up(candidates, best, config.pair_by, config.pairs, config.margin):
            better, worse = (self._sample(candidate) for candidate in (pair.chosen, pair.rejected))
            try:
                row = self._pair_row(better, worse)
            except SkipSample as reason:
                skipped |= {pair.chosen: str(reason), pair.rejected: str(reason)}
                continue
            self._count_broken_calls(*(s for c, s in ((pair.chosen, better), (pair.rejected, worse)) if c not in used))
            used |= {pair.chosen, pair.rejected}
            rejected = {f"rejected_{name}": getattr(pair.rejected, name) for name in ("score", "model", "solver")}
            columns = self._columns(pair.chosen, better) | {"margin": round(pair.margin, 6), **rejected}
            columns["rejected_uuid"] = worse.uuid
            yield split, self._finish(row, columns, pair.chosen, better)
        # Samples are counted, not pairs: each is used, or left out for one reason.
        rest = (skipped.get(c, "samples without a partner that has another score") for c in candidates if c not in used)
        self.samples.left_out.update(rest)
        self.progress(1.0)

    def _emit_labelled(self, split: str, candidates: list[Candidate]) -> RowsOfSplit:
        """The rows of pairs that a judge labelled, whose score is the signed margin of the first reply."""
        winners = self.filter(candidates, lambda c: c.score != 0, "pairs without a winner")
        if len(winners) >= MANY_LABELS and len({c.score > 0 for c in winners}) == 1:
            side = "first" if winners[0].score > 0 else "second"
            raise bad_input(
                f"All {len(winners)} labels prefer the {side} reply, although the order of the pairs is random: they "
                "say nothing of the replies; label the pairs again with another judge"
            )
        for candidate in self.filter(winners, lambda c: abs(c.score) >= self.config.margin, "labels below --margin"):
            sample = self._sample(candidate)
            row = labelled_row(sample, candidate.score > 0)
            columns = self._columns(candidate, sample) | {"margin": abs(candidate.score)}
            yield split, self._finish(row, columns, candidate, sample)
        self.progress(1.0)

    def _sample(self, candidate: Candidate) -> LoggedSample:
        self._place = self._name(candidate.log, candidate.member)
        ((_, sample),) = self.samples.logs[candidate.log].reader.samples([candidate.member])
        return sample

    def _pair_row(self, better: LoggedSample, worse: LoggedSample) -> Row:
        check_parts(better)
        check_parts(worse)
        row = preference_row(better, worse, self.config.reasoning)
        if self.config.to == "openai" and not (row["chosen"][0]["content"] and row["rejected"][0]["content"]):
            raise SkipSample("pairs that diverge at a tool call, which OpenAI does not compare")
        return row

    def _columns(self, candidate: Candidate, sample: LoggedSample) -> Row:
        """The columns that trace a row to its log, and the outcome if every trajectory is taken."""
        run = self.samples.logs[candidate.log].header.eval
        outcome = outcome_columns(sample) if self.samples.selection.everything else {}
        return outcome | {
            "log": self.samples.logs[candidate.log].path,
            "eval_id": run.eval_id,
            "task": run.task,
            "sample_id": str(sample.id),
            "sample_uuid": sample.uuid,
            "epoch": sample.epoch,
            "model": candidate.model,
            "solver": candidate.solver,
            "score": None if math.isnan(candidate.score) else candidate.score,
            "split": candidate.split,
            "event": candidate.event,
        }

    def _finish(self, row: Row, columns: Row, candidate: Candidate, sample: LoggedSample) -> Row:
        """A row in the format of its reader."""
        match self.config.to:
            case "few_shot":
                return row
            case "openai":
                from truthgym.training.conversion.openai_format import preference, reinforcement, supervised

                formats = {"supervised": supervised, "preference": preference, "reinforcement": reinforcement}
                decoded = msgspec.json.decode(msgspec.json.encode({**row, "sample_id": str(sample.id)}))
                return formats[self.config.method](decoded, self._place)
            case "openrlhf":
                return {"input": row["prompt"], "target": row["target"], "datasource": columns["task"]} | columns
            case _:
                return (row if sample.plain else with_image_column(row)) | columns

    def _name(self, log: int, member: str) -> str:
        return f"{self.samples.logs[log].path}: its member {member}"

    def _report(self, log: int, share: float) -> None:
        """Report progress: the logs before this one are done, and a share of this one."""
        self.progress((sum(self._sizes[:log]) + share * self._sizes[log]) / sum(self._sizes))
