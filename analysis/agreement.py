"""Do scores agree? The same answer, or policy, scored by other scorers, judges, elicitors, or in other setups.

python -m truthgym.analysis.agreement LOGS OUT.md      (also .csv, .html, .svg and .png)
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import pandas as pd

from truthgym.analysis.tables.answers import SAMPLE, answers, labelled, no_scores, sample_facts, tabulate
from truthgym.analysis.tables.beliefs import beliefs
from truthgym.analysis.tables.markdown import chart_section, intervals, number_range, page, section, table
from truthgym.analysis.tables.panels import GREEN, heading, interval_panel, labels, stack
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import main_keys, score_name
from truthgym.analysis.tables.setups import Places, Run, bare_name, runs
from truthgym.datasets.errors import BadInput
from truthgym.scorers.declaration import LEAST_SHARE_SCORED
from truthgym.scorers.statistics.judge_reliability import agreement_estimate

QUESTION = "Do scores agree across scorers, judges, elicitors and setups?"
FEWEST_UNITS = 10
"""Units with two ratings below which there is no alpha."""
WORST, MOST_LISTED = 5, 10
"""Questions that disagree most, of each comparison; and of each kind in the report."""
KINDS = {
    "scorers": "the same answer, scored with other options",
    "judges": "the same answer, rated by other judges",
    "elicitors": "the same belief, read by other elicitors",
    "setups": "the same question and model, in other modes or tasks",
    "epochs": "the same question, model and setup, run again",
}
"""What is compared, and what one unit is."""
ANSWER = ["domain", "setup", "model", "eval_id", "sample_id", "epoch"]
LABELS = {"interval": "95 % interval", "n": "units", "shared": "with two numbers", "raters": "compared"}
TENTATIVE, RELIABLE = 0.667, 0.8
"""Krippendorff's customary thresholds: for tentative conclusions, and for reliable ones (Krippendorff 2004)."""


def load(logs: Places, scorer: str = "", key: str = "") -> pd.DataFrame:
    """Krippendorff's alpha of everything that was scored more than once.

    A row for each comparison, by kind (a key of `KINDS`) and alpha: `measure`, `where`, `raters`, `alpha` (1 is full
    agreement, 0 that by chance) with 95 % bounds by event, `n` units with two ratings, `clusters`, and `shared`, the
    share of the units that have two. `attrs["worst"]` lists the units that disagree most. With `scorer` and `key` it is
    of these scores only; of each scorer "" is the first key with a better end.
    """
    records: list[pd.DataFrame | None] = []
    for read in (beliefs, ratings_of_judges):
        try:
            records.append(read(logs, **({"scorer": scorer} if scorer else {})))
        except BadInput:  # no such record
            records.append(None)
    return agreements(answers(logs, scorer=scorer), records[0], records[1], key)


