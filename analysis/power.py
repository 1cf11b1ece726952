"""How many questions and epochs does an effect need? Plans from the variances of finished logs.

python -m truthgym.analysis.power LOGS OUT.md --effect 0.02      (tables, with the chart beside it as OUT.svg)
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, compress, product
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from truthgym.analysis import performance
from truthgym.analysis.tables.answers import UNREAD, answers, by_question
from truthgym.analysis.tables.markdown import by_reason, counted, page, picture, section, table
from truthgym.analysis.tables.panels import grid
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import main_scores
from truthgym.analysis.tables.setups import Places
from truthgym.datasets.errors import BadInput, positive
from truthgym.scorers.declaration import FEW_QUESTIONS, LEAST_SHARE_SCORED
from truthgym.scorers.statistics.instrumented_slope import Floats
from truthgym.scorers.statistics.power import MOST_QUESTIONS, Components, variance_components
from truthgym.scorers.statistics.proper_scores import row_mean

QUESTION = "How many questions and epochs does an effect need?"
EPOCHS = (1, 2, 3, 5, 10)
"""The numbers of epochs that are planned."""
FEWEST = 10
"""With fewer questions there is no plan."""
POINTS = 16
"""Numbers of questions at which a plan is computed."""
LEVEL, DIFFERENCE, SLOPE = "mean of one model", "difference of two models", "slope of one model"
LOG = alt.Scale(type="log", nice=False)
SUBJECT = ["setup", "score", "kind", "subject"]
LABELS = {
    **{"n": "questions", "sd_event": "SD of events", "sd_question": "of questions", "sd_epoch": "of epochs"},
    "now": "detected by the log",
}


def load(logs: Places, scorer: str = "", effect: float | str = 0.05) -> pd.DataFrame:
    """Plan runs like those in the logs that detect an effect at the 5 % level with probability 0.8.

    A plan is for the mean of one model, compared with a fixed value, and for the difference of two models on the same
    questions, which takes fewer. It assumes more questions of the same kind, in events of the same sizes. For a score
    that is a slope over questions, such as `martingale`, it is for the slope of one model: its standard error in the
    log, as the root of the number of questions, with as many epochs as the log has.

    Rows for each setup, score, `kind` and `subject` (the model, or "A minus B"): of the log the standard deviations
    between events, questions and epochs, and `now`, the minimum detectable effect of a run of its size; of the plan
    `planned_epochs`, `questions` with their `mde`, and the `needed` questions that detect the `effect` (infinite above
    100,000).
    """
    difference = positive("effect", effect, "the difference to detect, such as 0.02")
    scores, left_out = main_scores(answers(logs, scorer=scorer))
    slopes = _slopes(performance.load(logs, scorer), set(scores["scorer"]))
    planned = {f"`{row['scorer']}`" for row in slopes}
    left_out = [note for note in left_out if note.split(" is left out")[0] not in planned]
    plans, refused, single, few = [], defaultdict[str, list[str]](list), [], []
    for (setup, score), scored in scores.groupby(["setup", "score"], sort=True):
        ready: list[tuple[dict[str, Any], Components]] = []
        for kind, subject, parts, epochs in _subjects(scored):
            name = f"{score} of {subject} in {setup}"
            now = parts.mde(parts.n, epochs)
            if parts.n < FEWEST or math.isnan(now):
                refused[f"fewer than {FEWEST} questions, or than three events"].append(name)
                continue
            run = dict(zip(SUBJECT, (setup, score, kind, subject), strict=True))
            run |= {"n": parts.n, "epochs": epochs, "now": now, "effect": difference}
            run |= {f"sd_{part}": math.sqrt(getattr(parts, part)) for part in ("event", "question", "epoch")}
            ready.append((run, parts))
            single += [name] * math.isnan(parts.epoch)
            few += [name] * (len(parts.sizes) < FEW_QUESTIONS)
        by_need = sorted(ready, key=lambda plan: _need(plan[1], difference))
        most = {run["kind"]: run for run, _ in by_need}  # the last counts
        plans += [run | plan for run, parts in ready for plan in _plans(parts, difference, run is most[run["kind"]])]
    curves = dict[tuple[str, str], str]()
    for row in slopes:
        name = f"{row['scorer']} of {row['model']} in {row['setup']}"
        if row["share_read"] < LEAST_SHARE_SCORED:
            refused[UNREAD].append(name)
        elif not (row["n"] >= FEWEST and row["mde"] > 0):
            refused[f"fewer than {FEWEST} questions, or a slope that they do not identify"].append(name)
        else:
            curve = curves.setdefault((row["setup"], row["scorer"]), row["model"]) == row["model"]
            plans += _slope_plans(row, difference, curve)
            few += [name] * (row["n"] < FEW_QUESTIONS)
    if not plans:
        raise BadInput(f"No log allows a plan: {'; '.join([*refused, *left_out])}; ask more questions")
    frame = pd.DataFrame(plans)
    frame.attrs["notes"] = [
        *scores.attrs.get("notes", []),
        *left_out,
        *by_reason(refused),
        *by_reason({"one epoch does not show how much epochs differ": single}, "Planned for one epoch only"),
        *by_reason({f"fewer than {FEW_QUESTIONS} events: the variances are uncertain too": few}, "Rough plans"),
    ]
    return frame


def chart(frame: pd.DataFrame) -> alt.ConcatChart:
    """Draw the minimum detectable effect by questions, a line for each number of epochs."""
    panels = [_panel(rows) for _, rows in frame.groupby(SUBJECT[:3], sort=False)]
    return grid(panels, 2, "There is no plan to draw; give logs with more questions")


def _panel(rows: pd.DataFrame) -> alt.LayerChart:
    curve = rows[rows["subject"] == rows["subject"].value_counts().idxmax()]  # the one with a curve
    run = curve.iloc[0]
    x = alt.X("questions:Q", title="questions", scale=LOG, axis=alt.Axis(format="~s", tickCount=5))
    y = alt.Y("mde:Q", title="minimum detectable effect (lower is better)", scale=LOG, axis=alt.Axis(tickCount=4))
    color = alt.Color("planned_epochs:O", title="epochs", scale=alt.Scale(scheme="viridis"))
    lines = alt.Chart(curve).mark_line(strokeWidth=1.5)
    lines = lines.encode(x=x, y=y, color=color, tooltip=["planned_epochs", "questions", "mde"])
    effect = alt.Chart(curve.head(1)).mark_rule(strokeDash=[4, 4], color="gray").encode(y="effect:Q")
    own = alt.Chart(curve.head(1)).mark_point(shape="cross", size=90, color="black", opacity=1, filled=True)
    own = own.encode(x="n:Q", y="now:Q", tooltip=["n", "epochs", "now"])
    subtitle = [run["setup"], f"{run['subject']}: {run['n']} questions"]
    title = alt.Title(f"{run['score']}, {run['kind']}", subtitle=subtitle, limit=380)
    return alt.LayerChart(layer=[effect, lines, own]).properties(width=320, height=220, title=title)


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """The plans as Markdown tables, a table for each setup and score."""
    parts = []
    for (setup, score), rows in frame.groupby(["setup", "score"], sort=False):
        plans = rows.drop_duplicates([*SUBJECT, "planned_epochs"])
        plans = plans.assign(
            epochs_text=plans["planned_epochs"].astype(str),
            count=plans["needed"].map(lambda n: f"{n:,.0f}" if math.isfinite(n) else f"over {MOST_QUESTIONS:,}"),
        )
        wide = plans.pivot(index=SUBJECT[2:], columns="epochs_text", values="count").fillna("-")
        subjects = plans.drop_duplicates(SUBJECT).merge(wide, on=SUBJECT[2:])
        subjects["epochs"] = subjects["epochs"].map("{:.3g}".format)
        planned = sorted(int(epochs) for epochs in wide.columns)
        columns = (*SUBJECT[2:], "n", "epochs", "sd_event", "sd_question", "sd_epoch", "now", *map(str, planned))
        labels = LABELS | {str(epochs): f"needed with {counted(epochs, 'epoch')}" for epochs in planned}
        parts.append(section(f"`{score}`: {setup}", table(subjects, columns, labels)))
    legend = (
        f"\n`needed`: the questions that detect a true difference of {frame['effect'].iloc[0]:g} at the 5 % level with "
        "probability 0.8; `detected by the log`: the smallest difference that the log detects so. More epochs only "
        "lower the variance between epochs: for the same number of answers, more questions detect more.\n"
    )
    caption = (
        f"Minimum detectable effect by questions and epochs, from logs of {frame['n'].min()} to {frame['n'].max()} "
        "questions. Dashed: the effect. Cross: the size of the log. Of several models or pairs, the one that needs "
        "most."
    )
    return page([*parts, legend, picture(figure, "Minimum detectable effects", caption)], frame)


def _subjects(scored: pd.DataFrame) -> Iterator[tuple[str, str, Components, float]]:
    """Each model's components, and those of the differences of each pair of models on the questions of both."""
    models = {str(model): by_question(part) for model, part in scored.groupby("model", sort=True)}
    for model, own in models.items():
        yield LEVEL, model, variance_components(own.values, own.event), _epochs(own.values)
    for (name, first), (other, second) in combinations(models.items(), 2):
        rows = {question: i for i, question in enumerate(second.question)}
        both = [(i, rows[question]) for i, question in enumerate(first.question) if question in rows]
        if both:
            left, right = (list(side) for side in zip(*both, strict=True))
            sides = (first.values[left], second.values[right])
            yield DIFFERENCE, f"{name} minus {other}", *_difference(sides, [first.event[i] for i in left])


