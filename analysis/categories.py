"""Which kind of question goes wrong? Each model's scores by a field of the questions, with intervals that hold at once.

python -m truthgym.analysis.categories LOGS OUT.md --by FIELD
"""

import altair as alt
import pandas as pd

from truthgym.analysis.tables.answers import all_fields, answers
from truthgym.analysis.tables.by_category import by_category, in_words
from truthgym.analysis.tables.markdown import chart_section, intervals, page, section, table
from truthgym.analysis.tables.models import Names, without
from truthgym.analysis.tables.panels import COLORS, SHAPES, heading, interval_panel, labels, scale, stack
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import BETTER
from truthgym.analysis.tables.setups import Places, runs
from truthgym.datasets.errors import BadInput
from truthgym.scorers.declaration import LEAST_SHARE_SCORED

QUESTION = "Which kind of question goes wrong?"
LABELS = {"estimate": "estimate [95 % interval]", "n": "questions", "clusters": "events"}


def load(logs: Places, by: str = "", scorer: str = "", exclude: Names = "") -> pd.DataFrame:
    """Estimate each scorer's main number by a field of the questions (`by_category`), for each model and setup."""
    if not by:
        raise BadInput(
            "no field was named. Give one, as in: truthgym report LOGS --out DIR --by FIELD. The questions have: "
            f"{', '.join(all_fields(runs(logs)))}"
        )
    frame = by_category(without(answers(logs, scorer=scorer, by=by), exclude)[0])
    if frame.empty:
        raise BadInput("; ".join(frame.attrs["notes"]) or f"by={by!r}: no answer has a number")
    frame.attrs["by"] = by
    return frame


def chart(frame: pd.DataFrame) -> alt.VConcatChart:
    """Draw the categories of each score and setup, a color for each model. Hollow: fewer events than in `FEW`."""
    drawn = frame[frame["lower"].notna() & (frame["read"] >= LEAST_SHARE_SCORED)]
    models = sorted(drawn["model"].unique())
    color = alt.Color("model:N", title=None, scale=scale(models, COLORS), legend=alt.Legend(orient="top", columns=2))
    shape = alt.Shape("model:N", title=None, scale=scale(models, SHAPES))
    fill = alt.Color("model:N", scale=scale(models, COLORS), legend=None)
    panels = []
    for (score, setup), rows in drawn.groupby(["score", "setup"], sort=False):
        better = BETTER.get(rows["best"].iloc[0])
        panel = interval_panel(
            rows,
            alt.X(
                "estimate:Q", title=f"{score}" + f" ({better} is better)" * bool(better), scale=alt.Scale(zero=False)
            ),
            dashed={},
            color=color,
            shape=shape,
            fill=alt.condition("datum.few", alt.value("white"), fill),
            y=labels("category", list(dict.fromkeys(rows["category"])), 260),
            yOffset=alt.YOffset("model:N", sort=models),
            tooltip=["model", "category", "estimate", "lower", "upper", "n", "clusters"],
        )
        title = heading(str(setup), "hollow: fewer than 30 independent events" if rows["few"].any() else "")
        panels.append(panel.properties(width=480, height={"step": 12}, title=title))
    return stack(
        panels, "No category has an interval and answers that could be read, so there is no chart; ask more", 500
    )


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """A sentence and a table for each score and setup, as Markdown."""
    shown = frame.assign(estimate=intervals(frame, "estimate"))
    sections = []
    for (score, setup), rows in shown.groupby(["score", "setup"], sort=False):
        said = {model: in_words(frame.loc[own.index]) for model, own in rows.groupby("model", sort=False)}
        columns = ("model", "category", "estimate", "n", "clusters")
        words = "".join(f"- {model!s}: {sentence}\n" for model, sentence in said.items() if sentence)
        sections.append(section(f"{score!s}, {setup!s}", words, table(rows, columns, LABELS)))
    caption = (
        f"Estimates by `{frame.attrs['by']}`, with 95 % intervals that hold at once for all categories of a model: two "
        "that do not overlap differ."
    )
    return page([chart_section(figure, "Estimates by category", caption), *sections], frame)


if __name__ == "__main__":
    main(load, chart, __doc__, report)
