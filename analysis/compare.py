"""Do models differ on the same questions? Paired differences of their scores, with 95 % intervals.

truthgym compare A.eval B.eval
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress
from operator import not_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from truthgym.analysis.tables.answers import SharedRows, categories, fields_of, value_of
from truthgym.analysis.tables.by_category import FEW, few_events
from truthgym.analysis.tables.markdown import UNPRINTABLE, counted, intervals, listed, table
from truthgym.analysis.tables.score_names import BETTER, score_name
from truthgym.analysis.tables.setups import bare_name, names_by_difference, one_line, runs, with_setups
from truthgym.datasets.errors import BadInput
from truthgym.evallog.discovery import LogFile, log_paths
from truthgym.evallog.header import Results, ScorerResults
from truthgym.evallog.reader import LogReader
from truthgym.scorers.preference import NAME as PREFERENCE
from truthgym.scorers.statistics.interval import decimals
from truthgym.scorers.statistics.multiplicity import simultaneous
from truthgym.scorers.statistics.paired import (
    Comparison,
    RunValues,
    compare_means,
    compare_slopes,
    unequally_read,
    without_interval,
)
from truthgym.scorers.statistics.proper_scores import finite_mean
from truthgym.tasks.domain_task import SCORER_BY_NAME

if TYPE_CHECKING:
    from rich.console import RenderableType

    from truthgym.evallog.schema import LoggedScore

Scores = Mapping[str, Sequence["LoggedScore"]]
"""The scores of one scorer, one per epoch, by question."""
LABELS = {
    "setup": "setup",
    "before": "first",
    "after": "this",
    "interval": "95 % interval",
    "mde": "smallest detectable",
    "n_before": "questions of the first",
    "n_after": "of this",
    "n": "of both",
}
NUMBERS = ("before", "after", "difference", "interval", "mde", "n_before", "n_after", "n", "verdict")
NO_DIFFERENCE, NOT_COMPARED = "no difference found", "not compared"
COMPARED = ("score", "better", "compared", "note")
"""What each comparison of two runs by a scorer yields."""
STYLES = {"better": "green", "worse": "red", "higher": "yellow", "lower": "yellow"}
SHARES, FEW_READ = r"^[\d.]+ % and [\d.]+ % of their", "too few, or other shares, of their"
"""What a note says of the answers that could be read, for one pair of runs and for several categories."""
WIDE = 100
"""Columns of a terminal from which the smallest detectable difference is shown."""


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
    served: set[str] = field(default_factory=set)
    """The models that the provider served."""
    kinds: dict[str, str] = field(default_factory=dict)
    """By question, the value of the field that divides them."""
    fields: dict[str, Any] = field(default_factory=dict)
    """What can divide the questions, of one of them."""
    replies: dict[str, str] = field(default_factory=dict)
    """The question of each reply, by its uuid."""
    labels: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of a log of `truthgym/preferences`, by pair and reply: 1 for the one that the judge preferred, 1/2 for a tie."""

    @property
    def model(self) -> str:
        return one_line(self.log.header.eval.model)

    @property
    def task(self) -> str:
        spec = self.log.header.eval
        return one_line((spec.task_registry_name or spec.task).removeprefix("truthgym/"))

    @property
    def estimates(self) -> list[ScorerResults]:
        return (self.log.header.results or Results()).estimates

    def scorers(self, first: "Run") -> list[str]:
        """The scorers that two runs share, without those of beliefs about other things."""
        return [name for name in first.scores if name in self.scores and first.about[name] == self.about[name]]


