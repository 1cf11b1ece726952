"""What the charts share: the panel of intervals, scales and titles."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from truthgym.datasets.errors import BadInput

BLUE, ORANGE, GREEN, GRAY = "#0072B2", "#D55E00", "#009E73", "#999999"
COLORS = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000", GRAY)
"""Of the models, in order: told apart by colour-blind readers (Okabe and Ito 2008, without yellow)."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
ZERO = {0.0: "gray"}
Panels = Sequence[alt.Chart | alt.LayerChart | alt.HConcatChart]


def interval_panel(
    rows: "pd.DataFrame | None",
    estimate: alt.X | alt.Y,
    bounds: tuple[str, str] = ("lower", "upper"),
    dashed: Mapping[float, str] = ZERO,
    color: alt.Color | str | None = BLUE,
    width: float = 2,
    point: Mapping[str, Any] | None = None,
    layers: Sequence[alt.Chart] = (),
    **channels: Any,
) -> alt.LayerChart:
    """A rule from a lower to an upper bound with a point at the estimate, for each row.

    `rows` is None where the chart around it has the data. `estimate` is the axis of the numbers, `alt.Y` for upright
    intervals; `dashed` the values at which a dashed line stands, with its color; `point` properties of the points,
    which a channel `fill` makes hollow; `layers` are drawn below the intervals; `channels` such as `y` or `tooltip`.
    """
    axis = "x" if isinstance(estimate, alt.X) else "y"
    lower = estimate.copy()
    lower.shorthand = f"{bounds[0]}:Q"
    painted: dict[str, Any] = {"color": color} if isinstance(color, str) else {}
    channels |= {"color": color} if isinstance(color, alt.Color) else {}
    hollow: dict[str, Any] = {"strokeWidth": 2} if "fill" in channels else {"filled": True}
    own = {name: channels.pop(name) for name in ("fill", "shape", "tooltip") if name in channels}
    base = alt.Chart(alt.Undefined if rows is None else rows).encode(**channels)
    lines = [
        alt.Chart().mark_rule(strokeDash=[4, 4], color=shade).encode(**{axis: alt.datum(value)})
        for value, shade in dashed.items()
    ]
    rule = base.mark_rule(strokeWidth=width, **painted).encode(**{axis: lower, f"{axis}2": f"{bounds[1]}:Q"})
    dot = base.mark_point(**({"size": 60, "opacity": 1} | hollow | painted | dict(point or {})))
    return alt.LayerChart(layer=[*lines, *layers, rule, dot.encode(**{axis: estimate}, **own)])


def grid(panels: Panels, columns: int, nothing: str) -> alt.ConcatChart:
    """The panels of a figure in so many columns, or the error that there is nothing to draw."""
    if not panels:
        raise BadInput(nothing)
    figure: alt.ConcatChart = alt.concat(*panels, columns=columns)
    return figure


def stack(
    panels: Panels, nothing: str, title_limit: int | None = None, excluded: Sequence[str] = (), **properties: Any
) -> alt.VConcatChart:
    """The panels of a figure below each other, with axis titles of so many pixels, and what the user left out."""
    if not panels:
        raise BadInput(nothing)
    if excluded:
        properties["title"] = alt.Title(f"Left out: {', '.join(excluded)}", fontSize=11, fontWeight="normal")
    figure: alt.VConcatChart = alt.vconcat(*panels, **properties)
    return figure.configure_axis(titleLimit=title_limit) if title_limit else figure


def labels(column: str, sort: Any, limit: int) -> alt.Y:  # noqa: ANN401
    """The axis of names, each of at most so many pixels."""
    return alt.Y(f"{column}:N", sort=sort, title=None, axis=alt.Axis(labelLimit=limit))


def heading(title: str, subtitle: str | Sequence[str]) -> alt.Title:
    """The title of a panel, above its labels too."""
    return alt.Title(title, subtitle=subtitle, anchor="start", frame="group")


def scale(names: Sequence[str], values: Sequence[str] | Mapping[str, str]) -> alt.Scale:
    """A color or shape for each name: its own, or in order and from the beginning again."""
    if isinstance(values, Mapping):
        return alt.Scale(domain=list(names), range=[values[name] for name in names])
    return alt.Scale(domain=list(names), range=[values[i % len(values)] for i in range(len(names))])


def excluded_sentence(names: Sequence[str]) -> str:
    """What the user left out, for a caption."""
    return f" Left out by the user: {', '.join(names)}." * bool(names)
