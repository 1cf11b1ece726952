"""What a setting that was assigned says about causes: two-stage least squares and mediation, within questions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from truthgym.analysis.tables.design import CROSSED, factors
from truthgym.analysis.tables.questions import Caveat
from truthgym.datasets.errors import one_of
from truthgym.scorers.statistics.instrumented_slope import MIN_F, ROUNDING_ERROR
from truthgym.scorers.statistics.multiplicity import p_value
from truthgym.scorers.statistics.regression import MIN_CLUSTERS_REGRESSED, mediated, two_stage

if TYPE_CHECKING:
    import pandas as pd

BRIER = "brier/brier_score"
MOST_LEVELS = 6
"""Settings above which there is no mediation: each is compared with the first."""


def causes(
    answers: "pd.DataFrame", numbers: "pd.DataFrame", x: str, y: str, setting: str, doubts: list[Caveat]
) -> Iterator[dict[str, Any]]:
    """The rows of `relationship` of the kinds "two-stage least squares", "mediated" and "direct".

    All numbers are taken within the answers of one model to one question with all other settings the same, in which
    every level of the setting occurs, so that none of these is a reason for a difference.
    """
    levels = factors(answers)
    if setting not in levels:
        if setting != "mode":
            one_of("setting", setting, list(map(str, levels)))
        doubts.append(Caveat("No effect of a setting", "all numbers", "all answers have the same mode; run another"))
        return
    nothing = f"No effect of the {setting}"
    effect = y or (BRIER if BRIER in numbers else str(numbers.columns[0]))
    others = [str(name) for name in levels if name != setting]
    by_run = levels.set_axis(answers["eval_id"]).loc[lambda one: ~one.index.duplicated()]
    rows = numbers.reset_index()
    rows = rows.assign(**{name: rows["eval_id"].map(by_run[name]) for name in others})
    rows["setting"] = rows["eval_id"].map(by_run[setting])
    unit = [*others, "sample_id"]
    for cause in [x] if x else [name for name in numbers if name != effect]:
        both = rows.dropna(subset=[cause, effect])
        number = both["setting"].nunique()
        complete = both.groupby(unit)["setting"].transform("nunique") == number
        if number < 2:
            doubts.append(Caveat(nothing, f"{cause} and {effect}", f"no two values of {setting} have both numbers"))
            continue
        if complete.mean() < CROSSED:
            share = 100 * complete.mean()
            reason = f"{100 * CROSSED:.0f} % must be to questions that were asked in every {setting}"
            doubts.append(Caveat(nothing, f"{cause} and {effect}: {share:.0f} % of the answers", reason))
            continue
        yield from _effects(both[complete].reset_index(drop=True), str(cause), effect, setting, unit, doubts)


def _effects(
    rows: "pd.DataFrame", cause: str, effect: str, setting: str, unit: list[str], doubts: list[Caveat]
) -> Iterator[dict[str, Any]]:
    events = list(rows["domain"] + " " + rows["event"].astype(str))
    if len(set(events)) < MIN_CLUSTERS_REGRESSED:
        what, reason = f"{cause} and {effect}: {len(set(events))} events", f"{MIN_CLUSTERS_REGRESSED} are needed"
        doubts.append(Caveat(f"No effect of the {setting}", what, reason))
        return
    deviation = float(rows[cause].std())
    if not deviation > ROUNDING_ERROR:
        return
    first, *others = sorted(rows["setting"].unique())
    rows = rows.assign(x=rows[cause] / deviation, y=rows[effect], event=events)
    x, y, *indicators = _within(rows, unit, others)
    moved = np.column_stack(indicators)
    facts = {"level": "answers", "x": cause, "y": effect, "n": len(rows), "clusters": len(set(events))}
    effects = two_stage(y, x, moved, np.ones((len(rows), 1)), events)
    if effects.first_stage < MIN_F:
        what = f"{cause} and {effect}: F {effects.first_stage:.1f}"
        reason = (
            f"the {setting} moves the first too little to be an instrument; a first-stage F of {MIN_F:.0f} is needed"
        )
        doubts.append(Caveat("No effect by two-stage least squares", what, reason))
    one = effects.slope
    slope = {"estimate": one.estimate, "lower": one.lower, "upper": one.upper, "p": effects.p}
    constant = ", ".join(["model", *(name for name in unit[:-1] if name not in ("model", "domain"))]) + " and question"
    controls = f"instrument: {setting}; {constant}"
    yield {"kind": "two-stage least squares", "controls": controls, **facts, **slope, "strength": effects.first_stage}
    for level in others[:MOST_LEVELS]:
        pair = rows[rows["setting"].isin([first, level])]
        x, y, treated = _within(pair, unit, [level])
        for kind, one in mediated(treated, x, y, list(pair["event"])).items():
            bounds = {"estimate": one.estimate, "lower": one.lower, "upper": one.upper, "p": p_value(one)}
            controls = f"{setting} {level} against {first}; {constant}"
            yield {"kind": kind, "controls": controls, **facts, **bounds, "n": len(pair), "strength": float("nan")}


def _within(rows: "pd.DataFrame", unit: list[str], levels: list[str]) -> "list[np.ndarray[Any, np.dtype[np.float64]]]":
    """x, y and an indicator of each level of the setting, minus their means in a unit of these rows."""
    columns = [rows["x"], rows["y"], *((rows["setting"] == level).astype(float) for level in levels)]
    means = [column.groupby([rows[name] for name in unit]).transform("mean") for column in columns]
    return [(one - mean).to_numpy(dtype=float) for one, mean in zip(columns, means, strict=True)]