def compare(logs: Sequence[str | Path], against: str = "", by: str = "") -> pd.DataFrame:
    """Compare runs on the same questions, those of each task with the first one.

    A difference is the mean over the questions that both runs have a number for, epochs averaged first, with an
    interval clustered by `event`. Pairing removes the variance between questions. `martingale` is compared by its slope
    and by the means `excess_movement` and `brier_gain`, `brier` also by `brier_imputed`, in which an answer that could
    not be read counts as the base rate. With several runs the intervals of a score hold at once (Bonferroni), and so do
    those of its categories in all runs. Passes with other options have other names, and beliefs about the proposition
    are not compared with those about the model's own answer. A log of `truthgym/preferences` whose pairs are of two of
    the runs gives their `win_rate`: of the pairs, judged in both orders, a tie counts half for each.

    Args:
        logs: Logs, folders of logs and patterns such as `logs/*.eval`, in any mix. Questions are the same if their
            id, target, input and choices are.
        against: The run with which the others of its task are compared: its name as in `setup`, or a part of that,
            of its model or of its path. "": the first one.
        by: Also compare in each category of the questions, by a field of their metadata such as a column of your
            file.

    A row for each run but the first of a task, category ("" for all questions) and score: `before` and `after` (the
    mean or slope of the first run, and of this one), `difference` (after minus before) with 95 % bounds, `mde` (the
    smallest true difference that is detected with probability 0.8), `n_before`, `n_after` and `n` questions (in both),
    `shared` (questions in both logs), `verdict` and `note` (why there is no slope or no interval). `attrs["notes"]`
    says what does not compare; `attrs["pages"]` has that by first run.
    """
    read, left_out, notes = _read_all(logs, by)
    kinds = categories([kind for run in read for kind in run.kinds.values()], by, read[0].fields) if by else {}
    replies = {reply for run in read for reply in run.replies}
    judged = [run for run in read if any(replies.issuperset(sides) for sides in run.labels.values())]
    groups, alone = _groups([run for run in read if run not in judged], against)
    rows: list[dict[str, Any]] = []
    pages: list[dict[str, Any]] = []
    for names, (first, *others), also in groups:
        pages.append(_page(names, [first, *others]))
        said: dict[str, list[str]] = {}
        for name, run in zip(names[1:], others, strict=True):
            shared, changed = _same_questions(first, run)
            for sentence in _differences(first, run, names[0], changed):
                said.setdefault(sentence, []).append(name)
            who = {"task": first.task, "log": run.log.path, "model": run.model, "setup": name, "against": names[0]}
            who |= {"first_log": first.log.path}
            for row in _compared(first, run, shared, kinds, judged):
                facts = who | row | {"shared": len(shared)}
                rows.append(dict(zip(facts, _clean(facts.values()), strict=True)))
        lines = [line.replace(": ", f": {listed(runs_of)}: ", 1) for line, runs_of in said.items()]
        pages[-1]["notes"] += _clean([*lines, *also])
    if not rows:
        first, run = groups[0][1][:2]
        raise BadInput(
            f"The scorers that the logs share ({', '.join(run.scorers(first))}) give no number in both, so there is "
            "nothing to compare; score the logs with one that does: inspect score LOG --scorer truthgym/graded"
        )
    families = [(row["first_log"], row["score"], bool(row["category"])) for row in rows]
    tests = Counter(key for key, row in zip(families, rows, strict=True) if row["compared"].difference.mde > 0)
    for row, family in zip(rows, families, strict=True):
        each: Comparison = row.pop("compared")
        each = replace(each, difference=simultaneous(each.difference, tests[family], each.reach))
        note, shared = row.pop("note") or each.reason, row.pop("shared")
        last = {"clusters": each.difference.clusters, "shared": shared, "verdict": _verdict(each, row["better"])}
        row |= each.row() | last | {"note": note}
    frame = pd.DataFrame(rows)
    frame.attrs |= {"pages": SharedRows(pages), "left_out": left_out, "by": by, "of_all": _clean([*alone, *notes])}
    frame.attrs["notes"] = [note for page in pages for note in page["notes"]] + frame.attrs["of_all"]
    return frame


