"""Do models differ on the same questions? Paired differences of their scores, with 95 % intervals.

truthgym compare A.eval B.eval
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from truthgym.analysis.tables.markdown import counted, intervals, table
from truthgym.analysis.tables.score_names import BETTER, score_name
from truthgym.analysis.tables.setups import with_setups
from truthgym.datasets.errors import BadInput
from truthgym.evallog.discovery import LogFile
from truthgym.evallog.reader import LogReader
from truthgym.scorers.statistics.paired import Comparison, RunValues, compare_means, compare_slopes

if TYPE_CHECKING:
    from truthgym.evallog.schema import LoggedScore

Scores = Mapping[str, Sequence["LoggedScore"]]
"""The scores of one scorer, one per epoch, by question."""
LABELS = {
    "before": "first log",
    "after": "this log",
    "interval": "95 % interval",
    "mde": "smallest detectable",
    "n": "questions",
}


@dataclass
class Run:
    """The scores of a log."""

    log: LogFile
    values: RunValues
    targets: dict[str, Any] = field(default_factory=dict)
    """By question."""
    scores: dict[str, dict[str, list["LoggedScore"]]] = field(default_factory=dict)
    """By scorer and question, one per epoch."""
    about: dict[str, Any] = field(default_factory=dict)
    """What the beliefs of a scorer are about, if not the proposition."""

    @property
    def model(self) -> str:
        return self.log.header.eval.model


def compare(logs: Sequence[str | Path]) -> pd.DataFrame:
    """Compare runs on the same questions, each with the first one.

    A difference is the mean over the questions that both runs have a number for, epochs averaged first, with an
    interval clustered by `event`. Pairing removes the variance between questions. `martingale` is compared by its slope
    and by the means `excess_movement` and `brier_gain`. If a scorer was run again with the same options, its last pass
    counts; with other options its scores are named `martingale1`, and compared with those of that name. Beliefs about
    the proposition are not compared with those about the model's own answer.

    Args:
        logs: Two or more logs. Questions are the same if their id and target are.

    Returns:
        A row for each run but the first, and score: `log`, `model`, `score`, `better` ("lower", "higher", "0", or ""
        if the scorer declares no direction), `before` and `after` (the mean or slope of the first run, and of this
        one), `difference` (after minus before), `lower`, `upper`, `mde` (the smallest true difference that is detected
        with probability 0.8), `n` (questions used), `shared` (questions in both logs) and `note` (why a slope is not
        identified). NaN if undefined. `attrs["first"]` names the first log and its model, and `attrs["notes"]` the logs
        of versions of a task that do not compare, and those of the same model in the same setup as the first.

    Raises:
        BadInput: Fewer than two logs; a file that is not a log; logs that share no question or no scorer.
    """
    if len(logs) < 2:
        raise BadInput(f"compare: {len(logs)} log; give two or more, as in: truthgym compare A.eval B.eval")
    first, *others = (_read(path) for path in logs)
    rows: list[dict[str, Any]] = []
    notes = [f"WARNING: {run.log.path}: {said}" for run in (first, *others) for said in run.log.reader.omissions]
    for path, run in zip(logs[1:], others, strict=True):
        tasks = [compared.log.header.eval.comparable.rsplit(" ", 1) for compared in (first, run)]
        (task, version), (other_task, other_version) = tasks
        if task == other_task and version != other_version:
            notes.append(
                f"WARNING: {path} is of version {other_version} of {task}, and {logs[0]} of version {version}. "
                "Their scores do not compare: CHANGELOG.md, under 'Task versions', says why."
            )
        if len({(with_setup.model, with_setup.setup) for with_setup in with_setups([first.log, run.log])}) == 1:
            notes.append(
                f"NOTE: {path} is of the same model in the same setup as {logs[0]}: a difference is due to chance or "
                "changed code. To compare models, give a log of another one."
            )
        shared = [question for question, target in first.targets.items() if run.targets.get(question) == target]
        scorers = [name for name in first.scores if name in run.scores and first.about[name] == run.about[name]]
        if not shared or not scorers:
            what = "scorer" if shared else "question"
            raise BadInput(f"{logs[0]} and {path} share no {what}; compare logs of the same questions and scorers")
        before, after = first.values.among(shared), run.values.among(shared)
        for name in scorers:
            if name.rstrip("0123456789") == "martingale":
                compared = _beliefs(name, run.scores[name], first.scores[name], shared, first.values.events)
            else:
                compared = _means(name, after, before)
            for score, better, comparison, note in compared:
                facts = {"log": str(path), "model": run.model, "score": score, "better": better}
                rows.append(facts | comparison.row() | {"shared": len(shared), "note": note})
    frame = pd.DataFrame(rows)
    frame.attrs |= {"notes": notes, "first": f"{logs[0]}, of {first.model}"}
    return frame


def regressions(before: str | Path, after: str | Path) -> pd.DataFrame:
    """What got better or worse between two evals of one task, in versions with the same number.

    Returns:
        The rows of `compare` that declare which end is better, with `verdict`: "better" or "worse" if the 95 % interval
        of the difference excludes 0, else "no difference found".

    Raises:
        BadInput: Another task, or a version of it with another number; else as `compare`.
    """
    tasks = []
    for path in (before, after):
        with LogReader(path) as log:
            tasks.append(log.header.eval.comparable)
    if tasks[0] != tasks[1]:
        raise BadInput(f"{before} is of {tasks[0]} and {after} of {tasks[1]}; compare runs of one version of a task")
    frame = compare([before, after])
    frame = frame[frame["better"].isin(["lower", "higher"])].reset_index(drop=True)
    rise = np.select([frame["lower"] > 0, frame["upper"] < 0], [1, -1], 0)
    gain = rise * np.where(frame["better"] == "higher", 1, -1)
    return frame.assign(verdict=pd.Series(gain).map({1: "better", -1: "worse", 0: "no difference found"}))


def report(frame: pd.DataFrame) -> str:
    """The comparison as a Markdown table, with notes below it."""
    runs = frame.drop_duplicates("log")
    if runs["model"].duplicated().any():  # one model in several logs: only their names tell them apart
        names = {log: f"{model}, {Path(log).name}" for log, model in zip(runs["log"], runs["model"], strict=True)}
        frame = frame.assign(model=frame["log"].map(names))
    columns = ("model", "score", "better", "before", "after", "difference", "interval", "mde", "n")
    shared = frame.drop_duplicates("log")[["model", "shared"]].itertuples(index=False, name=None)
    notes = [f"{model}: {counted(number, 'question')} in both logs." for model, number in shared]
    notes += [f"{row.model}: no {row.score}: {row.note}." for row in frame[frame["note"] != ""].itertuples()]
    warnings = "".join(f"{warning}\n\n" for warning in frame.attrs.get("notes", []))
    head = f"First log: {frame.attrs['first']}.\n\n"
    return warnings + head + table(frame.assign(interval=intervals(frame)), columns, LABELS) + "\n" + "\n".join(notes)


def _read(path: str | Path) -> Run:
    with LogReader(path) as log:
        samples = [sample for _, sample in log.outcomes()]
        run = Run(LogFile(log, 0, 0.0), RunValues.of_samples(samples))
        log.omissions  # noqa: B018  # read before a remote log's copy is removed
        for sample in samples:
            run.targets[str(sample.id)] = sample.target
            for name, score in (sample.scores or {}).items():
                run.scores.setdefault(name, {}).setdefault(str(sample.id), []).append(score)
                run.about[name] = score.details.get("about") or score.details.get("settings", {}).get("about")
    return run


def _means(scorer: str, after: RunValues, before: RunValues) -> Iterator[tuple[str, str, Comparison, str]]:
    """Compare the numbers of a scorer that have a direction; all of them if none has."""
    names = [name for name in before.values if name.startswith(f"{scorer}/") and name in after.values]
    directed = any(before.best[name] for name in names)
    for name in names:
        best = before.best[name]
        if best or not directed:
            key = name.removeprefix(f"{scorer}/")
            yield score_name(scorer, key), BETTER.get(best or "", ""), after.change(before, name), ""


def _beliefs(
    name: str, after: Scores, before: Scores, shared: Sequence[str], events: Mapping[str, str]
) -> Iterator[tuple[str, str, Comparison, str]]:
    """Compare the slope, excess movement and Brier gain of recorded beliefs."""
    from inspect_ai.scorer import SampleScore, Score

    from truthgym.scorers.statistics.martingale import belief_table, table_score
    from truthgym.scorers.statistics.martingale_score import REASONS, brier_gain, movement

    both = [question for question in shared if question in before and question in after]
    recorded = [[(question, score) for question in both for score in scores[question]] for scores in (after, before)]
    tables = [
        belief_table([SampleScore(score=Score(value=math.nan, metadata=s.details), sample_id=q) for q, s in pairs])
        for pairs in recorded
    ]
    slopes = [table_score(table) for table in tables]
    reasons = [REASONS[slope.reason] for slope in slopes if slope.reason]
    yield f"{name}_score", "0", compare_slopes(*slopes), "; ".join(dict.fromkeys(reasons))
    beliefs = [(table.prior[table.first], table.posterior[table.first], table.questions.outcome) for table in tables]
    for figure, better, sides in (
        ("excess_movement", "0", [movement(prior, posterior).excess for prior, posterior, _ in beliefs]),
        ("brier_gain", "higher", [brier_gain(*belief) for belief in beliefs]),
    ):
        second, first = ({q: [float(value)] for q, value in zip(both, side, strict=True)} for side in sides)
        comparison = compare_means(second, first, events)
        if comparison.difference.n:
            yield figure, better, comparison, ""
