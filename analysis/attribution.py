"""What explains a score? The effects of setup and trajectory, with errors clustered by event.

python -m truthgym.analysis.attribution LOGS OUT.md      (also .csv, .html, .svg and .png)
"""

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from truthgym.analysis.tables.answers import answers
from truthgym.analysis.tables.design import ASSIGNED, OBSERVED, Design, Term, settings, with_trajectories
from truthgym.analysis.tables.markdown import intervals, table, with_interval
from truthgym.analysis.tables.questions import notes as listed
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import directed_scores
from truthgym.analysis.tables.setups import Places
from truthgym.datasets.errors import BadInput
from truthgym.scorers.declaration import LEAST_SHARE_SCORED
from truthgym.scorers.statistics.multiplicity import ALPHA, holm
from truthgym.scorers.statistics.regression import MIN_CLUSTERS_REGRESSED, clustered_fit

if TYPE_CHECKING:
    import pandas as pd

QUESTION = "What explains a score: the model, the setup, or the trajectory?"
ROWS_PER_TERM = 10
"""Answers for each column of the design below which there is no regression."""
MOST_MIXED = 1000
"""Questions above which no mixed-effects model is fitted: it takes too long."""
MOST_VIF = 10.0
"""Variance inflation above which two features can hardly be told apart."""
COLORS = {ASSIGNED: "#0072B2", OBSERVED: "#D55E00"}
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


def load(logs: Places, scorer: str = "", key: str = "") -> "pd.DataFrame":
    """Explain the scores of all answers by their settings and trajectories.

    Args:
        logs: Logs and folders of logs.
        scorer: Explain the scores of this paradigm only. "": of all scorers.
        key: Explain this key of the scores. "": of each scorer the first with a better end, such as `brier_score`.

    Returns:
        See `effects`.

    Raises:
        BadInput: No log of a finished eval; no score has a direction, or nothing varies that could explain it.
    """
    return effects(answers(logs, scorer=scorer, features=True), key)


