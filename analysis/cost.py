"""What does an interval cost? Tokens and money by the width of the interval that they bought.

python -m truthgym.analysis.cost LOGS OUT.md --width 0.05 --prices prices.yaml
truthgym cost truthgym/urns -T n=200 --solver truthgym/chain_of_thought --model openai/gpt-5.4-mini
"""

import math
from typing import Any

import altair as alt
import pandas as pd

from truthgym.analysis import performance
from truthgym.analysis.tables.answers import UNREAD
from truthgym.analysis.tables.markdown import by_reason, page, picture, section, table
from truthgym.analysis.tables.panels import COLORS, SHAPES, grid, scale
from truthgym.analysis.tables.prices import money_of, prices_in
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.setups import Places, runs
from truthgym.datasets.errors import BadInput, positive
from truthgym.scorers.declaration import FEW_QUESTIONS, LEAST_SHARE_SCORED

QUESTION = "What does an interval cost?"
LABELS = {
    **{"n": "questions", "tokens": "million tokens", "for_width": "million tokens for the width"},
    **{"money": "dollars", "money_for_width": "dollars for the width"},
}


def load(logs: Places, scorer: str = "", width: float | str = 0.05, prices: str = "") -> pd.DataFrame:
    """Compare what the estimates of finished evals cost with the width of their intervals.

    An interval narrows with the square root of the number of questions: half the width costs four times as much.
    `tokens_for_width` and `money_for_width` are what the `width` (upper minus lower) would cost with more or fewer such
    questions, NaN of evals with fewer than thirty questions or too few answers read. `money` is NaN without a price of
    every model; `prices` is a file as `inspect eval --model-cost-config` takes it.
    """
    target = positive("width", width, "the width of an interval, such as 0.05")
    price_list = prices_in(prices)
    frame = performance.load(logs, scorer)
    money = {run.log.path: money_of(run.log.header.stats.model_usage, price_list) for run in runs(logs)}
    sides = frame[["tokens_in", "tokens_out"]].mul(frame["answers"] + frame["failed"], axis=0)
    frame = frame.assign(tokens=sides.sum(axis=1), money=frame["log"].map(money), width=target)
    frame[["tokens_in", "tokens_out"]] = sides
    frame["interval"] = frame["upper"] - frame["lower"]
    enough, read = frame["n"] >= FEW_QUESTIONS, ~(frame["share_read"] < LEAST_SHARE_SCORED)
    factor = ((frame["interval"] / target) ** 2).where(enough & read)
    frame["tokens_for_width"], frame["money_for_width"] = frame["tokens"] * factor, frame["money"] * factor
    names = frame["scorer"] + " of " + frame["model"] + " in " + frame["setup"]
    narrow, used = frame["interval"].gt(0), frame["tokens"].gt(0)
    both = narrow & used
    if not both.any():
        raise BadInput("No log has both an interval and tokens to compare; give logs with more questions")
    refused = {"no interval": names[~narrow].tolist(), "no tokens": names[narrow & ~used].tolist()}
    few = f"fewer than {FEW_QUESTIONS} questions"
    rough = {few: names[both & ~enough].tolist(), UNREAD: names[both & enough & ~read].tolist()}
    why = "the log records none, and no price of a model in it was given"
    unpriced = frame.loc[frame["money"].isna(), "model"].unique().tolist()
    columns = ["scorer", "figure", "setup", "model", "n", "epochs", "answers", "interval", "tokens_in", "tokens_out",
               "tokens", "money", "width", "tokens_for_width", "money_for_width", "log"]  # fmt: skip
    frame = frame.loc[both, columns].sort_values(["scorer", "tokens_for_width", "log"], ignore_index=True)
    frame.attrs["notes"] = [
        *by_reason(refused),
        *by_reason(rough, "Without a cost of the width, and not drawn"),
        *by_reason({why: unpriced}, "Without a cost in money"),
        "The tokens of an eval are those of all its scorers together, without replies from Inspect's cache.",
    ]
    return frame


def chart(frame: pd.DataFrame) -> alt.ConcatChart:
    """Draw the width of the interval by the tokens paid; along a dotted line it falls with the root of the tokens."""
    panels = [_panel(rows) for _, rows in _compared(frame).groupby("scorer", sort=True)]
    nothing = f"No two evals of one scorer have {FEW_QUESTIONS} questions to compare; run more models or setups"
    figure: alt.ConcatChart = grid(panels, 2, nothing).resolve_scale(color="independent", shape="independent")
    return figure


def _compared(frame: pd.DataFrame) -> pd.DataFrame:
    rows = frame.dropna(subset="tokens_for_width")
    return rows[rows.groupby("scorer")["log"].transform("size") > 1]


def _panel(rows: pd.DataFrame) -> alt.LayerChart:
    best, setups = rows.iloc[0], sorted(rows["setup"].unique())
    tokens = [rows["tokens"].min() / 1.5, rows["tokens"].max() * 1.5]
    widths = [best["interval"] * math.sqrt(best["tokens"] / token) for token in tokens]
    log = alt.Scale(type="log", nice=False, padding=12)
    x = alt.X("tokens:Q", title="tokens read and written", scale=log, axis=alt.Axis(format="~s", tickCount=4))
    y = alt.Y("interval:Q", title=f"width of the interval of {best['figure']} (lower is better)", scale=log)
    line = alt.Chart(pd.DataFrame({"tokens": tokens, "interval": widths})).mark_line(strokeDash=[2, 3], color="gray")
    named: dict[str, Any] = {"title": None, "legend": alt.Legend(orient="bottom", columns=1, labelLimit=400)}
    points = (
        alt.Chart(rows)
        .mark_point(filled=True, size=70, opacity=0.9)
        .encode(
            x=x,
            y=y,
            color=alt.Color("setup:N", scale=scale(setups, COLORS), **named),
            shape=alt.Shape("setup:N", scale=scale(setups, SHAPES), **named),
            tooltip=["model", "setup", "n", "epochs", "interval", "tokens", "money", "tokens_for_width"],
        )
    )
    layers = [line.encode(x=x, y=y), points]
    return alt.LayerChart(layer=layers).properties(width=340, height=240, title=best["scorer"])


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """The costs as Markdown tables, one for each scorer, cheapest first."""
    columns = ["setup", "model", "n", "epochs", "interval", "tokens", "for_width"]
    columns += ["money", "money_for_width"] * bool(frame["money"].notna().any())
    millions = {"tokens": frame["tokens"] / 1e6, "for_width": frame["tokens_for_width"] / 1e6}
    costs = frame.assign(**millions, n=frame["n"].astype(int))
    parts = [
        section(f"`{scorer}`", table(rows, columns, LABELS | {"interval": f"width of {rows['figure'].iloc[0]}"}))
        for scorer, rows in costs.groupby("scorer", sort=True)
    ]
    legend = (
        f"\nFor the width: what an interval of width {frame['width'].iloc[0]:g} would cost with more or fewer such "
        "questions. Half the width costs four times as much.\n"
    )
    n = _compared(costs)["n"]
    caption = (
        f"Width of each 95 % interval by the tokens of its eval, of {n.min()} to {n.max()} questions. Dotted: what the "
        "cheapest setup would pay for other widths."
    )
    return page([*parts, legend, picture(figure, "Widths by tokens", caption)], frame)


if __name__ == "__main__":
    main(load, chart, __doc__, report)