def _read_all(places: Sequence[str | Path], by: str) -> tuple[list[Run], list[str], list[str]]:
    """The runs of logs, folders and patterns in their order; what cannot be read; and what of folders is left out."""
    paths: list[str] = []
    logs_read: list[Run] = []
    errors: list[BadInput] = []
    left_out, skipped = list[str](), list[str]()
    for place in map(str, places):
        try:
            if Path(place).is_dir():
                folder = runs([place])
                left_out, skipped = left_out + folder.unreadable, skipped + folder.skipped
                paths += sorted(run.log.path for run in folder)
            else:
                paths += [place] if "://" in place else log_paths([place])
        except BadInput as error:
            if not paths:
                raise
            errors.append(error)
    for path in dict.fromkeys(paths) if len(set(paths)) > 1 else paths:
        try:
            logs_read.append(_read(path, by))
        except BadInput as error:
            if not logs_read:  # the others would be compared with another one than the first
                raise
            errors.append(error)
    if len(logs_read) < 2 and errors:
        raise errors[0]
    if len(logs_read) < 2:
        raise BadInput(
            f"compare: {counted(len(logs_read), 'log')} in {', '.join(map(str, places))}; give two or more, as in: "
            "truthgym compare A.eval B.eval, or a folder with several"
        )
    return logs_read, [*left_out, *(f"Left out: {error}." for error in errors)], skipped


def _groups(every: Sequence[Run], against: str) -> tuple[list[tuple[list[str], list[Run], list[str]]], list[str]]:
    """The runs that are compared, the first one first, with their names and what else differs; and the others."""
    groups: list[list[Run]] = []
    for same_task in (True, False):
        groups = []
        for run in every:
            alike = (group for group in groups if run.task == group[0].task or not same_task)
            if group := next((group for group in alike if _comparable(group[0], run)), None):
                group.append(run)
            else:
                groups.append([run])
        if len(groups) < len(every):
            break
    else:
        shared, changed = _same_questions(*every[:2])
        what = "scorer" if shared else "question"
        why = f" ({_named(changed)} is another question in each)" if changed and not shared else ""
        more = f"; no two of the {len(every)} logs share both" * (len(every) > 2)
        raise BadInput(
            f"{every[0].log.path} and {every[1].log.path} share no {what}{why}{more}; compare logs of the same "
            "questions and scorers"
        )
    alone = [group[0].log.path for group in groups if len(group) == 1]
    compared, names = [], list[str]()
    for group in (group for group in groups if len(group) > 1):
        labels, also = names_by_difference([run.log for run in group], [run.served for run in group])
        note = [f"NOTE: they also differ in {also}."] * bool(also)
        fits = [i for i, run in enumerate(group) if against in (labels[i], run.log.path)] if against else [0]
        fits = fits or [i for i, run in enumerate(group) if against in f"{labels[i]}\n{run.model}\n{run.log.path}"]
        names += labels
        if len(fits) > 1:
            several = "; ".join(labels[i] for i in fits)
            raise BadInput(f"against={against!r} fits {several}; give more of its name or path")
        if fits:
            first = group[fits[0]]
            order = [fits[0], *(i for i, run in enumerate(group) if run is not first and _comparable(first, run))]
            alone += [run.log.path for i, run in enumerate(group) if i not in order]
            compared.append(([labels[i] for i in order], [group[i] for i in order], note))
        else:
            alone += [run.log.path for run in group]
    if not compared:
        raise BadInput(f"against={against!r} fits no run; give the name of a run: {'; '.join(dict.fromkeys(names))}")
    why = f"with no other log of their task{' that fits --against' * bool(against)} they share questions and scorers"
    return compared, [f"NOTE: not compared, since {why}: {_named(alone)}."] * bool(alone)


def _comparable(first: Run, run: Run) -> bool:
    return bool(run.scorers(first) and _same_questions(first, run)[0])