def _difference(sides: tuple[Floats, Floats], events: list[str]) -> tuple[Components, float]:
    """The components of the difference of two models: its noise of an epoch is that of both."""
    means_of_questions = row_mean(sides[0]) - row_mean(sides[1])
    used = np.isfinite(means_of_questions)
    means = variance_components(means_of_questions[:, None], events)
    read = list(compress(events, used))
    noise = np.array([variance_components(side[used], read).epoch for side in sides])
    share = np.array([1 / _epochs(side[used]) for side in sides])
    if np.isfinite(noise).all():
        in_means = float(noise @ share)
        epochs = float(noise.sum()) / in_means if in_means else 1 / float(share.mean())
        return replace(means, question=max(0.0, means.question - in_means), epoch=float(noise.sum())), round(epochs, 6)
    hidden = float(np.nansum(noise * (1 - share)))  # of one epoch each, where the means are over more
    return replace(means, question=means.question + hidden), 1.0


def _epochs(values: Floats) -> float:
    count = np.isfinite(values).sum(axis=1)
    return round(1 / float(np.mean(1 / count[count > 0])), 6) if count.any() else 1.0


def _need(parts: Components, effect: float) -> tuple[float, float]:
    """What is larger for a subject that needs more questions."""
    return parts.questions(effect, 1), parts.event + parts.question + float(np.nan_to_num(parts.epoch))


