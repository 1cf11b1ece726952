"""What a setting that was assigned says about causes: two-stage least squares and mediation, within questions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from truthgym.analysis.tables.design import CROSSED, factors
from truthgym.analysis.tables.questions import Doubt
from truthgym.datasets.errors import one_of
from truthgym.scorers.statistics.regression import MIN_CLUSTERS_REGRESSED, mediated, two_stage
from truthgym.scorers.statistics.slopes import MIN_F, ROUNDING_ERROR

if TYPE_CHECKING:
    import pandas as pd

BRIER = "brier: brier_score"
UNIT = ["model", "domain", "sample_id"]
MOST_LEVELS = 6
"""Settings above which there is no mediation: each is compared with the first."""


def causes(
    answers: "pd.DataFrame", numbers: "pd.DataFrame", x: str, y: str, setting: str, doubts: list[Doubt]
) -> Iterator[dict[str, Any]]:
    """The rows of `relationship` of the kinds "two-stage least squares", "mediated" and "direct".

    All numbers are taken within the answers of one model to one question, in which every setting occurs, so that
    neither is a reason for a difference.

    Args:
        answers: A row for each answer and number.
        numbers: From `measures.by_answer`.
        x: The cause. "": each column but y.
        y: The effect. "": the Brier score, or else the first column.
        setting: "mode", or a task argument.
        doubts: Takes what cannot be concluded.

    Raises:
        BadInput: A setting that does not differ in the logs.
    """
    levels = factors(answers)
    if setting not in levels:
        if setting != "mode":
            one_of("setting", setting, list(map(str, levels)))
        doubts.append(Doubt("No effect of a setting", "all numbers", "all answers have the same mode; run another"))
        return
    nothing = f"No effect of the {setting}"
    effect = y or (BRIER if BRIER in numbers else str(numbers.columns[0]))
    by_run = dict(zip(answers["eval_id"], levels[setting], strict=True))
    rows = numbers.reset_index()
    rows["setting"] = rows["eval_id"].map(by_run)
    for cause in [x] if x else [name for name in numbers if name != effect]:
        both = rows.dropna(subset=[cause, effect])
        number = both["setting"].nunique()
        complete = both.groupby(UNIT)["setting"].transform("nunique") == number
        if number < 2:
            doubts.append(Doubt(nothing, f"{cause} and {effect}", f"no two values of {setting} have both numbers"))
            continue
        if complete.mean() < CROSSED:
            share = 100 * complete.mean()
            reason = f"{100 * CROSSED:.0f} % must be to questions that were asked in every {setting}"
            doubts.append(Doubt(nothing, f"{cause} and {effect}: {share:.0f} % of the answers", reason))
            continue
        yield from _effects(both[complete].reset_index(drop=True), str(cause), effect, setting, doubts)


def _effects(
    rows: "pd.DataFrame", cause: str, effect: str, setting: str, doubts: list[Doubt]
) -> Iterator[dict[str, Any]]:
    events = list(rows["domain"] + " " + rows["event"].astype(str))
    if len(set(events)) < MIN_CLUSTERS_REGRESSED:
        what, reason = f"{cause} and {effect}: {len(set(events))} events", f"{MIN_CLUSTERS_REGRESSED} are needed"
        doubts.append(Doubt(f"No effect of the {setting}", what, reason))
        return
    deviation = float(rows[cause].std())
    if not deviation > ROUNDING_ERROR:
        return
    first, *others = sorted(rows["setting"].unique())
    unit = [rows[name] for name in UNIT]

    def within(values: "pd.Series[float]") -> "np.ndarray[Any, np.dtype[np.float64]]":
        return (values - values.groupby(unit).transform("mean")).to_numpy(dtype=float)

    x, y = within(rows[cause] / deviation), within(rows[effect])
    moved = np.column_stack([within((rows["setting"] == level).astype(float)) for level in others])
    facts = {"level": "answers", "x": cause, "y": effect, "n": len(rows), "clusters": len(set(events))}
    found = two_stage(y, x, moved, np.ones((len(rows), 1)), events)
    if found.first_stage < MIN_F:
        what = f"{cause} and {effect}: F {found.first_stage:.1f}"
        reason = (
            f"the {setting} moves the first too little to be an instrument; a first-stage F of {MIN_F:.0f} is needed"
        )
        doubts.append(Doubt("No effect by two-stage least squares", what, reason))
    slope = {"estimate": found.slope.estimate, "lower": found.slope.lower, "upper": found.slope.upper, "p": found.p}
    given = f"instrument: {setting}; model and question"
    yield {"kind": "two-stage least squares", "given": given, **facts, **slope, "strength": found.first_stage}
    for level in others[:MOST_LEVELS]:
        pair = rows["setting"].isin([first, level]).to_numpy()
        treated = moved[pair][:, others.index(level)]
        chosen = [event for event, keep in zip(events, pair, strict=True) if keep]
        for kind, one in mediated(treated, x[pair], y[pair], chosen).items():
            bounds = {"estimate": one.estimate, "lower": one.lower, "upper": one.upper, "p": one.p}
            given = f"{setting} {level} against {first}; model and question"
            yield {"kind": kind, "given": given, **facts, **bounds, "n": int(pair.sum()), "strength": float("nan")}
