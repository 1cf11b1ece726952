"""How much of an answer's uplift do its first tokens have? World uplift against a budget of tokens.

    inspect score LOG --scorer truthgym/world_uplift -S budgets=50,200 --model-role forecaster=hf/NAME
    python -m truthgym.analysis.frontier logs/ frontier.html

The first B tokens of each answer are read by the forecaster and scored as the whole is, net of placebos of their
length. A model whose curve is above another's says more in as many tokens.
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from truthgym.analysis.tables.markdown import page, picture, table
from truthgym.analysis.tables.panels import interval_panel
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.setups import Places, Run, runs
from truthgym.datasets.errors import BadInput
from truthgym.evallog.schema import LoggedScore
from truthgym.scorers.statistics.interval import mean_estimate

QUESTION = "How much of what an answer helps to predict is in its first tokens?"
SCORER, AT = "world_uplift", "uplift_at_"
WHOLE = "whole"
"""The budget of an answer that is read to its end."""
CURVE = ["model", "setup"]
COLUMNS = ["model", "setup", "budget", "tokens", "uplift", "lower", "upper", "n"]


def load(logs: Places) -> pd.DataFrame:
    """The mean uplift of answers that are cut off at each budget: a row for each model, setup and budget.

    `tokens` is the mean number that the forecaster read, and `uplift` is net of the strongest placebo, in nats per
    observation, clustered by event. An answer that is shorter than a budget counts as a whole.
    """
    all_runs = runs(logs)
    rows: list[tuple[Any, ...]] = []
    for run, scores in all_runs.read(_scores):
        for score in scores:
            value = score.value if isinstance(score.value, dict) else {}
            budgets = [int(key.removeprefix(AT)) for key in value if key.startswith(AT)]
            if not budgets or value.get("uplift") is None:
                continue
            details, tokens = score.details, value["tokens"]
            uplifts: dict[float, float] = {budget: value[f"{AT}{budget}"] for budget in budgets}
            uplifts[np.inf] = value["uplift"] - value["placebo_uplift"]
            facts = (details.get("model") or run.model, run.setup, details["question"], details["event"])
            rows += [(*facts, budget, min(budget, tokens), uplift) for budget, uplift in uplifts.items()]
    if not rows:
        raise BadInput(
            f"{all_runs.place}: no answer was scored by {SCORER} with budgets; score a log with -S budgets=50,200, or "
            "use truthgym/world_in_the_loop with -T budgets=50,200"
        )
    answers = pd.DataFrame(rows, columns=[*CURVE, "question", "event", "budget", "tokens", "uplift"])
    by_question = answers.groupby([*CURVE, "budget", "question", "event"], as_index=False).mean()
    points = []
    for (model, setup, budget), part in by_question.groupby([*CURVE, "budget"]):
        mean, name = mean_estimate(part["uplift"], list(part["event"])), WHOLE if budget == np.inf else f"{budget:g}"
        tokens = float(part["tokens"].mean())
        points.append((model, setup, name, tokens, mean.estimate, mean.lower, mean.upper, mean.n))
    frame = pd.DataFrame(points, columns=COLUMNS)
    frame.attrs["notes"] = [
        *all_runs.omissions,
        "Tokens are those of the forecaster: curves compare under one forecaster only. An answer without information "
        "is somewhat below 0, since the greatest of three placebos is above each of them.",
    ]
    return frame


def _scores(run: Run) -> list[LoggedScore]:
    with run.log.reader as log:
        return [outcome.scores[SCORER] for _, outcome in log.outcomes() if outcome.scores and SCORER in outcome.scores]


def chart(frame: pd.DataFrame) -> alt.LayerChart:
    """Uplift against the mean number of tokens that were read, with 95 % intervals."""
    x = alt.X("tokens:Q", title="mean number of tokens read", scale=alt.Scale(zero=True))
    y = alt.Y("uplift:Q", title="world uplift (nats per observation, higher is better)")
    color = alt.Color("model:N", title=None, legend=alt.Legend(orient="top", labelLimit=400))
    line = alt.Chart(frame).mark_line().encode(x=x, y=y, color=color, detail="setup:N")
    bare: dict[str, Any] = {"dashed": {0: "#888"}, "width": 1, "point": {"size": 30}, "layers": [line]}
    panel = interval_panel(frame, y, color=color, x=x, detail="setup:N", tooltip=COLUMNS, **bare)
    return panel.properties(width=420, height=280)


def report(frame: pd.DataFrame, figure: str = "") -> str:
    drawing = picture(figure, "Uplift by budget", f"n = {frame['n'].max():,} questions, 95 % intervals.")
    return page([drawing, table(frame, COLUMNS)], frame)


if __name__ == "__main__":
    main(load, chart, __doc__, report)