def _plans(parts: Components, effect: float, curve: bool) -> Iterator[dict[str, Any]]:
    epochs = EPOCHS[:1] if math.isnan(parts.epoch) else EPOCHS
    needed = {k: parts.questions(effect, k) for k in epochs}
    for k, n in product(epochs, _sizes(parts.n, needed.values(), curve)):
        yield {"planned_epochs": k, "questions": n, "mde": parts.mde(n, k), "needed": needed[k]}


def _sizes(n: int, needed: Iterable[float], curve: bool) -> list[int]:
    """The numbers of questions for which a plan is made: those of a curve, or the log's own."""
    most = max([n, *filter(math.isfinite, needed)])
    return np.unique(np.geomspace(FEWEST, 1.5 * most, POINTS).astype(int)).tolist() if curve else [n]


def _slopes(estimates: pd.DataFrame, planned: set[str]) -> list[dict[str, Any]]:
    """The estimates of scores that are slopes, in each setup first the one that needs most questions."""
    rows = estimates[~estimates["scorer"].isin(planned) & (estimates["best"] == "zero")]
    rows = rows.sort_values("n", ascending=False, kind="stable").drop_duplicates(["setup", "scorer", "model"])
    rows = rows.assign(need=rows["mde"] * rows["n"] ** 0.5)
    rows = rows.sort_values(["setup", "scorer", "need"], ascending=[True, True, False])
    records: Any = rows.to_dict("records")
    return list(records)


def _slope_plans(row: Mapping[str, Any], effect: float, curve: bool) -> Iterator[dict[str, Any]]:
    """The plan of a slope, whose standard error falls with the root of the number of questions."""
    n, epochs, now = int(row["n"]), int(row["epochs"]), float(row["mde"])
    questions = max(FEWEST, math.ceil(n * (now / effect) ** 2))
    needed = float(questions) if questions <= MOST_QUESTIONS else math.inf
    run = {"setup": row["setup"], "score": row["scorer"], "kind": SLOPE, "subject": row["model"], "n": n}
    run |= {"epochs": float(epochs), "now": now, "effect": effect}
    run |= dict.fromkeys(("sd_event", "sd_question", "sd_epoch"), math.nan) | {"planned_epochs": epochs}
    for size in _sizes(n, [needed], curve):
        yield run | {"questions": size, "mde": now * math.sqrt(n / size), "needed": needed}


if __name__ == "__main__":
    main(load, chart, __doc__, report)