def agreements(
    answers: pd.DataFrame, beliefs: pd.DataFrame | None = None, judges: pd.DataFrame | None = None, key: str = ""
) -> pd.DataFrame:
    """The same from tables of answers, beliefs and ratings of judges."""
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    worst: list[dict[str, Any]] = []
    for kind, measure, where, ratings in _comparisons(answers, beliefs, judges, key):
        raters, twice = list(map(str, ratings.columns)), ratings.notna().sum(axis=1) > 1
        name = f"{measure}, {where}: {', '.join(raters)}"
        if not twice.any():
            continue
        unread = [rater for rater in ratings if ratings[rater].notna().mean() < 0.5]
        if unread and kind in ("judges", "elicitors"):
            notes.append(f"{name}: {unread[0]} gave no number for half of the units or more, so there is no alpha.")
            continue
        if twice.sum() < FEWEST_UNITS:
            notes.append(f"{name}: {twice.sum()} units have two numbers, and {FEWEST_UNITS} are needed.")
            continue
        alpha = agreement_estimate(ratings.to_numpy(), list(ratings.index.get_level_values("event")))
        if math.isnan(alpha.estimate):
            notes.append(f"{name}: all numbers are equal, and alpha says nothing about them.")
            continue
        shared = float(twice.mean())
        if shared < LEAST_SHARE_SCORED:
            share = f"only {100 * shared:.0f} % of the units have two numbers"
            notes.append(f"{name}: {share}; the others may differ more.")
        facts = {"kind": kind, "measure": measure, "where": where}
        rows.append(
            facts
            | {"raters": ", ".join(raters), "alpha": alpha.estimate, "lower": alpha.lower, "upper": alpha.upper}
            | {"n": alpha.n, "clusters": alpha.clusters, "shared": shared}
        )
        worst += [facts | unit for unit in _worst(ratings[twice])]
    if not rows:
        raise BadInput(
            f"Nothing was scored twice{': ' + notes[0] if notes else '.'} Score a log with other options "
            "(inspect score LOG --scorer truthgym/brier -S read=token --action append), or run more epochs or modes"
        )
    frame = pd.DataFrame(rows)
    frame = frame.sort_values("alpha", ascending=False)
    frame = frame.sort_values("kind", key=lambda kinds: kinds.map(list(KINDS).index), kind="stable", ignore_index=True)
    if "epochs" not in set(frame["kind"]):
        notes.append("One epoch: nothing says how well a policy agrees with itself, with which all else is compared.")
    frame.attrs.update(notes=list(dict.fromkeys([*answers.attrs.get("notes", []), *notes])), worst=worst)
    return frame


def chart(frame: pd.DataFrame) -> alt.VConcatChart:
    """Draw alpha with its interval, a panel for each kind. Dashed: chance, and the customary thresholds."""
    panels = [_panel(str(kind), rows) for kind, rows in frame.groupby("kind", sort=False)]
    shared = alt.Resolve(scale=alt.ScaleResolveMap(x="shared"))
    return stack(panels, "There is no comparison to draw; score a log twice", 600, resolve=shared)


def _panel(kind: str, rows: pd.DataFrame) -> alt.LayerChart:
    low = min(0.0, float(rows[["alpha", "lower"]].min().min()))
    alpha = alt.X("alpha:Q", title="Krippendorff's alpha (1: full agreement, 0: chance)", axis=alt.Axis(tickCount=8))
    return interval_panel(
        rows.assign(name=rows["measure"] + ", " + rows["where"]),
        alpha.scale(domain=[low, 1]),
        dashed={0: "gray", TENTATIVE: "#E69F00", RELIABLE: GREEN},
        y=labels("name", alt.EncodingSortField("alpha", order="descending"), 460),
        tooltip=[*rows.columns],
    ).properties(
        width=420, height={"step": 18}, title=heading(f"{kind}: {KINDS[kind]}", f"{number_range(rows['n'])} units")
    )


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """The agreement of each kind as Markdown, with the questions that disagree most and the notes."""
    comparisons = frame.assign(interval=intervals(frame), shared=[f"{100 * share:.0f} %" for share in frame["shared"]])
    sections = []
    for kind, rows in comparisons.groupby("kind", sort=False):
        columns = ("measure", "where", "raters", "alpha", "interval", "n", "clusters", "shared")
        parts = [table(rows, columns, LABELS)]
        units = pd.DataFrame([unit for unit in frame.attrs.get("worst", []) if unit["kind"] == kind])
        if len(units):
            units = units.sort_values("spread", ascending=False, kind="stable").head(MOST_LISTED)
            worst = table(units, ("measure", "model", "question", "spread", "ratings"))
            parts += ["The questions that disagree most:", worst]
        sections.append(section(f"{kind}: {KINDS[str(kind)]}", *parts))
    sizes = f"{frame['n'].min()} to {frame['n'].max()} units"
    caption = f"Krippendorff's alpha with 95 % intervals by event, of {sizes}. Dashed: 0, 0.667, 0.8."
    return page([*sections, chart_section(figure, "Agreement", caption)], frame)