def _page(names: Sequence[str], group: Sequence[Run]) -> dict[str, Any]:
    """What is said of the runs that are compared, but for their differences."""
    others = ", ".join(names[1:]) if len(names) < 5 else f"{len(names) - 1} setups"
    warnings = [f"WARNING: {run.log.path}: {said}" for run in group for said in run.log.reader.omissions]
    one_model = len({run.model for run in group}) == 1
    lines = [f"{name}: {run.log.path}" for name, run in zip(names, group, strict=True)]
    return {
        "first_log": _clean([group[0].log.path])[0],
        "heading": f"{group[0].task}{f' with {group[0].model}' * one_model}: {others} against {names[0]}",
        "logs": _clean(lines),
        "notes": _clean(warnings),
        "verdicts": _clean(said for name, run in zip(names, group, strict=True) for said in _verdicts(name, run)),
    }


def _clean(texts: Iterable[Any]) -> list[Any]:
    """Texts, and whatever is none, without what changes a terminal or the direction of a text."""
    return [UNPRINTABLE.sub(" ", text) if isinstance(text, str) else text for text in texts]


def _compared(
    first: Run, run: Run, shared: Sequence[str], kinds: Mapping[str, str], judged: Sequence[Run]
) -> Iterator[dict[str, Any]]:
    """Compare two runs by all that they share, on all questions and then in each category."""
    parts: dict[str, list[str]] = {"": list(shared)} | {category: [] for category in kinds.values()}
    for question in shared if kinds else ():
        parts[kinds[first.kinds[question] or run.kinds[question]]].append(question)
    for category, questions in parts.items():
        before, after = first.values.among(questions), run.values.among(questions)
        for name in run.scorers(first) if questions else ():
            if name.rstrip("0123456789") == "martingale":
                compared = _beliefs(name, run.scores[name], first.scores[name], questions, first.values.events)
            else:
                compared = _means(name, after, before, run, first)
            for fields in compared:
                yield {"category": category, "scorer": name} | dict(zip(COMPARED, fields, strict=True))
        for judge in judged if questions else ():
            if (wins := _wins(first, run, questions, judge)).n_after:
                name = "win_rate" if len(judged) == 1 else f"win_rate of {judge.model}"
                fields = (name, "higher", wins, "")
                yield {"category": category, "scorer": "preference"} | dict(zip(COMPARED, fields, strict=True))


def _wins(first: Run, run: Run, questions: Collection[str], judge: Run) -> Comparison:
    """Compare the shares of pairs of replies, one of each run, that a judge of both orders decides for each run."""
    pairs: list[dict[str, list[float]]] = [{}, {}]
    for pair, sides in judge.labels.items():
        own = [[win for reply, win in sides.items() if each.replies.get(reply) in questions] for each in (run, first)]
        if [len(wins) for wins in own] == [1, 1]:
            for values, wins in zip(pairs, own, strict=True):
                values[pair] = wins
    own_wins, wins_of_first = pairs
    return compare_means(own_wins, wins_of_first, judge.values.events, (0, 1))


def _verdict(comparison: Comparison, better: str) -> str:
    difference = comparison.difference
    if math.isnan(difference.lower):
        return NOT_COMPARED
    if not difference.sign:
        return NO_DIFFERENCE
    if better in BETTER.values():
        return "better" if (difference.sign > 0) == (better == "higher") else "worse"
    return "higher" if difference.sign > 0 else "lower"


def _same_questions(first: Run, run: Run) -> tuple[list[str], list[str]]:
    """The ids of both logs that stand for the same question in each, and those that do not."""
    both = [question for question in first.targets if question in run.targets]
    asked = [[(each.targets[question], each.values.asked[question]) for question in both] for each in (first, run)]
    same = [before == after for before, after in zip(*asked, strict=True)]
    return list(compress(both, same)), list(compress(both, map(not_, same)))


