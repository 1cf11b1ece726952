"""What explains a score? The effects of setup and trajectory, with errors clustered by event.

python -m truthgym.analysis.attribution LOGS OUT.md      (also .csv, .html, .svg and .png)
"""

import warnings
from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from truthgym.analysis.tables.answers import answers
from truthgym.analysis.tables.markdown import chart_section, intervals, page, section, table, with_interval
from truthgym.analysis.tables.panels import BLUE, ORANGE, SHAPES, heading, interval_panel, labels, scale, stack
from truthgym.analysis.tables.regression_design import ASSIGNED, FEATURES, OBSERVED, Design, settings, with_trajectories
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import directed_scores
from truthgym.analysis.tables.setups import Places
from truthgym.datasets.errors import BadInput
from truthgym.scorers.declaration import LEAST_SHARE_SCORED
from truthgym.scorers.statistics.multiplicity import ALPHA, holm
from truthgym.scorers.statistics.regression import MIN_CLUSTERS_REGRESSED, clustered_fit

QUESTION = "What explains a score: the model, the setup, or the trajectory?"
ROWS_PER_TERM = 10
"""Answers for each column of the design below which there is no regression."""
MOST_MIXED = 1000
"""Questions above which no mixed-effects model is fitted: it takes too long."""
MOST_VIF = 10.0
"""Variance inflation above which two features can hardly be told apart."""
COLORS = {ASSIGNED: BLUE, OBSERVED: ORANGE}
LABELS = {
    "interval": "95 % interval",
    "p_adjusted": "p (Holm)",
    "explains": "share of variance",
    "mixed": "mixed effects [95 %]",
}
CAUTION = (
    "An assigned factor was set by whoever ran the evals, and all of its levels answered the same questions: its "
    "effect is what changing it does on these questions, by whatever it does to the trajectories. An observed feature "
    "is only associated: nobody set it, and what causes it can also cause the score. Its effect is within questions, "
    "with all settings the same, unless a note says that each question has one answer."
)


def load(logs: Places, scorer: str = "", key: str = "") -> pd.DataFrame:
    """Estimate the effect of every setting and feature of trajectories on every score that has a direction.

    The settings (model, mode, domain, task arguments) are estimated without the trajectories, which they change: their
    effects are total effects. The features of trajectories are estimated beside the settings, within questions. Errors
    are clustered by event (CRV3), and p values corrected by Holm's method over all effects on a score.

    A row for each effect: `score`, `best`, `feature`, `level` (with the one that it is compared with; for a number its
    unit), `kind`, `effect` with 95 % bounds, `p`, `p_adjusted`, `real` (below 5 %), `explains` (the share of the
    score's variance that is lost without the column), `mixed` with bounds (mixed effects, with a random intercept for
    each question), `n` and `clusters`. `attrs["checks"]` lists the checks of the regression's assumptions.
    """
    return effects(answers(logs, scorer=scorer, features=True), key)


