"""Which runs are there? Every log of a folder: what ran, when, from which commit, at what cost, and whether it counts.

python -m truthgym.analysis.catalog LOGS OUT.md      (tables, with the chart beside it as OUT.svg)
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import altair as alt
import pandas as pd

from truthgym.analysis.tables.markdown import page, picture, table
from truthgym.analysis.tables.panels import BLUE, GRAY, ORANGE, scale
from truthgym.analysis.tables.prices import money_of
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.setups import Places, Run, places_of, repeated, with_setups
from truthgym.evallog.discovery import every_log

QUESTION = "Which runs are there, and which of them count?"
COUNTS = {
    "yes": "in all tables",
    "repeated": "finished, but the same model answered again later in the same setup; both are in the tables",
    "copy": "another file holds the same run, and counts",
    "superseded": "unfinished, and another log completes the run",
    "unfinished": "no log completes the run: see `status`; `inspect eval-retry LOG` does",
}
"""The values of `counts`."""
COLORS = {"yes": BLUE, "repeated": "#56B4E9", "copy": GRAY, "superseded": "#E69F00", "unfinished": ORANGE}
SHAPES = {"yes": "circle", "repeated": "diamond", "copy": "square", "superseded": "triangle-up", "unfinished": "cross"}
DRAWN = ["created", "model", "setup", "status", "counts", "answers", "failed", "commit", "log"]


def load(logs: Places) -> pd.DataFrame:
    """Read the headers of all logs, also of copies and unfinished runs: a row for each file, newest first.

    `counts` is a key of `COUNTS`, `status` as Inspect writes it, `cost` in US dollars (NaN if Inspect lacked a price),
    and `commit` ends in "+" if files were changed after it.
    """
    return table_of(with_setups(every_log(places_of(logs), Counter())))


def table_of(runs: tuple[Run, ...]) -> pd.DataFrame:
    """The rows of `load`, of runs from the newest to the oldest."""
    frame = pd.DataFrame([row | {"counts": counts} for row, counts in zip(map(_row, runs), _counts(runs), strict=True)])
    frame.attrs["notes"] = list(_notes(frame))
    return frame


def chart(frame: pd.DataFrame) -> alt.Chart:
    """Draw each run at the time at which it began, by model, with a shape and colour for whether it counts."""
    order = [name for name in COUNTS if (frame["counts"] == name).any()]
    legend = alt.Legend(orient="top")
    bars: alt.Chart = (
        alt.Chart(frame[DRAWN])
        .mark_point(size=70, filled=True, opacity=0.8)
        .encode(
            x=alt.X("created:T", title="began", axis=alt.Axis(labelAngle=0, tickCount=5)),
            y=alt.Y("model:N", title=None, axis=alt.Axis(labelLimit=300)),
            yOffset=alt.YOffset("counts:N", sort=order),
            color=alt.Color("counts:N", title="counts", scale=scale(order, COLORS), legend=legend),
            shape=alt.Shape("counts:N", title="counts", scale=scale(order, SHAPES), legend=legend),
            tooltip=DRAWN,
        )
        .properties(width=480, height={"step": 22})
    )
    return bars


def report(frame: pd.DataFrame, figure: str = "") -> str:
    failed = frame["failed"].map(lambda number: f" ({number:,} failed)" * bool(number))
    runs = frame.assign(
        began=frame["created"].str.slice(0, 16).str.replace("T", " "),
        answers=frame["answers"].map("{:,}".format) + failed,
        tokens=frame["tokens_in"].map("{:,}".format) + " / " + frame["tokens_out"].map("{:,}".format),
        cost=["-" if math.isnan(cost) else f"${cost:.2f}" for cost in frame["cost"]],
        log="`" + frame["log"] + "`",
    )
    columns = ["began", "model", "setup", "counts", "status", "scorers", "questions", "epochs", "answers", "tokens"]
    columns += ["cost", "commit", "log"]
    legend = [f"- `{name}`: {text}.\n" for name, text in COUNTS.items() if (frame["counts"] == name).any()]
    caption = f"{len(frame)} logs by the time at which the run began. n of each run is in the table."
    drawing = picture(figure, "When each run began", caption)
    rows = table(runs, columns, {"tokens": "tokens read / written"})
    return page([drawing, rows, "".join(legend)], frame)


def _row(run: Run) -> dict[str, Any]:
    header, usage = run.log.header, run.log.header.stats.model_usage.values()
    results, revision = header.results, header.eval.revision
    completed = results.completed_samples if results else 0
    return {
        **{name: text for name, text in run.columns.items() if name not in ("log", "eval_id")},
        "completed": header.stats.completed_at,
        "status": header.status,
        "scorers": ", ".join(dict.fromkeys(run.scorers.values())),
        "questions": header.eval.asked,
        "epochs": header.eval.config.epochs or 1,
        "answers": completed,
        "failed": (results.total_samples if results else 0) - completed,
        "tokens_in": sum(used.read for used in usage),
        "tokens_out": sum(used.output_tokens for used in usage),
        "cost": money_of(header.stats.model_usage, {}),
        "commit": f"{revision.commit}{'+' * bool(revision.dirty)}" if revision else "",
        "eval_id": header.eval.eval_id,
        "task_id": header.eval.task_id,
        "log": run.log.path,
    }


def _counts(runs: tuple[Run, ...]) -> Iterator[str]:
    """A key of `COUNTS` for each run, of runs from the newest to the oldest."""
    completed = {run.log.header.eval.task_id for run in runs if run.log.finished}
    seen, again = set[str](), repeated(runs)
    for run in runs:
        header = run.log.header.eval
        if header.eval_id in seen:
            yield "copy"
        elif not run.log.finished:
            yield "superseded" if header.task_id in completed else "unfinished"
        else:
            yield "repeated" if run in again else "yes"
        seen.add(header.eval_id)


def _notes(frame: pd.DataFrame) -> Iterator[str]:
    number = frame["counts"].value_counts()
    if number.get("unfinished"):
        yield f"Runs that never finished: {number['unfinished']}. No page but this one counts them."
    if number.get("repeated"):
        yield (
            f"Finished runs that were run again later with the same model, setup and scorers: {number['repeated']}. "
            "The tables have a row for each: give only the logs that you mean to compare."
        )
    if (frame["commit"].str.endswith("+")).any():
        yield "The code of some runs was changed after its commit, so that the commit does not say what ran."
    commits = frame.loc[frame["commit"] != "", "commit"].nunique()
    if commits > 1:
        yield f"The runs are of {commits} commits: a difference between them may be one of the code."


if __name__ == "__main__":
    main(load, chart, __doc__, report)