def _differences(first: Run, run: Run, name: str, changed: Sequence[str]) -> Iterator[str]:
    """What of a run differs from the first one, which has a name, besides the model."""
    base, own = first.log.header.eval, run.log.header.eval
    names = [spec.task_registry_name or spec.task for spec in (base, own)]
    if changed:
        yield (
            f"WARNING: {_named(changed)} is another question than in {name}: its text, its options or its target "
            f"differ. {'These are' if len(changed) > 1 else 'It is'} left out."
        )
    versions = [str(spec.task_version) for spec in (own, base)]
    if names[0] != names[1]:
        yield f"NOTE: of the task {names[1]}, and {name} of {names[0]}."
    elif base.comparable != own.comparable:
        yield (
            f"WARNING: of version {versions[0]} of {names[0]}, and {name} of version {versions[1]}. Their scores do "
            "not compare: CHANGELOG.md, under 'Task versions', says why."
        )
    elif base.task_version != own.task_version:
        yield (
            f"NOTE: of version {versions[0]} of {names[0]}, and {name} of version {versions[1]}: an argument has "
            "another name or meaning, and scores of the same questions compare."
        )
    if base.model == own.model and first.served != run.served:
        served = [", ".join(sorted(each.served)) or "none that it names" for each in (run, first)]
        yield (
            f"WARNING: of {run.model}, the provider served {served[0]} here, and {served[1]} in {name}: a difference "
            "may be that of two models."
        )
    named = with_setups([first.log, run.log])
    texts = named[0].texts
    if names[0] == names[1] and (differ := texts.differences(bare_name(own.task), base.task_args, own.task_args)):
        yield f"WARNING: other task arguments than in {name}: {differ}."
    for before, after in ((b, a) for b in first.estimates for a in run.estimates if a.name == b.name):
        if differ := texts.differences(bare_name(after.scorer), before.params, after.params, ["figures"]):
            yield f"WARNING: other options of {after.name} than in {name}: {differ}. Its scores may not compare."
    if len({(each.model, each.setup, each.log.header.eval.task_version) for each in named}) == 1:
        yield (
            f"NOTE: the same model in the same setup as {name}: a difference is due to chance or changed code. To "
            "compare models, give a log of another model."
        )


def _named(questions: Sequence[str]) -> str:
    """The first three of some ids, and how many more there are."""
    more = len(questions) - 3
    return ", ".join(questions[:3]) + (f" and each of {more} more" if more > 0 else "")


def regressions(before: str | Path, after: str | Path) -> pd.DataFrame:
    """What got better or worse between two evals of one task: rows of `compare` that declare which end is better."""
    tasks = []
    for path in (before, after):
        with LogReader(path) as log:
            tasks.append(log.header.eval.comparable)
    if tasks[0] != tasks[1]:
        raise BadInput(f"{before} is of {tasks[0]} and {after} of {tasks[1]}; compare runs of one version of a task")
    frame = compare([before, after])
    return frame[frame["better"].isin(BETTER.values())].reset_index(drop=True)


def _verdicts(name: str, run: Run) -> Iterator[str]:
    """The verdict of each scorer on this run alone, in words, from its log."""
    for score in run.estimates:
        figures = {name: math.nan if figure.value is None else figure.value for name, figure in score.metrics.items()}
        declaration = SCORER_BY_NAME.get(bare_name(score.scorer))
        if declaration and (sentence := declaration.verdict_in_words(figures)):
            yield f"{name} alone: {sentence}"


