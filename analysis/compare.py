"""Do models differ on the same questions? Paired differences of their scores, with 95 % intervals.

truthgym compare A.eval B.eval
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from truthgym.analysis.tables.markdown import counted, intervals, table
from truthgym.analysis.tables.score_names import BETTER, score_name
from truthgym.analysis.tables.setups import bare_name, one_line, with_setups
from truthgym.datasets.errors import BadInput
from truthgym.evallog.discovery import LogFile
from truthgym.evallog.header import Results, ScorerResults
from truthgym.evallog.reader import LogReader
from truthgym.scorers.statistics.multiplicity import simultaneous
from truthgym.scorers.statistics.paired import (
    Comparison,
    RunValues,
    compare_means,
    compare_slopes,
    unequally_read,
    without_interval,
)
from truthgym.tasks.domain_task import SCORER_BY_NAME

if TYPE_CHECKING:
    from truthgym.evallog.schema import LoggedScore

Scores = Mapping[str, Sequence["LoggedScore"]]
"""The scores of one scorer, one per epoch, by question."""
LABELS = {
    "before": "first log",
    "after": "this log",
    "interval": "95 % interval",
    "mde": "smallest detectable",
    "n_before": "questions of the first",
    "n_after": "of this",
    "n": "of both",
}
COUNTS = ("n_before", "n_after", "n")
NOT_COMPARED = "not compared"


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
        return one_line(self.log.header.eval.model)


def compare(logs: Sequence[str | Path]) -> pd.DataFrame:
    """Compare runs on the same questions, each with the first one.

    A difference is the mean over the questions that both runs have a number for, epochs averaged first, with an
    interval clustered by `event`. Pairing removes the variance between questions. `martingale` is compared by its slope
    and by the means `excess_movement` and `brier_gain`, `brier` also by `brier_imputed`, in which an answer that could
    not be read counts as the base rate. With several runs the intervals of a score hold at once (Bonferroni). If a
    scorer was run again with the same options, its last pass counts; with other options its scores are named
    `martingale1`, and compared with those of that name. Beliefs about the proposition are not compared with those
    about the model's own answer.

    Args:
        logs: Two or more logs. Questions are the same if their id, target, input and choices are.

    Returns:
        A row for each run but the first, and score: `log`, `model`, `score`, `better` ("lower", "higher", "0", or ""
        if the scorer declares no direction), `before` and `after` (the mean or slope of the first run, and of this
        one), `difference` (after minus before), `lower`, `upper`, `mde` (the smallest true difference that is detected
        with probability 0.8), `n_before` and `n_after` (questions with a number in each run, of those in both logs),
        `n` (in both, which are compared), `shared` (questions in both logs) and `note` (why there is no slope or no
        interval: too few answers could be read, or other shares of them, see `compare_means`). NaN if undefined.
        `attrs["first"]` names the first log and its model, and `attrs["notes"]` what does not compare: questions that
        differ behind one id, other task versions and arguments, and logs of the same model in the same setup.
        `attrs["verdicts"]` has the verdict on each run alone, in words. `attrs["left_out"]` has a sentence for each
        file but the first that is not a log, if two remain.

    Raises:
        BadInput: Fewer than two logs; the first is not a log; logs that share no question, no scorer or no number.
    """
    if folder := next((path for path in logs if Path(path).is_dir()), None):
        raise BadInput(f"{folder} is a folder; give its logs, as in: truthgym compare {folder}/*.eval")
    if len(logs) < 2:
        raise BadInput(f"compare: {len(logs)} log; give two or more, as in: truthgym compare A.eval B.eval")
    readable, left_out = _readable(logs)
    first, *others = (run for _, run in readable)
    facts: list[dict[str, Any]] = []
    comparisons: list[Comparison] = []
    notes = [f"WARNING: {run.log.path}: {said}" for run in (first, *others) for said in run.log.reader.omissions]
    for path, run in zip([path for path, _ in readable[1:]], others, strict=True):
        shared, changed = _same_questions(first, run)
        notes += _differences(first, run, changed)
        scorers = [name for name in first.scores if name in run.scores and first.about[name] == run.about[name]]
        if not shared or not scorers:
            what = "scorer" if shared else "question"
            why = f" ({_named(changed)} is another question in each)" if changed and not shared else ""
            raise BadInput(f"{logs[0]} and {path} share no {what}{why}; compare logs of the same questions and scorers")
        before, after = first.values.among(shared), run.values.among(shared)
        for name in scorers:
            if name.rstrip("0123456789") == "martingale":
                compared = _beliefs(name, run.scores[name], first.scores[name], shared, first.values.events)
            else:
                compared = _means(name, after, before, run, first)
            for score, better, comparison, note in compared:
                row = {"log": str(path), "model": run.model, "score": score, "better": better}
                facts.append(row | {"shared": len(shared), "note": note or comparison.reason})
                comparisons.append(comparison)
    if not facts:
        raise BadInput(
            f"The scorers that the logs share ({', '.join(scorers)}) give no number in both, so there is nothing to "
            "compare; score the logs with one that does: inspect score LOG --scorer truthgym/graded"
        )
    tests = Counter(row["score"] for row, each in zip(facts, comparisons, strict=True) if each.difference.mde > 0)
    rows = [
        row | replace(each, difference=simultaneous(each.difference, tests[row["score"]], each.reach)).row()
        for row, each in zip(facts, comparisons, strict=True)
    ]
    frame = pd.DataFrame(rows)
    frame.attrs["left_out"] = left_out
    frame.attrs["verdicts"] = [said for run in (first, *others) for said in _verdicts(run)]
    frame.attrs |= {"notes": notes, "first": f"{logs[0]}, of {first.model}", "at_once": max(tests.values(), default=0)}
    return frame


def _same_questions(first: Run, run: Run) -> tuple[list[str], list[str]]:
    """The ids of both logs that stand for the same question in each, and those that do not."""
    both = [question for question in first.targets if question in run.targets]
    same = {
        question
        for question in both
        if first.targets[question] == run.targets[question]
        and first.values.asked[question] == run.values.asked[question]
    }
    return [question for question in both if question in same], [question for question in both if question not in same]


def _differences(first: Run, run: Run, changed: Sequence[str]) -> Iterator[str]:
    """What of two runs differs besides the model."""
    base, own = first.log.header.eval, run.log.header.eval
    names = [spec.task_registry_name or spec.task for spec in (base, own)]
    path, other = run.log.path, first.log.path
    if changed:
        yield (
            f"WARNING: {_named(changed)} is another question in {path} than in {other}: its text, its options or its "
            f"target differ. {'These are' if len(changed) > 1 else 'It is'} left out."
        )
    if names[0] != names[1]:
        yield f"NOTE: {path} is of the task {names[1]}, and {other} of {names[0]}."
    elif base.comparable != own.comparable:
        yield (
            f"WARNING: {path} is of version {own.comparable.rpartition(' ')[2]} of {names[0]}, and {other} of version "
            f"{base.comparable.rpartition(' ')[2]}. Their scores do not compare: CHANGELOG.md, under 'Task versions', "
            "says why."
        )
    elif base.task_version != own.task_version:
        yield (
            f"NOTE: {path} is of version {own.task_version} of {names[0]}, and {other} of version {base.task_version}: "
            "an argument has another name or meaning, and scores of the same questions compare."
        )
    named = with_setups([first.log, run.log])
    texts = named[0].texts
    if names[0] == names[1] and (differ := texts.differences(bare_name(own.task), base.task_args, own.task_args)):
        yield f"WARNING: {path} has other task arguments than {other}: {differ}."
    for name, (before, after) in _scored_by(first, run):
        if differ := texts.differences(bare_name(after.scorer), before.params, after.params, ["figures"]):
            yield f"WARNING: {name} has other options in {path} than in {other}: {differ}. Its scores may not compare."
    if len({(each.model, each.setup) for each in named}) == 1:
        yield (
            f"NOTE: {path} is of the same model in the same setup as {other}: a difference is due to chance or "
            "changed code. To compare models, give a log of another model."
        )


def _scored_by(*both: Run) -> Iterator[tuple[str, Sequence[ScorerResults]]]:
    """Each name of a score with the results of the two scorers behind it, where both runs have it."""
    results = [{score.name: score for score in (run.log.header.results or Results()).estimates} for run in both]
    yield from ((name, [scores[name] for scores in results]) for name in results[0] if name in results[1])


def _named(questions: Sequence[str]) -> str:
    """The first three of some ids, and how many more there are."""
    more = len(questions) - 3
    return ", ".join(questions[:3]) + (f" and each of {more} more" if more > 0 else "")


def regressions(before: str | Path, after: str | Path) -> pd.DataFrame:
    """What got better or worse between two evals of one task, in versions with the same number.

    Returns:
        The rows of `compare` that declare which end is better, with `verdict`: "better" or "worse" if the 95 % interval
        of the difference excludes 0, "not compared" without an interval, else "no difference found".

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
    verdict = pd.Series(gain).map({1: "better", -1: "worse", 0: "no difference found"})
    return frame.assign(verdict=verdict.where(frame["lower"].notna(), NOT_COMPARED))


