"""Panels of a chart of scores: by setup, or against a model's size or ability."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from truthgym.analysis.tables.policies import in_words
from truthgym.analysis.tables.setups import bare_name
from truthgym.scorers.declaration import LEAST_SHARE_SCORED
from truthgym.tasks.domain_task import SCORER_BY_NAME

if TYPE_CHECKING:
    import pandas as pd

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Of the models, in order: told apart by colour-blind readers (Okabe and Ito 2008, without yellow)."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


def left_out_title(names: Sequence[str]) -> Any:  # noqa: ANN401
    """The title of a figure from which the user left something out; undefined if nothing."""
    return alt.Title(f"Left out: {', '.join(names)}", fontSize=11, fontWeight="normal") if names else alt.Undefined


def left_out_sentence(names: Sequence[str]) -> str:
    """The same for a caption."""
    return f" Left out by the user: {', '.join(names)}." * bool(names)


def shown_scores(rows: "pd.DataFrame", y: str) -> "dict[str, pd.Series[float]]":
    """Score and bounds as the chart shows them."""
    import numpy as np

    columns = {f"shown_{name}": rows[name].astype(float) for name in ("score", "lower", "upper")}
    if y == "negated":
        columns = {"shown_score": -rows["score"], "shown_lower": -rows["upper"], "shown_upper": -rows["lower"]}
    if y == "log":
        columns = {name: values.where(values > 0).map(np.log) for name, values in columns.items()}
    return columns


def _title(rows: "pd.DataFrame", y: str) -> tuple[str, float | None]:
    """The title of the axis of scores, with the better direction, and the reference value on that axis."""
    figure, paradigm = rows["figure"].iloc[0], SCORER_BY_NAME.get(bare_name(rows["scorer"].iloc[0]))
    name = {"negated": f"minus {figure}", "log": f"log of {figure}"}.get(y, figure)
    better = f" ({'untransformed: ' * (y != 'score')}{paradigm.better})" if paradigm else ""
    reference = paradigm.reference if paradigm else None
    if reference is not None and y == "negated":
        reference = -reference
    if reference is not None and y == "log":
        reference = math.log(reference) if reference > 0 else None
    return f"{name}{better}", reference


def _mark(rows: "pd.DataFrame", groups: list[str]) -> dict[str, Any]:
    """The channels of a point: colour and shape by group, hollow if too few answers were read."""
    legend = alt.Legend(orient="top", columns=3, labelLimit=400, symbolOpacity=1, symbolFillColor=None)
    read, fill = (
        f"datum.share_read >= {LEAST_SHARE_SCORED}",
        alt.Color("group:N", scale=_scale(groups, COLORS), legend=None),
    )
    shown = [
        "label",
        "model",
        "setup",
        "scorer",
        "score",
        "lower",
        "upper",
        "n",
        "epochs",
        "mde",
        "share_read",
        "verdict",
    ]
    return {
        "shape": alt.Shape("group:N", title=None, scale=_scale(groups, SHAPES), legend=legend),
        "fill": alt.condition(read, fill, alt.value("white")),
        "tooltip": shown,
    }


def _color(groups: list[str]) -> alt.Color:
    legend = alt.Legend(orient="top", columns=3, labelLimit=400, symbolOpacity=1, symbolFillColor=None)
    return alt.Color("group:N", title=None, scale=_scale(groups, COLORS), legend=legend)


def by_name(rows: "pd.DataFrame", groups: list[str], y: str) -> alt.LayerChart | alt.FacetChart:
    title, reference = _title(rows, y)
    base = alt.Chart(rows).encode(
        y=alt.Y("setup:N", title=None, sort=alt.EncodingSortField("score", op="mean"), axis=alt.Axis(labelLimit=500)),
        yOffset=alt.YOffset("label:N", sort=sorted(rows["label"].unique())),
        color=_color(groups),
    )
    interval = base.mark_rule(strokeWidth=2).encode(x=alt.X("shown_lower:Q", title=title), x2="shown_upper:Q")
    point = base.mark_point(size=70, opacity=1, strokeWidth=2).encode(x="shown_score:Q", **_mark(rows, groups))
    layers = [interval, point]
    if (rows["group"] != rows["label"]).any():
        layers.append(base.mark_text(align="left", dx=5, fontSize=10).encode(x="shown_upper:Q", text="label:N"))
    if reference is not None:
        rule = alt.Chart(rows).mark_rule(strokeDash=[4, 4], color="gray")
        layers.insert(0, rule.encode(x=alt.datum(reference)))
    layered: alt.LayerChart | alt.FacetChart = alt.layer(*layers).properties(
        width=480, height={"step": 14}, title=alt.Title(rows["scorer"].iloc[0], anchor="start", frame="group")
    )
    return layered


def against(rows: "pd.DataFrame", groups: list[str], attrs: Mapping[Any, Any]) -> alt.LayerChart | alt.FacetChart:
    """Scores against a size or ability, with their rank correlation."""
    scorer, setup, best = rows[["scorer", "setup", "best"]].iloc[0]
    title, reference = _title(rows, attrs["y"])
    scale = alt.Scale(type="log", padding=30) if attrs["x"] == "size" else alt.Scale(zero=False, padding=30)
    name = "billions of parameters" if attrs["x"] == "size" else attrs["x"]
    base = alt.Chart(rows).encode(x=alt.X("x:Q", title=name, scale=scale), color=_color(groups))
    layers = [
        base.mark_rule(strokeWidth=2).encode(y=alt.Y("shown_lower:Q", title=title), y2="shown_upper:Q"),
        base.mark_point(size=70, opacity=1, strokeWidth=2).encode(y="shown_score:Q", **_mark(rows, groups)),
        base.mark_text(align="left", dx=7, dy=-7, fontSize=10).encode(y="shown_score:Q", text="label:N"),
    ]
    if reference is not None:
        rule = alt.Chart(rows).mark_rule(strokeDash=[4, 4], color="gray")
        layers.insert(0, rule.encode(y=alt.datum(reference)))
    correlations = [
        correlation
        for correlation in attrs["correlations"]
        if (correlation["scorer"], correlation["setup"]) == (scorer, setup)
    ]
    heading = alt.Title(
        f"{scorer}, {setup}",
        subtitle=[
            f"Spearman of {name} and {'better scores' if best else scorer}: {in_words(one)}" for one in correlations
        ]
        or "too few models for a rank correlation",
    )
    heading.anchor, heading.frame = "start", "group"
    layered: alt.LayerChart | alt.FacetChart = alt.layer(*layers).properties(width=420, height=260, title=heading)
    return layered


def _scale(models: list[str], values: Sequence[str]) -> alt.Scale:
    return alt.Scale(domain=models, range=[values[i % len(values)] for i in range(len(models))])
