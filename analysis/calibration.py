"""Do events happen as often as a model says? Reliability diagrams with consistency bands.

python -m truthgym.analysis.calibration LOGS OUT.md      (tables, with the chart beside it as OUT.svg)
"""

from collections import defaultdict
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truthgym.analysis.tables.answers import UNREAD, answers, by_question
from truthgym.analysis.tables.markdown import by_reason, number_range, page, picture, table, with_interval
from truthgym.analysis.tables.panels import BLUE, ORANGE, grid, scale
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.setups import Places, runs_if_any
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import binary_outcome
from truthgym.scorers.declaration import FEW_QUESTIONS, LEAST_SHARE_SCORED
from truthgym.scorers.statistics.calibration import (
    PER_BIN,
    bins_carried,
    expected_calibration_error,
    murphy_decomposition,
    recalibration,
    reliability_diagram,
)
from truthgym.scorers.statistics.direction import CLIP
from truthgym.scorers.statistics.proper_scores import finite_mean

QUESTION = "Do events happen as often as a model says?"
RUN = ["setup", "model", "scorer"]
"""The columns that name a diagram."""
OWN_ANSWER = "about=own_answer"
NOT_DRAWN = (
    "the belief is in the model's own answer, whose outcome is not that of the question; the scorer's `ece` and "
    "`calibration_slope` are of it"
)
INSIDE, OUTSIDE = "within the band", "outside the band"
LABELS = {"n": "questions", "share": "read", "ece": "ECE", "ece_null": "ECE if calibrated"}
LABELS["outside"] = "bins outside the band"


def load(logs: Places, scorer: str = "brier") -> pd.DataFrame:
    """Compute a reliability diagram for each model in each setup: a row for each point.

    `forecast`, the mean in the bin, and `frequency`, the share of "yes"; `lower` and `upper`, the consistency band: the
    central 95 % of the frequencies of a calibrated forecaster; `band`, whether the frequency is in it. The other
    columns are of the whole diagram, computed as by the scorer `brier`, whose `belief` is read.
    """
    forecasts = answers(logs, scorer=scorer)
    forecasts["outcome"] = forecasts["target"].map(binary_outcome).astype(float).fillna(forecasts["outcome"])
    forecasts = forecasts[(forecasts["key"] == "belief") & forecasts["outcome"].notna()]
    own = forecasts["scorer"].str.contains(OWN_ANSWER)
    rows, shared = [], []
    refused = defaultdict[str, list[str]](list)
    for names, _ in forecasts[own].groupby(RUN, sort=True):
        refused[NOT_DRAWN].append(f"{names[1]} in {names[0]}")
    for names, answered in forecasts[~own].groupby(RUN, sort=True):
        run = dict(zip(RUN, names, strict=True))
        name = f"{run['model']} in {run['setup']}"
        question, values, event, _ = by_question(answered)
        read = np.isfinite(values).any(axis=1)
        outcomes = answered.drop_duplicates("sample_id").set_index("sample_id")["outcome"].loc[question]
        p, y = values[read], outcomes.to_numpy(dtype=float)[read]
        events = [event[i] for i in np.flatnonzero(read)]
        share = float(answered["value"].notna().mean())
        if reason := _reason(len(y), share, y):
            refused[reason].append(name)
            continue
        figures = run | {"n": len(y), "epochs": p.shape[1], "share_read": share} | _figures(p, y, events)
        for point in reliability_diagram(p, y, bins_carried(events), events):
            band = INSIDE if point.lower <= point.frequency <= point.upper else OUTSIDE
            rows.append(point._asdict() | {"questions": point.n, "band": band} | figures)
        if len(set(event)) < len(event):
            shared.append(name)
    if not rows:
        why = "; ".join(refused) or "no question has a known outcome"
        raise BadInput(f"No log allows a reliability diagram: {why}; ask more questions with a known outcome")
    frame = pd.DataFrame(rows)
    remark = "questions share events: the band is that of events whose questions all resolve the same way"
    frame.attrs["notes"] = (
        runs_if_any(logs).omissions + by_reason(refused) + by_reason({remark: shared}, "Read with care")
    )
    return frame


def chart(frame: pd.DataFrame) -> alt.ConcatChart:
    """Draw frequency against forecast, a panel for each model and setup. Bars: the consistency bands."""
    panels = [_panel(rows) for _, rows in frame.groupby(RUN, sort=False)]
    return grid(panels, 3, "There is no reliability diagram to draw; ask more questions with a known outcome")


