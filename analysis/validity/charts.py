"""The charts of `analysis.validity`: one question each."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from truthgym.datasets.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd


def check_extra() -> None:
    """Refuse to compute for minutes what could not be drawn.

    Raises:
        BadInput: What writes charts is not installed.
    """
    if find_spec("vl_convert") is None:
        raise BadInput('The charts of this page need vl-convert, which is not installed; pip install -e ".[charts]"')


def bias(frame: "pd.DataFrame", aim: float) -> alt.FacetChart:
    """How far is each slope from the planted one, as noise and shared error grow?

    Args:
        frame: From `validity.bias`.
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
            y=alt.Y("bias:Q", title="mean estimate less planted slope"),
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


def coverage(frame: "pd.DataFrame", held: tuple[float, float]) -> alt.FacetChart:
    """How often does each 95 % interval hold the planted value?

    Args:
        frame: From `validity.coverage`.
        held: Ends of the band that the project aims at.
    """
    shares = frame[["coverage", "replications"]].to_numpy()
    half = 1.96 * np.sqrt(shares[:, 0] * (1 - shares[:, 0]) / shares[:, 1])
    data = frame.assign(lower=shares[:, 0] - half, upper=np.minimum(shares[:, 0] + half, 1))
    band = alt.Chart(data).mark_rect(color="#ddd", opacity=0.6).encode(x=alt.datum(held[0]), x2=alt.datum(held[1]))
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
        x=alt.X("coverage:Q", scale=scale), tooltip=["agent", "n", "measure", "coverage", "planted", "mean"]
    )
    order = ["martingale_score", "martingale_score_ols", "excess_movement", "brier_gain", "brier"]
    facets: alt.FacetChart = (
        alt.layer(band, span, point)
        .properties(width=150)
        .facet(facet=alt.Facet("measure:N", title=None, sort=order), columns=5)
    )
    return facets


def profiles(runs: "dict[tuple[str, int], pd.DataFrame]", planted: "pd.DataFrame") -> alt.HConcatChart:
    """Which agent is it? Slope against movement and against Brier gain, each dot a run, each cross the planted value.

    Args:
        runs: From `validity.runs`.
        planted: From `validity.agents`.
    """
    import pandas as pd

    size = max(n for _, n in runs)
    dots = pd.concat([found.head(60).assign(agent=name) for (name, n), found in runs.items() if n == size])
    dots = dots[["agent", "estimate", "movement", "gain"]]
    panels = []
    for column, title in (("movement", "movement"), ("gain", "Brier gain")):
        y = alt.Y(f"{column}:Q", title=title)
        color = alt.Color("agent:N", title=None)
        cloud = (
            alt.Chart(dots)
            .mark_circle(size=18, opacity=0.45)
            .encode(x=alt.X("estimate:Q", title="martingale score"), y=y, color=color)
        )
        cross = (
            alt.Chart(planted)
            .mark_point(shape="cross", size=130, filled=True, stroke="black")
            .encode(x="slope:Q", y=y, color=color, tooltip=["agent", "slope", column])
        )
        panels.append((cloud + cross).properties(width=330, height=280))
    chart: alt.HConcatChart = alt.hconcat(*panels)
    return chart