def findings(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """For each first run what was found, in words: `heading`, `logs`, `warnings`, `sentences`, `notes`, `tables`."""
    for page in frame.attrs["pages"]:
        rows = frame[frame["first_log"] == page["first_log"]]
        if rows.empty:
            continue
        whole, parts = rows[rows["category"] == ""], rows[rows["category"] != ""]
        mains = [_main(own) for _, own in whole.groupby("setup", sort=False)]
        sentences = [_sentence(whole) if len(mains) == 1 else _in_words(mains)]
        tables = [whole]
        if len(parts):
            chosen = [_main(own) for _, own in whole.groupby(["setup", "scorer"], sort=False)]
            keys = {(row["setup"], row["score"]) for row in chosen}
            tables += [parts[[key in keys for key in zip(parts["setup"], parts["score"], strict=True)]]]
            own = [parts[(parts["setup"] == row["setup"]) & (parts["score"] == row["score"])] for row in mains]
            sentences += [_by_category(rows.to_dict("records"), frame.attrs["by"]) for rows in own if len(rows)]
        said = {"heading": page["heading"], "logs": page["logs"], "warnings": page["notes"], "sentences": sentences}
        yield said | {"notes": [*_notes(tables, frame.attrs["by"]), *page["verdicts"]], "tables": tables}


def _main(rows: pd.DataFrame) -> Mapping[str, Any]:
    """The row that stands for a pair of runs: the first with a best end and an interval, or with an interval."""
    order = [(rows["better"] != "") & rows["lower"].notna(), rows["lower"].notna()]
    chosen = next((rows[fits] for fits in order if fits.any()), rows)
    return {str(name): value for name, value in chosen.iloc[0].items()}


def _sentence(rows: pd.DataFrame) -> str:
    row, first = _main(rows), rows.iloc[0]
    pair = f"{row['setup']} and {row['against']}"
    if row["verdict"] == NOT_COMPARED:
        return f"{pair}: not compared on {row['score']}: {row['note']}."
    if row["verdict"] == NO_DIFFERENCE:
        said = f"{pair}: no difference shown on {row['score']}; differences above {_most(row)} are excluded."
    else:
        said = f"{row['setup']} is {row['verdict']} than {row['against']} on {row['score']}, by {_by(row)}."
    if first["verdict"] == NOT_COMPARED:
        said += f" Not compared on {first['score']}: {first['note']}."
    others = rows[rows["score"] != row["score"]]
    differing = [f"{other.score} ({other.verdict})" for other in others.itertuples() if other.verdict in STYLES]
    return said + f" Of {counted(len(others), 'other score')} {len(differing)} differ: {', '.join(differing)}." * bool(
        differing
    )


def _in_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """What several runs show against the first one, on one score each."""
    score, said = Counter(row["score"] for row in rows).most_common(1)[0][0], dict[str, list[str]]()
    for row in rows:
        extent = f" (above {_most(row)} excluded)" if row["verdict"] == NO_DIFFERENCE else ""
        extent = f" by {_by(row)}" if row["verdict"] in STYLES else extent
        on = f" on {row['score']}" * (row["score"] != score)
        said.setdefault(row["verdict"], []).append(f"{row['setup']}{on}{extent}")
    order = [*STYLES, NO_DIFFERENCE, NOT_COMPARED]
    parts = [f"{verdict.capitalize()}: {listed(said[verdict])}." for verdict in order if verdict in said]
    return " ".join([f"Against {rows[0]['against']} on {score}.", *parts])


def _by_category(rows: Sequence[Mapping[str, Any]], by: str) -> str:
    """The categories in which two runs differ on one score."""
    differing = [f"{row['verdict']} on {row['category']} by {_by(row)}" for row in rows if row["verdict"] in STYLES]
    none = f"no difference found in {len(rows) - len(differing)} of {len(rows)}"
    pair = f"{rows[0]['setup']} and {rows[0]['against']}, {rows[0]['score']}"
    return f"By {by}, {pair}: {listed(differing + [none] * (len(differing) < len(rows)))}."


def _by(row: Mapping[str, Any]) -> str:
    """The size of a difference, as its interval has it."""
    return " to ".join(f"{end:.2g}" for end in sorted([abs(row["lower"]), abs(row["upper"])]))


def _most(row: Mapping[str, Any]) -> str:
    """The size above which an interval excludes a difference, rounded up."""
    most = max(abs(row["lower"]), abs(row["upper"]))
    unit = 10.0 ** (math.floor(math.log10(most)) - 1) if most else 1.0
    return f"{math.ceil(most / unit - 1e-9) * unit:.2g}"


def _notes(tables: Sequence[pd.DataFrame], by: str) -> Iterator[str]:
    """What the tables of one first run do not show."""
    whole = tables[0]
    for number, pairs in whole.drop_duplicates("setup").groupby("shared", sort=False):
        which = "" if (whole["shared"] == number).all() else f"{', '.join(pairs['setup'])}: "
        yield f"{which}{counted(int(pairs['shared'].iloc[0]), 'question')} in both logs."
    for rows in tables:
        without = rows[rows["note"] != ""].assign(
            none=lambda rows: np.where(rows["difference"].isna(), "", "interval for "),
            what=lambda rows: rows["score"] + np.where(rows["category"] == "", "", " of " + rows["category"]),
        )
        without["note"] = without["note"].where(
            without["category"] == "", without["note"].str.replace(SHARES, FEW_READ, regex=True)
        )
        for (setup, note, none), part in without.groupby(["setup", "note", "none"], sort=False):
            yield f"{setup}: no {none}{', '.join(part['what'])}: {note}."
        at_once = rows[rows["lower"].notna()].groupby("score").size().max()
        if at_once > 1:
            those = f"of a score{f' by {by}' * (rows is not whole)}"
            yield f"The {at_once} intervals {those} hold at once, in 95 % of comparisons: one alone would be shorter."
    yield from (
        said
        for rows in tables[1:]
        for said in few_events(rows[rows["lower"].notna()].assign(few=lambda own: own["clusters"] < FEW))
    )


def report(frame: pd.DataFrame) -> str:
    """The comparison as Markdown: for each first run what was found, the tables, and what they do not show."""
    parts = []
    for finding in findings(frame):
        tables = [
            table(rows.assign(interval=intervals(rows)), ["setup", *by, "score", "better", *NUMBERS], LABELS)
            for rows, by in zip(finding["tables"], ([], ["category"]), strict=False)
        ]
        said = [*finding["warnings"], *finding["sentences"], *tables, "\n".join([*finding["logs"], *finding["notes"]])]
        parts.append("\n\n".join([f"### {finding['heading']}", *said]))
    return "\n\n".join([*parts, *frame.attrs["of_all"]])


def as_json(frame: pd.DataFrame) -> str:
    """The rows of the comparison and what is said of them, as JSON. A number that is undefined is null."""
    said = [
        {name: finding[name] for name in ("heading", "logs", "warnings", "sentences", "notes")}
        for finding in findings(frame)
    ]
    rows = json.loads(frame.to_json(orient="records", double_precision=15))
    return json.dumps({"rows": rows, "said": said, "notes": frame.attrs["of_all"]}, indent=1, ensure_ascii=False)


def printed(frame: pd.DataFrame, width: int) -> "RenderableType":
    """The same for a terminal with so many columns."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for finding in findings(frame):
        parts.append(Text(f"\n{finding['heading']}", style="bold"))
        parts += [Text(said, style="yellow") for said in finding["warnings"]]
        parts += [Text(said) for said in finding["sentences"]]
        parts += [each for rows in finding["tables"] for each in ("", _grid(rows, width), "")]
        parts += [Text(said, style="dim") for said in [*finding["notes"], *finding["logs"]]]
    return Group(*parts, *(Text(said, style="yellow") for said in frame.attrs["of_all"]))


def _grid(rows: pd.DataFrame, width: int) -> "RenderableType":
    """A table for a terminal: of two runs a row for each score, of several the setups below each score."""
    from rich.table import Table
    from rich.text import Text

    ends = [rows["against"].iloc[0], *rows["setup"].unique()]
    one_pair, parts, wide = len(ends) == 2, bool((rows["category"] != "").any()), width >= WIDE
    counts = bool((rows["n"] != rows["shared"]).any())
    keys = rows["score"].str.rpartition("/")[2]
    short = rows["score"].where(keys.map(rows.groupby(keys)["score"].nunique()) > 1, keys)
    better_end = rows["better"].map({"lower": " ↓", "higher": " ↑", "0": " → 0"}).fillna("")
    rows = rows.assign(title=short + better_end, interval=intervals(rows, "difference"))
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
    grid.add_column("category" if parts else "score" if one_pair else "setup", overflow="fold")
    named = one_pair and max(map(len, ends)) <= (WIDE // 4 if wide else WIDE // 8)
    for name in ends if named else ["first", "this"]:
        grid.add_column(Text(name), justify="right", overflow="fold", min_width=6)
    for name in ["difference\n[95 % interval]", *["smallest\ndetectable"] * wide, *["n"] * counts]:
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_column("shown", no_wrap=True)
    name = "category" if parts else "title" if one_pair else "setup"
    for _, block in rows.groupby(["setup", "score"] if parts else "first_log" if one_pair else "score", sort=False):
        if name != "title":
            title = [block["setup"].iloc[0]] * (parts and not one_pair) + [block["title"].iloc[0]]
            grid.add_row(Text(", ".join(title), style="bold"))
        for row in block.to_dict("records"):
            numbers = ["-" if math.isnan(row[x]) else decimals(row[x]) for x in ("before", "after", *["mde"] * wide)]
            cells = ["  " * (name != "title") + row[name], *numbers[:2], row["interval"], *numbers[2:]]
            shown = row["verdict"] if row["verdict"] in STYLES else ""
            grid.add_row(*map(Text, cells), *[str(row["n"])] * counts, Text(shown, style=STYLES.get(shown, "")))
    return grid


def _read(path: str | Path, by: str) -> Run:
    with LogReader(path) as log:
        samples = [sample for _, sample in log.outcomes()]
        run = Run(LogFile(log, 0, 0.0), RunValues.of_samples(samples), served={s.output.model for s in samples} - {""})
        log.omissions  # noqa: B018  # read before a remote log's copy is removed
        run.fields = fields_of(samples[0]) if by and samples else {}
        for sample in samples:
            run.targets[str(sample.id)], run.replies[str(sample.uuid)] = sample.target, str(sample.id)
            if label := (sample.scores or {}).get(PREFERENCE):
                match fields_of(sample).get("pair"), label.value:
                    case {"first": {"uuid": str(first)}, "second": {"uuid": str(second)}}, {"preferred": won}:
                        side = (1 + won) / 2 if isinstance(won, int | float) else math.nan
                        run.labels[str(sample.id)] = {first: side, second: 1 - side}
            if by:
                run.kinds[str(sample.id)] = value_of(sample, by)
            for name, score in (sample.scores or {}).items():
                run.scores.setdefault(name, {}).setdefault(str(sample.id), []).append(score)
                details = score.details
                run.about[name] = details.get("about") or (details.get("settings") or {}).get("about")
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
    """The Brier scores of a run's questions, that of the base rate for each answer that could not be read."""
    numbers, own = values.values[f"{scorer}/brier_score"], run.about[scorer] == "own_answer"
    details = {
        question: [[score.details for score in each.scores[scorer].get(question, [])] for each in (run, other)]
        for question in numbers
    }

    def fact(name: str, question: str) -> float:
        values = (each.get(name) for each in chain(*details[question]))
        return next((value for value in values if value is not None), math.nan)

    outcomes = {question: 0.0 if own else fact("outcome", question) for question in numbers}
    answers = [float(each.get("outcome") or 0) for question in numbers for each in details[question][0]]
    share = finite_mean(np.array(answers if own else list(outcomes.values()), dtype=float))
    filled = {}
    for question, outcome in outcomes.items():
        rate = fact("base_rate", question)
        unread = ((share if math.isnan(rate) else rate) - outcome) ** 2
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
            if isinstance(score.value, dict) and score.details.get("beliefs")
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
