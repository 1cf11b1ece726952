"""Converts Inspect logs to a dataset for a trainer.

truthgym convert LOGS --to sft --score brier_score --top 0.1 --out data/sft

"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from truthgym.evallog.discovery import LogFile, find_logs
from truthgym.evallog.errors import bad_input
from truthgym.training.conversion.filtering import SampleFilter
from truthgym.training.conversion.options import TOKEN_KINDS, ConversionConfig, Kind, Selection
from truthgym.training.conversion.pipeline import Conversion, Progress
from truthgym.training.conversion.token_rows import token_rows
from truthgym.training.conversion.writer import DatasetFolder, card_text

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
    found, skipped_logs = find_logs(logs, unfinished)
    selection = _of_labels(found, config, selection)
    on_request = selection.ranks or selection.threshold is not None or selection.score is not None
    needs_score = on_request or config.to in TOKEN_KINDS
    needs_score |= config.row_kind not in UNSCORED_KINDS and selection.needs_score
    by_tokens = config.to in TOKEN_KINDS
    samples = SampleFilter(found, selection, needs_score, config.validation, config.any_task, by_tokens)
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
        facts = (
            {
                "kind": config.to,
                "rows": dict(folder.counts),
                "samples": samples.read,
                "left_out": dict(+samples.left_out),
                "selection": selection.non_default() | score,
                "settings": config.non_default(),
                "logs": [log.card_entry() for log in found],
            }
            | ({"warning": warning} if warning else {})
            | ({"unread_as_worst": samples.unread} if by_tokens else {})
        )
        if grader_json:
            folder.add("grader.json", grader_json)
        folder.finish(facts, folder.out.name, card_text(facts, str(out), folder.columns))
    return ConversionResult(
        folder.out, dict(folder.counts), samples.read, samples.left_out, conversion.fallbacks, warning
    )


def resolve_selection(config: ConversionConfig, selection: Selection) -> Selection:
    """The selection with the defaults of the kind of dataset.

    Raises:
        BadInput: It has conditions that the kind does not use.
    """
    conditions = {
        "--top": selection.top,
        "--count": selection.count,
        "--threshold": selection.threshold,
        "--best-per-question": selection.best_per_question or None,
        "--all": selection.everything or None,
    }
    given = {name for name, value in conditions.items() if value is not None}
    if config.to in TOKEN_KINDS:
        if given:
            names = ", ".join(sorted(given))
            raise bad_input(f"--to {config.to}: an advantage compares all trajectories of a question; omit {names}")
        return replace(selection, top=1.0)
    excluded, reason = {
        "preference": ({*conditions}, "pairs are selected by --pairs and --margin"),
        "prompts": ({*conditions}, "every question is taken once, whatever its answers"),
        "unpaired": ({"--best-per-question", "--all"}, "--threshold, or --top and --count, separate good from bad"),
        "few_shot": ({"--all"}, "examples are selected by a score"),
    }.get(config.row_kind, (set[str](), ""))
    if config.row_kind == "unpaired" and "--threshold" in given:
        excluded |= {"--top", "--count"}
    if given & excluded:
        raise bad_input(f"--to {config.to}: {reason}; omit {', '.join(sorted(given & excluded))}")
    takes_all = config.row_kind in ("unpaired", "preference", "steps", "prompts") and not selection.everything
    if takes_all and selection.top is None and selection.count is None:
        return replace(selection, top=1.0)
    if config.row_kind == "few_shot":
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
        problem = (
            f"All {samples.read} samples are of the test split, which is reserved for evaluation; evaluate on another "
            "one (-T split=train) and convert that log"
        )
    elif unscored and unscored == samples.read - of_other_splits:
        problem = samples.score.not_found()
    else:
        reasons = "; ".join(f"{number} {reason}" for reason, number in left_out.items())
        problem = (
            f"--to {config.to}: none of {samples.read} samples is left to convert: {reasons}. Use fewer conditions, or "
            "give other logs"
        )
    return bad_input(problem)
