"""What changed between two batches of logs? Paired differences of each model in each setup that both batches have.

truthgym report logs/before logs/after --out report
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from truthgym.analysis.tables.answers import UNREAD, answers, epochs_by_question, read_enough
from truthgym.analysis.tables.markdown import by_reason, intervals, page, picture, table
from truthgym.analysis.tables.panels import interval_panel, labels
from truthgym.analysis.tables.score_names import BETTER, ends, main_scores
from truthgym.datasets.errors import BadInput
from truthgym.scorers.declaration import FEW_QUESTIONS
from truthgym.scorers.statistics.direction import span
from truthgym.scorers.statistics.paired import compare_means

QUESTION = "What changed between the batches?"
TOOLTIP = ["batch", "model", "first_model", "setup", "before", "after", "difference", "lower", "upper", "mde", "n"]
SETUP = ["score", "setup", "model"]
LABELS = {"before": "first batch", "after": "this batch", "interval": "95 % interval", "mde": "smallest detectable"}


def load(batches: Sequence[str | Path]) -> pd.DataFrame:
    """Compare each batch, a folder of logs, with the first: the same model in the same setup, question by question.

    Epochs are averaged first. Questions are the same if their id and target are. A setup of a batch in which only one
    model answered in both is compared even if the models differ, as before and after training. Bounds are clustered by
    event; `read` is whether enough answers of both could be read (if not, there is no interval).
    """
    first, *others = (main_scores(answers(batch, among=batches))[0] for batch in batches)
    rows = [
        row | {"batch": str(name)}
        for name, other in zip(batches[1:], others, strict=True)
        for row in _rows(first, other)
    ]
    if not rows:
        raise BadInput(
            f"{', '.join(map(str, batches[1:]))} has no model, setup and question of {batches[0]}. A batch is a "
            "folder of logs, such as those before and after a change: run the same tasks with the same models in all. "
            "To compare models, this page does not apply: see the others, or truthgym compare"
        )
    frame = pd.DataFrame(rows).sort_values(["score", "setup", "batch", "model"], ignore_index=True)
    frame.attrs["notes"] = list(_notes(frame, [first, *others], batches))
    return frame


def chart(frame: pd.DataFrame) -> alt.FacetChart:
    """Draw each difference with its interval, a panel for each score. The dashed line is no change."""
    rows = frame[frame["n"] >= FEW_QUESTIONS].dropna(subset=["lower", "upper"])
    if rows.empty:
        raise BadInput(
            f"None of the {len(frame)} differences has an interval on {FEW_QUESTIONS} questions; ask more questions"
        )
    names = [f"{score} ({better or 'no'} is better)" for score, better in rows[["score", "better"]].to_numpy()]
    rows = rows.assign(name=rows["model"] + ", " + rows["setup"], panel=names)
    panel = interval_panel(
        None,
        alt.X("difference:Q", title="difference from the first batch"),
        color=alt.Color("batch:N", title=None, legend=alt.Legend(orient="top"), scale=alt.Scale(scheme="tableau10")),
        y=labels("name", alt.EncodingSortField("difference"), 420),
        yOffset="batch:N",
        tooltip=TOOLTIP,
    ).properties(width=420, height={"step": 16}, data=rows)
    facets = panel.facet(row=alt.Row("panel:N", title=None, header=alt.Header(labelOrient="top")))
    independent: alt.FacetChart = facets.resolve_scale(x="independent", y="independent")
    return independent


def report(frame: pd.DataFrame, figure: str = "") -> str:
    models = zip(frame["model"], frame["first_model"], strict=True)
    names = [model if model == first else f"{model} (first batch: {first})" for model, first in models]
    columns = ("batch", "score", "better", "setup", "model", "before", "after", "difference", "interval", "mde", "n")
    caption = f"n = {frame['n'].min()} to {frame['n'].max()} shared questions."
    drawing = picture(figure, "Differences between batches", caption)
    return page([drawing, table(frame.assign(interval=intervals(frame), model=names), columns, LABELS)], frame)


def _rows(first: pd.DataFrame, other: pd.DataFrame) -> Iterator[dict[str, Any]]:
    before = dict(list(first.groupby(["score", "setup"])))
    for (score, setup), rows in other.groupby(["score", "setup"]):
        if (score, setup) not in before:
            continue
        old, new = (dict(list(batch.groupby("model"))) for batch in (before[score, setup], rows))
        pairs = [(model, model) for model in new if model in old]
        if not pairs and len(old) == len(new) == 1:
            pairs = [(next(iter(old)), next(iter(new)))]
        for earlier, model in pairs:
            facts = {"score": score, "setup": setup, "model": model, "first_model": earlier}
            yield from _compared(old[earlier], new[model], facts)


def _compared(before: pd.DataFrame, after: pd.DataFrame, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    targets = dict(zip(before["sample_id"], before["target"], strict=True))
    same = after[after["sample_id"].map(targets) == after["target"]]
    if same.empty:
        return
    events = dict(zip(before["sample_id"], before["event"], strict=True))
    scorer, key = before[["scorer", "key"]].iloc[0]
    now, then = epochs_by_question(same), epochs_by_question(before)
    comparison = compare_means(now, then, events, span(scorer, key, {}), f"{scorer}/{key}")
    read = all(read_enough(part, SETUP).all() for part in (before, after))
    better = BETTER.get(ends(before)[scorer, key] or "", "")
    yield {**facts, "better": better, **comparison.row(read), "read": read}


def _notes(frame: pd.DataFrame, tables: Sequence[pd.DataFrame], names: Sequence[str | Path]) -> Iterator[str]:
    scores = [set(map(tuple, rows[SETUP].drop_duplicates().to_numpy())) for rows in tables]
    compared = set(map(tuple, frame[["batch", *SETUP]].to_numpy()))
    for name, own in zip(names[1:], scores[1:], strict=True):
        missing = len([key for key in own if (str(name), *key) not in compared])
        if missing:
            yield f"{missing} scores of {name} are not in {names[0]}, or of other questions, and are not compared."
    unread = frame[~frame["read"]]
    yield from by_reason({UNREAD: (unread["score"] + " of " + unread["model"]).tolist()}, "No interval")
    few = int((frame["n"] < FEW_QUESTIONS).sum())
    if few:
        yield (
            f"{few} of {len(frame)} differences have fewer than {FEW_QUESTIONS} questions: conclude nothing. They are "
            "not drawn."
        )
    if len(frame) > 1:
        chance = 1 - 0.95 ** len(frame)
        yield (
            f"The {len(frame)} intervals are of 95 % each, not corrected for their number: if nothing had changed, at "
            f"least one would leave out 0 with a probability of up to {chance:.0%}."
        )
