"""Convert: Inspect logs in, a dataset out, for every kind of trainer.

    truthgym convert LOGS --to sft --score brier_score --top 0.1 --out data/sft

Logs are read twice: once for what selects (scores, splits, outcomes), once for the text of what was chosen. Where
nothing needs to be compared with anything else, once.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from truthgym.evallog.discovery import find_logs
from truthgym.evallog.errors import bad_input
from truthgym.training.conversion.config import FEW, UNSCORED, Kind, Settings
from truthgym.training.conversion.dataset_card import card_text
from truthgym.training.conversion.filtering import Scan
from truthgym.training.conversion.pipeline import Progress, rows_of_logs
from truthgym.training.conversion.selection import Selection
from truthgym.training.conversion.writer import DatasetFolder


@dataclass
class Converted:
    """What came of a conversion."""

    out: Path
    rows: dict[str, int]
    """Rows by split: `train`, and `validation` where one was asked for."""
    samples: int
    """Samples in the logs that were read."""
    left_out: Counter[str]
    """How many were not taken, by reason."""
    fallbacks: Counter[str]
    """How many were read by Inspect's own reader, by reason: slower, and the same."""


def convert(
    logs: Sequence[str | Path],
    to: Kind | Settings,
    out: str | Path,
    selection: Selection | None = None,
    *,
    unfinished: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Converted:
    """Convert logs to a dataset. Nothing is written unless all of it can be.

    Args:
        logs: Logs and folders of logs.
        to: The kind of dataset, or all settings.
        out: Its folder.
        selection: Which trajectories to take; None is the top tenth by the Brier score (all for kinds that need no
            score, and for those that compare).
        unfinished: Whether to read logs of runs that never finished.
        overwrite: Whether an earlier dataset may be replaced.
        progress: Told now and then which share of the work is done, from 0 to 1.

    Raises:
        BadInput: Logs, scores or settings that cannot be used, nothing left to convert, or `out` is there already.
    """
    settings = to if isinstance(to, Settings) else Settings(to)
    selection = fitting(settings, selection or Selection())
    folder = DatasetFolder(out, settings.file_format, overwrite)
    grades = None
    if settings.to == "openai" and settings.method == "reinforcement":
        from truthgym.scorers.graders.openai_export import grader

        grades = grader(settings.grader or "python_brier")  # before anything is read: it may not be known
    found, left_out = find_logs(logs, unfinished)
    asked = selection.ranks or selection.threshold is not None or selection.score is not None
    needs_score = asked or (settings.rows not in UNSCORED and selection.scores)
    scan = Scan(found, selection, needs_score, settings.validation, settings.any_task)
    with folder:
        for split, row in rows_of_logs(scan, settings, progress or (lambda share: None)):
            folder.write(split, row)
        scan.left_out.update(left_out)
        if not folder.counts["train"]:
            raise _nothing(scan, settings)
        facts = {
            "kind": settings.to,
            "rows": dict(folder.counts),
            "samples": scan.read,
            "left_out": dict(+scan.left_out),
            "selection": selection.said()
            | ({"score": scan.wanted.told, "best": scan.wanted.best} if needs_score else {}),
            "settings": settings.said(),
            "logs": [log.facts() for log in found],
        }
        if grades:
            folder.add("grader.json", grades)
        folder.finish(facts, folder.out.name, card_text(facts, str(out), folder.columns))
    return Converted(folder.out, dict(folder.counts), scan.read, scan.left_out, scan.fallbacks)


def fitting(settings: Settings, selection: Selection) -> Selection:
    """The selection as it is usual for the kind.

    Raises:
        BadInput: It asks for what the kind has no use for.
    """
    ranked = selection.top is not None or selection.count is not None or selection.best_per_question
    if settings.rows == "preference" and (ranked or selection.threshold is not None or selection.everything):
        raise bad_input(
            f"--to {settings.to}: pairs are chosen by --pairs and --margin; leave out --top, --count, --threshold, "
            "--best-per-question and --all"
        )
    if settings.rows == "prompts" and (ranked or selection.threshold is not None or selection.everything):
        raise bad_input(
            f"--to {settings.to}: it takes each question once, whatever was answered; leave out what selects"
        )
    both = selection.threshold is not None and (selection.top is not None or selection.count is not None)
    if settings.rows == "unpaired" and (selection.best_per_question or selection.everything or both):
        raise bad_input(
            "--to unpaired: --threshold, or else --top or --count, parts the good from the bad; leave out the rest"
        )
    takes_all = settings.rows in ("unpaired", "preference", "steps", "prompts") and not selection.everything
    if takes_all and selection.top is None and selection.count is None:
        return replace(selection, top=1.0)  # these take all: what they compare is worth as much as what is best
    if settings.rows == "few_shot":
        if selection.everything:
            raise bad_input("--to few_shot: examples are chosen by a score; leave out --all")
        return replace(selection, count=selection.count or FEW, top=selection.share)
    return selection


def _nothing(scan: Scan, settings: Settings) -> Exception:
    """The error where no row came of it: what was wanting, with what there was."""
    left = {reason: number for reason, number in scan.left_out.items() if number}
    if not scan.read:
        return bad_input(f"There is no sample in {len(scan.logs)} logs, such as {scan.logs[0].path}; give others")
    if len(left) == 1 and "test split" in next(iter(left)):
        return bad_input(
            f"All {scan.read} samples are of the test split, which is kept for evaluation; evaluate on another one "
            "(-T split=train) and convert that log"
        )
    if left.get("no number for the score") == scan.read - sum(n for r, n in left.items() if "split" in r):
        return bad_input(scan.wanted.missing())
    told = "; ".join(f"{number} {reason}" for reason, number in left.items())
    return bad_input(
        f"--to {settings.to}: of {scan.read} samples nothing is left to convert: {told}. Select less, or give others"
    )