def effects(frame: pd.DataFrame, key: str = "") -> pd.DataFrame:
    """The same from a table of answers with features."""
    rows: list[dict[str, Any]] = []
    checks: list[dict[str, Any]] = []
    notes: list[str] = list(frame.attrs.get("notes", []))
    for name, best, part in directed_scores(frame, key):
        read = part[part["value"].notna()].reset_index(drop=True)
        share = len(read) / len(part)
        if share < LEAST_SHARE_SCORED:
            notes.append(f"{name}: {100 * share:.0f} % of the answers have a score; the others may differ from them.")
        if read["value"].nunique() < 2:
            notes.append(f"{name}: all scores are equal, so there is nothing to explain.")
            continue
        first = settings(read)
        whole = read.dropna(subset=["confidence"]) if read["confidence"].notna().any() else read
        second = with_trajectories(settings(whole), whole, [name for name in FEATURES if whole[name].notna().all()])
        events = _events(whole).nunique()
        if events < MIN_CLUSTERS_REGRESSED or len(whole) < ROWS_PER_TERM * (len(second.terms) + 1):
            notes.append(
                f"{name}: {len(whole)} answers about {events} events are too few for {len(second.terms)} effects; "
                f"{ROWS_PER_TERM} answers for each and {MIN_CLUSTERS_REGRESSED} events are needed."
            )
            continue
        if not second.terms:
            notes.append(f"{name}: no setting or feature differs between the answers, so nothing can explain it.")
            continue
        notes += [f"{name}: {note}" for note in (*first.notes, *second.notes)]
        if read["epoch"].nunique() == 1:
            notes.append(f"{name}: one epoch, so the noise of an answer is not told apart from its question.")
        terms = [*_terms(read, first, range(len(first.terms)))]
        terms += _terms(whole, second, range(len(first.terms), len(second.terms)))
        rows += [{"score": name, "best": best, **term} for term in terms]
        checks += [{"score": name, **check} for check in _checks(whole, second)]
    if not rows:
        notes = [note for note in notes if not note.startswith("Left out: ")]
        raise BadInput(f"No score can be explained: {' '.join(notes) or 'none has a direction.'} Run more setups")
    explained = pd.DataFrame(rows)
    explained["p_adjusted"] = explained.groupby("score")["p"].transform(holm)
    explained["real"] = explained["p_adjusted"] < ALPHA
    explained = explained.sort_values(["score", "effect"], ignore_index=True)
    explained.attrs.update(notes=list(dict.fromkeys(notes)), checks=checks)
    return explained


def chart(frame: pd.DataFrame) -> alt.VConcatChart:
    """Draw every effect with its interval, sorted, a panel for each score. Hollow: not below 5 % after Holm."""
    estimated = frame.dropna(subset=["lower", "upper"])
    panels = [_panel(rows) for _, rows in estimated.groupby("score", sort=False)]
    return stack(panels, f"None of {len(frame)} effects has an interval; ask about more events", 600)


def _panel(rows: pd.DataFrame) -> alt.LayerChart:
    score, best = rows[["score", "best"]].iloc[0]
    legend = alt.Legend(orient="top", symbolOpacity=1, symbolFillColor=None)
    fill = alt.Color("kind:N", scale=scale(list(COLORS), COLORS), legend=None)
    return interval_panel(
        rows.assign(name=rows["feature"] + ": " + rows["level"]),
        alt.X("effect:Q", title=f"effect on {score} ({'below' if best == 'lowest' else 'above'} 0 is better)"),
        color=alt.Color("kind:N", title=None, scale=scale(list(COLORS), COLORS), legend=legend),
        y=labels("name", alt.EncodingSortField("effect", order="ascending"), 460),
        shape=alt.Shape("kind:N", title=None, scale=scale(list(COLORS), SHAPES), legend=legend),
        fill=alt.condition("datum.real", fill, alt.value("white")),
        tooltip=[*rows.columns],
    ).properties(
        width=420,
        height={"step": 18},
        title=heading(score, f"{rows['n'].min():,} answers about {rows['clusters'].min()} events"),
    )


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """The effects on each score as Markdown, with the checks, the caution and the notes."""
    effects = frame.assign(
        interval=intervals(frame),
        mixed=[with_interval(*row) for row in frame[["mixed", "mixed_lower", "mixed_upper"]].to_numpy(dtype=float)],
    )
    sections = [CAUTION + "\n"]
    checks = pd.DataFrame(frame.attrs.get("checks", []))
    for score, rows in effects.groupby("score", sort=False):
        better = "Lower" if rows["best"].iloc[0] == "lowest" else "Higher"
        columns = ("feature", "level", "kind", "effect", "interval", "p_adjusted", "explains", "mixed", "n", "clusters")
        parts = [f"{better} is better.", table(rows, columns, LABELS)]
        if len(checks):
            parts += ["Checks:", table(checks[checks["score"] == score], ("check", "result", "verdict"))]
        sections.append(section(str(score), *parts))
    caption = (
        f"Effects with 95 % intervals, clustered by event, of {frame['n'].min():,} answers or more. Hollow: not "
        "distinguishable from 0 at 5 % after Holm's correction."
    )
    return page([*sections, chart_section(figure, "Effects on each score", caption)], frame)