def _panel(rows: pd.DataFrame) -> alt.LayerChart:
    unit = alt.Scale(domain=[0, 1])
    ends = pd.DataFrame({"x": [0, 1], "y": [0, 1]})
    diagonal = alt.Chart(ends).mark_line(strokeDash=[4, 4], color="gray").encode(x="x:Q", y="y:Q")
    base = alt.Chart(rows).encode(x=alt.X("forecast:Q", title="forecast", scale=unit))
    frequency = alt.Y("lower:Q", title="frequency (on the diagonal: calibrated)", scale=unit)
    band = base.mark_rule(strokeWidth=7, opacity=0.35, color="gray").encode(y=frequency, y2="upper:Q")
    bands, legend = [INSIDE, OUTSIDE], alt.Legend(orient="top", title=None)
    points = base.mark_point(filled=True, size=60, opacity=1).encode(
        y="frequency:Q",
        color=alt.Color("band:N", legend=legend, scale=scale(bands, (BLUE, ORANGE))),
        shape=alt.Shape("band:N", legend=legend, scale=scale(bands, ("circle", "diamond"))),
        tooltip=["forecast", "frequency", "lower", "upper", "questions"],
    )
    run = rows.iloc[0]
    title = alt.Title(run["model"], subtitle=f"{run['setup']}, {run['scorer']}: {run['n']} questions", limit=260)
    return alt.LayerChart(layer=[band, diagonal, points]).properties(width=220, height=220, title=title)


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """The figures of each diagram as a Markdown table, with a legend and what cannot be concluded."""
    runs = frame.drop_duplicates(RUN).assign(
        outside=[f"{(rows['band'] == OUTSIDE).sum()} of {len(rows)}" for _, rows in frame.groupby(RUN, sort=False)],
        share=lambda rows: rows["share_read"].map(lambda share: f"{100 * share:.0f} %"),
        slope=lambda rows: [with_interval(*ends) for ends in rows[["slope", "slope_lower", "slope_upper"]].to_numpy()],
    )
    columns = (*RUN, "n", "epochs", "share", "slope", "reliability", "resolution", "ece", "ece_null", "outside")
    diagrams = picture(figure, "Reliability diagrams", CAPTION.format(n=number_range(runs["n"])))
    return page([table(runs, columns, LABELS), LEGEND, diagrams], frame)


LEGEND = (
    "\n`slope`: 1 is calibrated, below 1 too extreme, above 1 not extreme enough (95 % interval, none with fewer than "
    "ten events that went against a forecast). `reliability` (lower is better) and "
    "`resolution` (higher is better) are parts of the Brier score, corrected for bias. ECE means something only beside "
    "its value for a calibrated forecaster of the same questions. One bin of twenty is outside its band by chance.\n"
)
CAPTION = (
    "Share of events that happened, by forecast, of {n} questions in each panel, in as many bins as leave about "
    f"{PER_BIN} independent events in each. Gray: where 95 % of a calibrated forecaster's points would be (consistency "
    "resampling; a question counts once, whatever its epochs)."
)


def _reason(n: int, share: float, y: NDArray[np.float64]) -> str:
    """Why a diagram is not drawn. "" if it is."""
    if n < FEW_QUESTIONS:
        return f"fewer than {FEW_QUESTIONS} questions with a belief and an outcome"
    if share < LEAST_SHARE_SCORED:
        return UNREAD
    return "all outcomes are equal" if y.min() == y.max() else ""


def _figures(p: NDArray[np.float64], y: NDArray[np.float64], events: Sequence[str]) -> dict[str, float]:
    """The calibration figures of `brier`: epochs one at a time, then averaged."""
    murphy = np.array([murphy_decomposition(epoch, y, events=events) for epoch in p.T])
    error = np.array([expected_calibration_error(epoch, y, events=events) for epoch in p.T])
    line = recalibration(p, y[:, None], CLIP, events)
    slope = {"slope": line.slope, "slope_lower": line.lower, "slope_upper": line.upper, "intercept": line.intercept}
    names = ("reliability", "resolution", "ece", "ece_null", "ece_null_upper")
    means = zip(names, [*murphy.T[:2], *error.T[:3]], strict=True)
    return slope | {name: finite_mean(values) for name, values in means}


if __name__ == "__main__":
    main(load, chart, __doc__, report)
