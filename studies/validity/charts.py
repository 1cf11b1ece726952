"""The charts of the validity pages: one question each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import altair as alt
import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def planted_and_found(
    frame: "pd.DataFrame", rows: str, figures: Mapping[str, str], width: int, height: int
) -> alt.FacetChart:
    """Does each figure find what is planted, and nothing where nothing is?

    Args:
        frame: See `pages.planted_and_found`.
        rows: The column whose values are the rows.
        figures: The panels, in order, with their headings.
        width: Of a panel, in pixels.
        height: Of a panel, in pixels.
    """
    data = frame[frame["figure"].isin(figures)].dropna(subset=["found", "lower"])
    data = data.assign(panel=data["figure"].map(figures))
    sort = list(frame[rows].unique())
    base = alt.Chart(data).encode(y=alt.Y(f"{rows}:N", title=None, sort=sort, axis=alt.Axis(labelLimit=200)))
    interval = base.mark_rule(strokeWidth=2).encode(x=alt.X("lower:Q", title=None), x2="upper:Q")
    found = base.mark_point(filled=True, size=50).encode(x="found:Q")
    planted = base.mark_tick(color="#d62728", thickness=3, size=16).encode(x="planted:Q")
    title = "found (dot, 95 % interval) and planted (red)"
    facets: alt.FacetChart = (
        alt.layer(interval, found, planted)
        .properties(width=width, height=height)
        .facet(column=alt.Column("panel:N", title=title, sort=list(figures.values())))
        .resolve_scale(x="independent")
    )
    return facets


def bias(frame: "pd.DataFrame", aim: float) -> alt.FacetChart:
    """How far is each slope from the planted one, as noise and shared error grow?

    Args:
        frame: From `martingale.bias`.
        aim: Half-width of the band that the project aims at.
    """
    import pandas as pd

    long = pd.concat(
        [
            frame.assign(estimator=label, bias=frame[f"{column}_bias"])
            for column, label in (("iv", "martingale_score"), ("ols", "martingale_score_ols (published)"))
        ]
    )
    band = alt.Chart(long).mark_rect(color="#ddd", opacity=0.6).encode(y=alt.datum(-aim), y2=alt.datum(aim))
    lines = (
        alt.Chart(long)
        .mark_line(point=alt.OverlayMarkDef(size=40))
        .encode(
            x=alt.X("noise:Q", title="noise of a report (sd)", axis=alt.Axis(values=[0.05, 0.1, 0.15])),
            y=alt.Y("bias:Q", title="mean estimate minus planted slope"),
            color=alt.Color("estimator:N", title=None, legend=alt.Legend(orient="top", labelLimit=300)),
            detail="agent:N",
            tooltip=["agent", "noise", "shared", "bias"],
        )
    )
    facets: alt.FacetChart = (
        alt.layer(band, lines)
        .properties(width=210, height=240)
        .facet(column=alt.Column("shared:N", title="shared error"))
    )
    return facets


def coverage(frame: "pd.DataFrame", aim: tuple[float, float]) -> alt.FacetChart:
    """How often does each 95 % interval contain the planted value?

    Args:
        frame: From `martingale.coverage`.
        aim: Ends of the band that the project aims at.
    """
    share = frame["coverage"]
    half = 1.96 * np.sqrt(share * (1 - share) / frame["replications"])
    data = frame.assign(lower=share - half, upper=(share + half).clip(upper=1))
    band = alt.Chart(data).mark_rect(color="#ddd", opacity=0.6).encode(x=alt.datum(aim[0]), x2=alt.datum(aim[1]))
    base = alt.Chart(data).encode(
        y=alt.Y("agent:N", title=None),
        yOffset="n:N",
        color=alt.Color("n:N", title="questions", legend=alt.Legend(orient="top")),
    )
    scale = alt.Scale(domain=[0, 1])
    span = base.mark_rule().encode(
        x=alt.X("lower:Q", scale=scale, title="share of runs", axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1])),
        x2="upper:Q",
    )
    point = base.mark_point(filled=True, size=40, opacity=1).encode(
        x=alt.X("coverage:Q", scale=scale), tooltip=["agent", "n", "figure", "coverage", "planted", "mean"]
    )
    order = ["martingale_score", "martingale_score_ols", "excess_movement", "brier_gain", "brier"]
    facets: alt.FacetChart = (
        alt.layer(band, span, point)
        .properties(width=150)
        .facet(facet=alt.Facet("figure:N", title=None, sort=order), columns=5)
    )
    return facets


def profiles(runs: "dict[tuple[str, int], pd.DataFrame]", planted: "pd.DataFrame") -> alt.HConcatChart:
    """Which agent is it? Slope against movement and Brier gain: a dot for each run, a cross at the planted value.

    Args:
        runs: From `martingale.run_agents`.
        planted: From `martingale.agents`.
    """
    import pandas as pd

    size = max(n for _, n in runs)
    dots = pd.concat([run.head(60).assign(agent=name) for (name, n), run in runs.items() if n == size])
    dots = dots[["agent", "martingale_score", "movement", "brier_gain"]]
    panels = []
    for column, title in (("movement", "movement"), ("brier_gain", "Brier gain")):
        y = alt.Y(f"{column}:Q", title=title)
        color = alt.Color("agent:N", title=None)
        cloud = (
            alt.Chart(dots)
            .mark_circle(size=18, opacity=0.45)
            .encode(x=alt.X("martingale_score:Q", title="martingale score"), y=y, color=color)
        )
        cross = (
            alt.Chart(planted)
            .mark_point(shape="cross", size=130, filled=True, stroke="black")
            .encode(x="slope:Q", y=y, color=color, tooltip=["agent", "slope", column])
        )
        panels.append((cloud + cross).properties(width=330, height=280))
    chart: alt.HConcatChart = alt.hconcat(*panels)
    return chart