def _comparisons(
    answers: pd.DataFrame, beliefs: pd.DataFrame | None, judges: pd.DataFrame | None, key: str
) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """Kind, measure, place, and the ratings: units (rows, with the level `event`) x raters."""
    bases = answers["scorer"].map(bare_name)
    setting = (answers["task"] + " " + answers["mode"]).str.strip()
    for base, part in answers.assign(base=bases, setting=setting).groupby("base", sort=True):
        main_key = key or main_keys(part)[str(part["scorer"].iloc[0])]
        rows = part[part["key"] == main_key]
        yield from _split("scorers", score_name(str(base), main_key), rows, ["domain"], ANSWER, "scorer")
        for scorer, own in rows.groupby("scorer"):
            name = score_name(str(scorer), main_key)
            yield from _split("setups", name, own, ["domain", "model"], ["domain", "model", "sample_id"], "setting")
            yield from _split("epochs", name, own, ["domain"], ["setup", "model", "eval_id", "sample_id"], "epoch")
    if judges is not None:
        rated = judges.assign(value=judges["rating"])
        yield from _split("judges", "quality", rated, ["domain", "model"], ANSWER, "judge")
    if beliefs is not None:
        wording = beliefs["stage"].str.fullmatch("prior 2")
        by_stage = beliefs.assign(
            value=beliefs["belief"],
            stage=beliefs["stage"].mask(wording, "prior"),
            rater=beliefs["elicitor"] + wording.map({True: ", second wording", False: ""}),
        )
        for stage, part in by_stage.groupby("stage"):
            yield from _split("elicitors", str(stage), part, ["domain"], ANSWER, "rater")


def _split(
    kind: str, measure: str, rows: pd.DataFrame, by: Sequence[str], unit: Sequence[str], rater: str
) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """One comparison for each value of `by` in which there is more than one rater."""
    for where, part in rows.groupby(list(by)):
        if part[rater].nunique() > 1:
            means = part.groupby([*unit, "event", rater])["value"].mean()  # a unit without a number is a NaN
            yield kind, measure, ", ".join(map(str, where)), means.unstack(rater)


def _worst(ratings: pd.DataFrame) -> Iterator[dict[str, Any]]:
    spread = (ratings.max(axis=1) - ratings.min(axis=1)).sort_values(ascending=False, kind="stable").head(WORST)
    for unit, row in ratings.loc[spread.index[spread > 0]].iterrows():
        facts = dict(zip(ratings.index.names, unit if isinstance(unit, tuple) else (unit,), strict=True))
        ratings_text = ", ".join(f"{rater} {value:.3g}" for rater, value in row.dropna().items())
        question = f"{facts['sample_id']}" + (f" (epoch {facts['epoch']})" if "epoch" in facts else "")
        size = float(row.max() - row.min())
        yield {"model": facts["model"], "question": question, "spread": size, "ratings": ratings_text}


def ratings_of_judges(logs: Places, *, scorer: str = "qualitative") -> pd.DataFrame:
    """A row for each answer and judge of a scorer: `judge` and `rating`, the mean over qualities in [0, 1]."""
    evals = runs(logs)
    frame = tabulate(evals, (*SAMPLE, "scorer", "judge", "rating"), lambda run: _ratings(run, scorer))
    if frame.empty:
        raise no_scores(evals, scorer)
    return frame


def _ratings(run: Run, scorer: str) -> Iterator[tuple[Any, ...]]:
    for _, sample in run.log.reader.outcomes():
        for label, score in labelled(run, sample).items():
            if bare_name(label) != scorer:
                continue
            times = Counter[str]()
            for record in score.details.get("judges") or []:
                judge = record["judge"]
                times[judge] += 1
                again = f" ({times[judge]})" * (times[judge] > 1)  # one model with other arguments
                rounds = record.get("ratings") or []  # x orders x qualities, from 0 to 100
                numbers = [number for orders in rounds for ratings in orders for number in ratings or []]
                mean = sum(numbers) / len(numbers) / 100 if numbers else math.nan
                yield (*sample_facts(sample), label, judge + again, mean)


if __name__ == "__main__":
    main(load, chart, __doc__, report)