def _verdicts(run: Run) -> Iterator[str]:
    """The verdict of each scorer on this run alone, in words, from its log."""
    results = run.log.header.results
    for score in results.estimates if results else ():
        figures = {name: math.nan if figure.value is None else figure.value for name, figure in score.metrics.items()}
        declaration = SCORER_BY_NAME.get(bare_name(score.scorer))
        if declaration and (sentence := declaration.verdict_in_words(figures)):
            yield f"{run.model} alone, {Path(run.log.path).name}: {sentence}"


def report(frame: pd.DataFrame) -> str:
    """The comparison as a Markdown table, with notes below it."""
    runs = frame.drop_duplicates("log")
    if runs["model"].duplicated().any():  # one model in several logs: only their names tell them apart
        names = {log: f"{model}, {Path(log).name}" for log, model in zip(runs["log"], runs["model"], strict=True)}
        frame = frame.assign(model=frame["log"].map(names))
    columns = ("model", "score", "better", "before", "after", "difference", "interval", "mde", *COUNTS)
    shared = frame.drop_duplicates("log")[["model", "shared"]].itertuples(index=False, name=None)
    notes = [f"{model}: {counted(number, 'question')} in both logs." for model, number in shared]
    without = frame[frame["note"] != ""].assign(
        what=lambda rows: np.where(rows["difference"].isna(), "", "interval for ") + rows["score"]
    )
    notes += [
        f"{model}: no {', '.join(rows['what'])}: {note}." for (model, note), rows in without.groupby(["model", "note"])
    ]
    notes += frame.attrs["verdicts"]
    runs_at_once = frame.attrs["at_once"]
    notes += [
        f"The {runs_at_once} intervals of a score hold at once, in 95 % of comparisons: one alone would be shorter."
    ] * (runs_at_once > 1)
    warnings = "".join(f"{warning}\n\n" for warning in frame.attrs.get("notes", []))
    head = f"First log: {frame.attrs['first']}.\n\n"
    return warnings + head + table(frame.assign(interval=intervals(frame)), columns, LABELS) + "\n" + "\n".join(notes)


