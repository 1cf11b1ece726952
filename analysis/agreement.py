"""Do scores agree? The same answer, or policy, scored by other scorers, judges, elicitors, or in other setups.

python -m truthgym.analysis.agreement LOGS OUT.md      (also .csv, .html, .svg and .png)
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from truthgym.analysis.tables.answers import answers
from truthgym.analysis.tables.beliefs import beliefs
from truthgym.analysis.tables.judges import judges
from truthgym.analysis.tables.markdown import intervals, table
from truthgym.analysis.tables.questions import notes as listed
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import main_keys, score_name
from truthgym.analysis.tables.setups import Places, bare_name
from truthgym.datasets.errors import BadInput
from truthgym.scorers.declaration import LEAST_SHARE_SCORED
from truthgym.scorers.statistics.judge_reliability import agreement_estimate

if TYPE_CHECKING:
    import pandas as pd

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


def load(logs: Places, scorer: str = "", key: str = "") -> "pd.DataFrame":
    """Compare all scores of the same thing.

    Args:
        logs: Logs and folders of logs.
        scorer: Compare the scores of this paradigm only. "": of all scorers.
        key: Compare this key of the scores. "": of each scorer the first with a better end, such as `brier_score`, or
            else the viewer's first column.

    Returns:
        See `agreements`.

    Raises:
        BadInput: No log of a finished eval; nothing was scored twice.
    """
    recorded: dict[str, pd.DataFrame] = {}
    for kind, read in (("elicitors", beliefs), ("judges", judges)):
        try:
            recorded[kind] = read(logs, **({"scorer": scorer} if scorer else {}))
        except BadInput:  # no such record
            continue
    return agreements(answers(logs, scorer=scorer), recorded.get("elicitors"), recorded.get("judges"), key)


def agreements(
    answers: "pd.DataFrame",
    beliefs: "pd.DataFrame | None" = None,
    judges: "pd.DataFrame | None" = None,
    key: str = "",
) -> "pd.DataFrame":
    """Krippendorff's alpha of everything that was scored more than once.

    Args:
        answers: A row for each answer and number, as `tables.answers` returns.
        beliefs: A row for each belief, as `tables.beliefs` returns.
        judges: A row for each answer and judge, as `tables.judges` returns.
        key: As in `load`.

    Returns:
        A row for each comparison, sorted by kind and alpha: `kind` (a key of `KINDS`), `measure` (scorer and key, or
        the stage of a belief), `where` (the domain; for setups also the model), `raters` (what is compared), `alpha`
        in (-1, 1], 1 for full agreement and 0 for agreement by chance, `lower` and `upper` (95 %, by event), `n` (units
        with two ratings), `clusters`, and `shared`, the share of the units that have two.
        `frame.attrs["worst"]` lists, for each comparison, the units that disagree most: `measure`, `where`, `model`,
        `question`, `spread` (largest minus smallest) and `ratings` in words. `frame.attrs["notes"]` says what cannot
        be concluded.

    Raises:
        BadInput: Nothing was scored twice.
    """
    import pandas as pd

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
        headline = agreement_estimate(ratings.to_numpy(), list(ratings.index.get_level_values("event")))
        if math.isnan(headline.estimate):
            notes.append(f"{name}: all numbers are equal, and alpha says nothing about them.")
            continue
        shared = float(twice.mean())
        if shared < LEAST_SHARE_SCORED:
            notes.append(
                f"{name}: only {100 * shared:.0f} % of the units have two numbers; the others may differ more."
            )
        rows.append(
            {"kind": kind, "measure": measure, "where": where, "raters": ", ".join(raters), "alpha": headline.estimate}
            | {"lower": headline.lower, "upper": headline.upper, "n": headline.n, "clusters": headline.clusters}
            | {"shared": shared}
        )
        worst += [{"kind": kind, "measure": measure, "where": where, **one} for one in _worst(ratings[twice])]
    if not rows:
        raise BadInput(
            f"Nothing was scored twice{': ' + notes[0] if notes else '.'} Score a log with other options "
            "(inspect score LOG --scorer truthgym/brier -S read=token --action append), or run more epochs or modes"
        )
    frame = pd.DataFrame(rows)
    order = [list(KINDS).index(kind) for kind in frame["kind"]]
    frame = frame.assign(order=order).sort_values(["order", "alpha"], ascending=[True, False], ignore_index=True)
    frame = frame.drop(columns="order")
    if "epochs" not in set(frame["kind"]):
        notes.append("One epoch: nothing says how well a policy agrees with itself, with which all else is compared.")
    notes = [*answers.attrs.get("notes", []), *notes]
    frame.attrs.update(notes=list(dict.fromkeys(notes)), worst=worst)
    return frame


def chart(frame: "pd.DataFrame") -> alt.VConcatChart:
    """Draw alpha with its interval, a panel for each kind of comparison. Dashed: chance, and the customary thresholds.

    Raises:
        BadInput: There is no comparison.
    """
    if frame.empty:
        raise BadInput("There is no comparison to draw; score a log twice")
    panels = [_panel(str(kind), rows) for kind, rows in frame.groupby("kind", sort=False)]
    charts: alt.VConcatChart = alt.vconcat(*panels).resolve_scale(x="shared").configure_axis(titleLimit=600)
    return charts


def _panel(kind: str, rows: "pd.DataFrame") -> alt.LayerChart | alt.FacetChart:
    rows = rows.assign(name=rows["measure"] + ", " + rows["where"])
    title = "Krippendorff's alpha (1: full agreement, 0: chance)"
    y = alt.Y("name:N", sort=alt.EncodingSortField("alpha", order="descending"), title=None, axis={"labelLimit": 460})
    base = alt.Chart(rows).encode(y=y)
    rules = [
        alt.Chart().mark_rule(strokeDash=[4, 4], color=color).encode(x=alt.datum(value))
        for value, color in ((0, "gray"), (TENTATIVE, "#E69F00"), (RELIABLE, "#009E73"))
    ]
    low = min(0.0, float(rows[["alpha", "lower"]].min().min()))
    scale, axis = alt.Scale(domain=[low, 1]), alt.Axis(tickCount=8)
    interval = base.transform_filter("isValid(datum.lower)").mark_rule(strokeWidth=2, color="#0072B2")
    point = base.mark_point(filled=True, size=60, opacity=1, color="#0072B2")
    layers = [
        *rules,
        interval.encode(x=alt.X("lower:Q", title=title, scale=scale, axis=axis), x2="upper:Q"),
        point.encode(x=alt.X("alpha:Q", title=title, scale=scale, axis=axis), tooltip=[*rows.columns.drop("name")]),
    ]
    fewest, most = rows["n"].min(), rows["n"].max()
    units = f"{fewest if fewest == most else f'{fewest} to {most}'} units"
    heading = alt.Title(f"{kind}: {KINDS[kind]}", subtitle=units, anchor="start", frame="group")
    layered: alt.LayerChart | alt.FacetChart = alt.layer(*layers).properties(
        width=420, height={"step": 18}, title=heading
    )
    return layered


def report(frame: "pd.DataFrame", figure: str = "") -> str:
    """The agreement of each kind as Markdown, with the questions that disagree most and the notes.

    Args:
        frame: From `load`.
        figure: File name of its chart. "": without one.
    """
    import pandas as pd

    shown = frame.assign(
        interval=intervals(frame),
        shared=[f"{100 * share:.0f} %" for share in frame["shared"]],
    )
    sections = []
    for kind, rows in shown.groupby("kind", sort=False):
        columns = ("measure", "where", "raters", "alpha", "interval", "n", "clusters", "shared")
        sections.append(f"### {kind}: {KINDS[str(kind)]}\n\n{table(rows, columns, LABELS)}")
        units = pd.DataFrame([one for one in frame.attrs.get("worst", []) if one["kind"] == kind])
        if len(units):
            units = units.sort_values("spread", ascending=False, kind="stable").head(MOST_LISTED)
            heading = "The questions that disagree most:\n\n"
            sections.append(heading + table(units, ("measure", "model", "question", "spread", "ratings")))
    if figure:
        fewest, most = frame["n"].min(), frame["n"].max()
        text = f"Krippendorff's alpha with 95 % intervals by event, of {fewest} to {most} units. Dashed: 0, 0.667, 0.8."
        sections.append(f"### Chart\n\n![Agreement]({figure})\n\n*{text}*\n")
    return "\n".join(sections) + listed(frame)


def _comparisons(
    answers: "pd.DataFrame", beliefs: "pd.DataFrame | None", judges: "pd.DataFrame | None", key: str
) -> "Iterator[tuple[str, str, str, pd.DataFrame]]":
    """Kind, measure, place, and the ratings: units (rows, with the level `event`) x raters."""
    bases = answers["scorer"].map(bare_name)
    setting = (answers["task"] + " " + answers["mode"]).str.strip()
    for base, part in answers.assign(base=bases, setting=setting).groupby("base", sort=True):
        chosen = key or main_keys(part)[str(part["scorer"].iloc[0])]
        rows = part[part["key"] == chosen]
        yield from _split("scorers", score_name(str(base), chosen), rows, ["domain"], ANSWER, "scorer")
        for scorer, own in rows.groupby("scorer"):
            name, question = score_name(str(scorer), chosen), ["domain", "model", "sample_id"]
            yield from _split("setups", name, own, ["domain", "model"], question, "setting")
            yield from _split("epochs", name, own, ["domain"], ["setup", "model", "eval_id", "sample_id"], "epoch")
    if judges is not None:
        yield from _split(
            "judges", "quality", judges.assign(value=judges["rating"]), ["domain", "model"], ANSWER, "judge"
        )
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
    kind: str, measure: str, rows: "pd.DataFrame", by: Sequence[str], unit: Sequence[str], rater: str
) -> "Iterator[tuple[str, str, str, pd.DataFrame]]":
    """One comparison for each value of `by` in which there is more than one rater."""
    for where, part in rows.groupby(list(by)):
        if part[rater].nunique() > 1:
            means = part.groupby([*unit, "event", rater])["value"].mean()  # a unit without a number is a NaN
            yield kind, measure, ", ".join(map(str, where)), means.unstack(rater)


def _worst(ratings: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    spread = (ratings.max(axis=1) - ratings.min(axis=1)).sort_values(ascending=False, kind="stable").head(WORST)
    for unit, row in ratings.loc[spread.index[spread > 0]].iterrows():
        numbers, size = row.dropna(), row.max() - row.min()
        facts = dict(zip(ratings.index.names, unit if isinstance(unit, tuple) else (unit,), strict=True))
        words = ", ".join(f"{rater} {value:.3g}" for rater, value in numbers.items())
        epoch = f" (epoch {facts['epoch']})" if "epoch" in facts else ""
        yield {
            "model": facts["model"],
            "question": f"{facts['sample_id']}{epoch}",
            "spread": float(size),
            "ratings": words,
        }


if __name__ == "__main__":
    main(load, chart, __doc__, report)