def effects(frame: "pd.DataFrame", key: str = "") -> "pd.DataFrame":
    """Estimate the effect of every setting and feature on every score that has a direction.

    The settings (model, mode, domain, task arguments) are estimated without the trajectories, which they change: their
    effects are total effects. The features of trajectories are estimated beside the settings, within questions. Errors
    are clustered by event (CRV3). p values are corrected by Holm's method over all effects on a score.

    Args:
        frame: A row for each answer and number, as `answers(features=True)` returns.
        key: As in `load`.

    Returns:
        A row for each effect, sorted by score and effect: `score`, `best` ("lowest" or "highest"), `feature`, `level`
        (with the one that it is compared with; for a number its unit), `kind` ("assigned" or "observed"), `effect` on
        the score, `lower`, `upper` (95 %), `p`, `p_adjusted`, `real` (whether it is below 5 %), `explains`, the share
        of the score's variance that is lost without the column, `mixed`, `mixed_lower`, `mixed_upper` (mixed effects,
        with a random intercept for each question; NaN where it did not converge, and bounds NaN where questions share
        an event), `n` and `clusters`.
        `frame.attrs["checks"]` lists for each score the checks of the regression's assumptions, with their results.
        `frame.attrs["notes"]` says what cannot be concluded.

    Raises:
        BadInput: Nothing can be explained.
    """
    import pandas as pd

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
        known = read.dropna(subset=["confidence"]) if read["confidence"].notna().any() else read
        names = [one for one in ("characters", "steps", "hedges", "numbers", "confidence") if known[one].notna().all()]
        second = with_trajectories(settings(known), known, names)
        events = (known["domain"] + " " + known["event"].astype(str)).nunique()
        if events < MIN_CLUSTERS_REGRESSED or len(known) < ROWS_PER_TERM * (len(second.terms) + 1):
            notes.append(
                f"{name}: {len(known)} answers about {events} events are too few for {len(second.terms)} effects; "
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
        terms += _terms(known, second, range(len(first.terms), len(second.terms)))
        corrected = holm([term["p"] for term in terms])
        rows += [{"score": name, "best": best, **one, "p_adjusted": p} for one, p in zip(terms, corrected, strict=True)]
        checks += [{"score": name, **check} for check in _checks(known, second)]
    if not rows:
        raise BadInput(f"No score can be explained: {' '.join(notes) or 'none has a direction.'} Run more setups")
    explained = pd.DataFrame(rows)
    explained["real"] = explained["p_adjusted"] < ALPHA
    explained = explained.sort_values(["score", "effect"], ignore_index=True)
    explained.attrs.update(notes=list(dict.fromkeys(notes)), checks=checks)
    return explained


def chart(frame: "pd.DataFrame") -> alt.VConcatChart:
    """Draw every effect with its interval, a panel for each score, sorted by effect. Hollow: not below 5 % after Holm.

    Raises:
        BadInput: No effect has an interval.
    """
    drawn = frame.dropna(subset=["lower", "upper"])
    if drawn.empty:
        raise BadInput(f"None of {len(frame)} effects has an interval; ask about more events")
    panels = [_panel(rows) for _, rows in drawn.groupby("score", sort=False)]
    charts: alt.VConcatChart = alt.vconcat(*panels).configure_axis(titleLimit=600)
    return charts


def _panel(rows: "pd.DataFrame") -> alt.LayerChart | alt.FacetChart:
    score, best = rows[["score", "best"]].iloc[0]
    rows = rows.assign(name=rows["feature"] + ": " + rows["level"])
    title = f"effect on {score} ({'below' if best == 'lowest' else 'above'} 0 is better)"
    scale = alt.Scale(domain=list(COLORS), range=list(COLORS.values()))
    legend = alt.Legend(orient="top", symbolOpacity=1, symbolFillColor=None)
    base = alt.Chart(rows).encode(
        y=alt.Y(
            "name:N", sort=alt.EncodingSortField("effect", order="ascending"), title=None, axis={"labelLimit": 460}
        ),
        color=alt.Color("kind:N", title=None, scale=scale, legend=legend),
    )
    shapes = alt.Scale(domain=list(COLORS), range=["circle", "square"])
    layers = [
        alt.Chart().mark_rule(strokeDash=[4, 4], color="gray").encode(x=alt.datum(0)),
        base.mark_rule(strokeWidth=2).encode(x=alt.X("lower:Q", title=title), x2="upper:Q"),
        base.mark_point(size=60, opacity=1, strokeWidth=2).encode(
            x="effect:Q",
            shape=alt.Shape("kind:N", title=None, scale=shapes, legend=legend),
            fill=alt.condition("datum.real", alt.Color("kind:N", scale=scale, legend=None), alt.value("white")),
            tooltip=[*rows.columns.drop("name")],
        ),
    ]
    subtitle = f"{rows['n'].min():,} answers about {rows['clusters'].min()} events"
    heading = alt.Title(score, subtitle=subtitle, anchor="start", frame="group")
    layered: alt.LayerChart | alt.FacetChart = alt.layer(*layers).properties(
        width=420, height={"step": 18}, title=heading
    )
    return layered


def report(frame: "pd.DataFrame", figure: str = "") -> str:
    """The effects on each score as Markdown, with the checks, the caution and the notes.

    Args:
        frame: From `load`.
        figure: File name of its chart. "": without one.
    """
    import pandas as pd

    shown = frame.assign(
        interval=intervals(frame),
        mixed=[with_interval(*row) for row in frame[["mixed", "mixed_lower", "mixed_upper"]].to_numpy(dtype=float)],
    )
    sections = [CAUTION + "\n"]
    checks = pd.DataFrame(frame.attrs.get("checks", []))
    for score, rows in shown.groupby("score", sort=False):
        better = "Lower" if rows["best"].iloc[0] == "lowest" else "Higher"
        columns = ("feature", "level", "kind", "effect", "interval", "p_adjusted", "explains", "mixed", "n", "clusters")
        sections.append(f"### {score}\n\n{better} is better.\n\n{table(rows, columns, LABELS)}")
        if len(checks):
            sections.append("Checks:\n\n" + table(checks[checks["score"] == score], ("check", "result", "verdict")))
    if figure:
        text = f"Effects with 95 % intervals, clustered by event, of {frame['n'].min():,} answers or more."
        text += " Hollow: not distinguishable from 0 at 5 % after Holm's correction."
        sections.append(f"### Chart\n\n![Effects on each score]({figure})\n\n*{text}*\n")
    return "\n".join(sections) + listed(frame)


def _terms(frame: "pd.DataFrame", design: Design, which: range) -> Iterator[dict[str, Any]]:
    """The rows of some columns of a design."""
    y, matrix = frame["value"].to_numpy(dtype=float), design.matrix(len(frame))
    fit = clustered_fit(y, matrix, list(frame["domain"] + " " + frame["event"].astype(str)))
    mixed = _mixed(frame, matrix) if len(which) else None
    total = float(np.sum(np.square(y - y.mean())))
    for i in which:
        term: Term = design.terms[i]
        without = np.delete(matrix, i + 1, axis=1)
        lost = np.sum(np.square(y - without @ np.linalg.lstsq(without, y, rcond=None)[0]))
        kept = np.sum(np.square(y - fit.fitted))
        yield {
            "feature": term.feature,
            "level": term.level,
            "kind": term.kind,
            **{name: float(getattr(fit, of)[i + 1]) for name, of in _FIGURES.items()},
            "explains": float((lost - kept) / total),
            **dict(
                zip(("mixed", "mixed_lower", "mixed_upper"), mixed[i + 1] if mixed is not None else _NONE, strict=True)
            ),
            "n": fit.n,
            "clusters": fit.clusters,
        }


_FIGURES = {"effect": "estimate", "lower": "lower", "upper": "upper", "p": "p"}
_NONE = (np.nan, np.nan, np.nan)


def _mixed(frame: "pd.DataFrame", matrix: "np.ndarray[Any, np.dtype[np.float64]]") -> Any:  # noqa: ANN401
    """Estimates and bounds with a random intercept for each question. None if it is too large or did not converge.

    The bounds are NaN if questions share an event, which the intercepts do not know.
    """
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
            alone = (frame["domain"] + " " + frame["event"].astype(str)).nunique() == questions.nunique()
            bounds = fit.conf_int()[: matrix.shape[1]] if alone else np.full((matrix.shape[1], 2), np.nan)
            return np.column_stack([fit.fe_params, bounds])
    return None


def _checks(frame: "pd.DataFrame", design: Design) -> Iterator[dict[str, Any]]:
    """The assumptions of the wider regression that can be checked, each with its result."""
    from statsmodels.api import OLS
    from statsmodels.stats.diagnostic import linear_reset
    from statsmodels.stats.outliers_influence import variance_inflation_factor

    y, matrix = frame["value"].to_numpy(dtype=float), design.matrix(len(frame))
    names = [term.feature for term in design.terms]
    events = frame["domain"] + " " + frame["event"].astype(str)
    codes = events.astype("category").cat.codes.to_numpy(dtype=int)
    plain = OLS(y, matrix).fit()
    reset = linear_reset(plain, power=2, use_f=True, cov_type="cluster", cov_kwds={"groups": codes})
    p = float(reset.pvalue)
    yield _check(
        "linear (RESET, p)", f"{p:.3f}", p >= ALPHA, "not linear: the effects are averages over a curve or interaction"
    )
    inflation = {name: float(variance_inflation_factor(matrix, i + 1)) for i, name in enumerate(names)}
    worst = max(inflation, key=inflation.__getitem__)
    yield _check(
        "features vary apart (largest variance inflation)",
        f"{inflation[worst]:.1f} ({worst})",
        inflation[worst] <= MOST_VIF,
        "two features hardly vary apart: their intervals are wide, and their shares of the effect uncertain",
    )
    largest = events.value_counts(normalize=True)
    yield _check(
        "no event dominates (share of the largest)",
        f"{100 * largest.iloc[0]:.0f} % of {len(largest)} events",
        largest.iloc[0] <= 0.2,
        "the answer depends on one event",
    )


def _check(name: str, result: str, passed: bool, otherwise: str) -> dict[str, Any]:
    return {"check": name, "result": result, "verdict": "yes" if passed else otherwise}


if __name__ == "__main__":
    main(load, chart, __doc__, report)