def _readable(paths: Sequence[str | Path]) -> tuple[list[tuple[str | Path, Run]], list[str]]:
    """The logs that can be read, with their paths, and a sentence for each other file."""
    runs: list[tuple[str | Path, Run]] = []
    refused: list[BadInput] = []
    for path in paths:
        try:
            runs.append((path, _read(path)))
        except BadInput as error:
            refused.append(error)
            if path == paths[0]:
                raise
    if len(runs) < 2 and refused:
        raise refused[0]
    return runs, [f"Left out: {error}." for error in refused]


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


def _means(
    scorer: str, after: RunValues, before: RunValues, run: Run, first: Run
) -> Iterator[tuple[str, str, Comparison, str]]:
    """Compare the numbers of a scorer that have a direction; all of them if none has."""
    names = [name for name in before.values if name.startswith(f"{scorer}/") and name in after.values]
    directed = any(before.best[name] for name in names)
    for name in names:
        best = before.best[name]
        if best or not directed:
            key = name.removeprefix(f"{scorer}/")
            yield score_name(scorer, key), BETTER.get(best or "", ""), after.change(before, name), ""
            if key == "brier_score" and scorer.rstrip("0123456789") == "brier":
                second, base = _imputed(after, run, first, scorer), _imputed(before, first, run, scorer)
                imputed = f"{scorer}/brier_imputed"
                yield imputed, "lower", compare_means(second, base, before.events, (0, 1), imputed), ""


def _imputed(values: RunValues, run: Run, other: Run, scorer: str) -> dict[str, list[float]]:
    """The Brier scores of a run's questions, that of the base rate for each answer that could not be read.

    As `brier_imputed` of the log; a sample that failed counts too. Of a belief about the own answer, it was wrong.
    """
    numbers = values.values[f"{scorer}/brier_score"]
    own = run.about[scorer] == "own_answer"
    facts = {
        question: [score.details for each in (run, other) for score in each.scores[scorer].get(question, [])]
        for question in numbers
    }
    outcomes = {
        question: 0.0 if own else next((o for detail in details if (o := detail.get("outcome")) is not None), math.nan)
        for question, details in facts.items()
    }
    resolved = [outcome for outcome in outcomes.values() if not math.isnan(outcome)]
    if own:
        answers = [score.details for question in numbers for score in run.scores[scorer].get(question, [])]
        resolved = [float(details.get("outcome") or 0) for details in answers]
    share = sum(resolved) / len(resolved) if resolved else math.nan
    filled = {}
    for question, outcome in outcomes.items():
        rates = [rate for details in facts[question] if (rate := details.get("base_rate")) is not None]
        unread = ((rates[0] if rates else share) - outcome) ** 2
        filled[question] = [unread if math.isnan(number) else number for number in numbers[question]]
    return {question: scores for question, scores in filled.items() if not any(map(math.isnan, scores))}


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
    read = [
        [
            score.value.get("change") is not None and not score.repaired
            for _, score in pairs
            if score.details.get("beliefs")
        ]
        for pairs in recorded
    ]
    shares = [sum(answers) / len(answers) if answers else math.nan for answers in read]
    slopes = [table_score(table) for table in tables]
    reasons = [REASONS[slope.reason] for slope in slopes if slope.reason]
    compared, uneven = compare_slopes(*slopes), unequally_read(*shares)
    if uneven and not reasons:
        compared = replace(compared, difference=without_interval(compared.difference))
    yield f"{name}_score", "0", compared, "; ".join(dict.fromkeys(reasons)) or uneven
    beliefs = [(table.prior[table.first], table.posterior[table.first], table.questions.outcome) for table in tables]
    for figure, better, sides in (
        ("excess_movement", "0", [movement(prior, posterior).excess for prior, posterior, _ in beliefs]),
        ("brier_gain", "higher", [brier_gain(*belief) for belief in beliefs]),
    ):
        second, first = ({q: [float(value)] for q, value in zip(both, side, strict=True)} for side in sides)
        comparison = compare_means(second, first, events, read=shares)
        if comparison.difference.n:
            yield figure, better, comparison, ""