def _events(frame: pd.DataFrame) -> "pd.Series[str]":
    return frame["domain"] + " " + frame["event"].astype(str)


def _terms(frame: pd.DataFrame, design: Design, columns: range) -> Iterator[dict[str, Any]]:
    """The rows of some columns of a design."""
    y, matrix = frame["value"].to_numpy(dtype=float), design.matrix(len(frame))
    fit = clustered_fit(y, matrix, list(_events(frame)))
    mixed = _mixed(frame, matrix) if len(columns) else None
    total = float(np.sum(np.square(y - y.mean())))
    kept = float(np.sum(np.square(y - fit.fitted)))
    for i in columns:
        term = design.terms[i]
        without = np.delete(matrix, i + 1, axis=1)
        lost = np.sum(np.square(y - without @ np.linalg.lstsq(without, y, rcond=None)[0]))
        estimate, lower, upper = mixed[i + 1] if mixed is not None else (np.nan,) * 3
        row = {"feature": term.feature, "level": term.level, "kind": term.kind, "effect": float(fit.estimate[i + 1])}
        row |= {"lower": float(fit.lower[i + 1]), "upper": float(fit.upper[i + 1]), "p": float(fit.p[i + 1])}
        row |= {"explains": float((lost - kept) / total), "mixed": estimate, "mixed_lower": lower}
        yield row | {"mixed_upper": upper, "n": fit.n, "clusters": fit.clusters}


def _mixed(frame: pd.DataFrame, matrix: np.ndarray[Any, np.dtype[np.float64]]) -> Any:  # noqa: ANN401
    """Estimates and bounds with a random intercept for each question. None if it is too large or did not converge."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    questions = frame["domain"] + " " + frame["sample_id"].astype(str)
    if questions.nunique() in range(2, MOST_MIXED + 1) and questions.nunique() < len(frame):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fit = MixedLM(frame["value"].to_numpy(dtype=float), matrix, groups=questions.to_numpy()).fit()
            except (np.linalg.LinAlgError, ValueError):
                return None
        if fit.converged and np.isfinite(fit.bse_fe).all():
            alone = _events(frame).nunique() == questions.nunique()
            bounds = fit.conf_int()[: matrix.shape[1]] if alone else np.full((matrix.shape[1], 2), np.nan)
            return np.column_stack([fit.fe_params, bounds])
    return None


def _checks(frame: pd.DataFrame, design: Design) -> Iterator[dict[str, Any]]:
    """The assumptions of the wider regression that can be checked, each with its result."""
    from statsmodels.api import OLS
    from statsmodels.stats.diagnostic import linear_reset
    from statsmodels.stats.outliers_influence import variance_inflation_factor

    y, matrix = frame["value"].to_numpy(dtype=float), design.matrix(len(frame))
    events = _events(frame)
    codes = events.astype("category").cat.codes.to_numpy(dtype=int)
    reset = linear_reset(OLS(y, matrix).fit(), power=2, use_f=True, cov_type="cluster", cov_kwds={"groups": codes})
    p = float(reset.pvalue)
    inflation = {term.feature: float(variance_inflation_factor(matrix, i)) for i, term in enumerate(design.terms, 1)}
    feature, largest = max(inflation.items(), key=lambda item: item[1])
    shares = events.value_counts(normalize=True)
    not_linear = "not linear: the effects are averages over a curve or interaction"
    alike = "two features hardly vary apart: their intervals are wide, and their shares of the effect uncertain"
    most, of_events = float(shares.iloc[0]), f"{100 * shares.iloc[0]:.0f} % of {len(shares)} events"
    of_largest = f"{largest:.1f} ({feature})"
    for check, result, otherwise in (
        ("linear (RESET, p)", f"{p:.3f}", not_linear * (not p >= ALPHA)),
        ("features vary apart (largest variance inflation)", of_largest, alike * (not largest <= MOST_VIF)),
        ("no event dominates (share of the largest)", of_events, "the answer depends on one event" * (most > 0.2)),
    ):
        yield {"check": check, "result": result, "verdict": otherwise or "yes"}


if __name__ == "__main__":
    main(load, chart, __doc__, report)
