"""Do scores measure the same thing, and does one move another? Correlations, and what assigned settings say.

python -m truthgym.analysis.relationship LOGS OUT.md      (also .csv, .html, .svg and .png)
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from truthgym.analysis import performance
from truthgym.analysis.tables.answers import SharedRows, answers
from truthgym.analysis.tables.markdown import (
    Caveat,
    chart_section,
    counted,
    grouped,
    intervals,
    number_range,
    page,
    section,
    table,
    with_interval,
)
from truthgym.analysis.tables.panels import BLUE, heading, interval_panel, labels, stack
from truthgym.analysis.tables.regression_design import CROSSED, factors
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import BestEnd, ends, main_keys, orient_higher_is_better, score_name
from truthgym.analysis.tables.setups import Places, bare_name
from truthgym.datasets.errors import BadInput, one_of
from truthgym.scorers.statistics.instrumented_slope import MIN_F, ROUNDING_ERROR
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.scorers.statistics.multiplicity import holm, p_value
from truthgym.scorers.statistics.regression import (
    MIN_CLUSTERS_CORRELATED,
    MIN_CLUSTERS_REGRESSED,
    Correlated,
    clustered_fit,
    correlate,
    cross_epoch_correlation,
    crossing,
    mediated,
    two_stage,
)

BRIER = "brier/brier_score"
MOST_LEVELS = 6
"""Levels of a setting above which there is no mediation of the others: each is compared with the first."""
UNIT = ["model", "setup", "domain", "mode", "sample_id", "event", "epoch"]
"""Columns that name an answer."""
BY_ANSWER = {"martingale": "change"}
"""The key that stands for a scorer whose estimate is no mean of answers. It counts without its sign."""
QUESTION = "Do the scorers measure the same thing, and does one move another?"
CORRELATIONS = ("correlation", "partial correlation", "corrected correlation")
CHANCE = 0.25
"""The Brier score of always saying one half."""
ASSUMPTIONS = {
    "correlation": (
        "Every number counts so that more is better: numbers that are better when low are negated, and numbers that "
        "are best at 0 count by their distance from 0, negated. A correlation above 0 means: what one score calls "
        "better, the other calls better too. "
        "Nothing is assumed about causes. Over setups the clusters are models, and the setups are taken as they are; "
        "over questions and answers the clusters are events."
    ),
    "partial correlation": "The controls are constant: only differences within them count.",
    "corrected correlation": (
        "The errors of both measures are independent of each other. Over models and setups the error is what differs "
        "between models on the same questions; a slope, such as the martingale score, has none that is known, and is "
        "not corrected. There both can come from the same answers, whose errors are shared. Over questions, one epoch "
        "of x meets another of y, and shared errors do no harm."
    ),
    "link": (
        "A regression over setups, as published for |martingale| and Brier. Nobody assigned the martingale score, so "
        "it is no effect. The absolute value of a noisy score that is 0 is above 0, which moves the slope towards 0."
    ),
    "two-stage least squares": (
        "The effect of x on y if (1) the setting was assigned: every answer of a question and model exists in each "
        "setting, with all other settings the same; (2) the setting moves x, checked by the first-stage F; (3) the "
        "setting moves y through x alone, which cannot be checked with two levels, is not tested with more, and is "
        "implausible for most settings: a mode changes more than one thing."
    ),
    "mediated": (
        "How much of the setting's effect on y goes through x (mediated) and how much does not (direct), if nothing "
        "else that the setting leaves alone moves both x and y of an answer. That cannot be checked: an easy draw of "
        "the reasoning can do so."
    ),
}
LABELS = {"interval": "95 % interval", "p_adjusted": "p (Holm)", "strength": "reliabilities or F", "n": "units"}


def load(logs: Places, x: str = "", y: str = "", setting: str = "mode") -> pd.DataFrame:
    """Relate all scores over models, setups, questions and answers, and estimate what assigned settings say.

    `x` is the cause in the causal part, a number of an answer ("": each but y), `y` the effect ("":
    `brier/brier_score`, or else the first number with a better end), and `setting` the one that was assigned: "mode",
    or an argument of the task.

    A row for each estimate: `level` (the units), `kind` (a key of `ASSUMPTIONS`, or "direct", beside "mediated"),
    `controls` (what is constant), `estimate` with 95 % bounds, `p`, `p_adjusted` (Holm, over the rows of a level and
    kind), `n` units, and `strength`: the product of both reliabilities of a corrected correlation, or the first-stage
    F. Effects are of 1 standard deviation of x. `attrs["setups"]` holds the points of the published link.
    """
    return relations(performance.load(logs), answers(logs), x, y, setting)


def relations(
    estimates: pd.DataFrame, answers: pd.DataFrame, x: str = "", y: str = "", setting: str = "mode"
) -> pd.DataFrame:
    """The same from the rows of `performance` and of `answers`."""
    notes: list[str] = []
    caveats: list[Caveat] = []
    scores, errors, best = by_setup(estimates, answers)
    numbers, best_of_answer = _by_answer(answers)
    better, better_numbers = orient_higher_is_better(scores, best), orient_higher_is_better(numbers, best_of_answer)
    if max(len(scores.columns), len(numbers.columns)) < 2:
        only = ", ".join(scores.columns)
        raise BadInput(f"The logs have one measure ({only}), and two are needed; score them by another scorer too")
    rows = [
        *_over_models(better, errors, caveats),
        *_over_setups(better, errors),
        *_over_questions(better_numbers, notes),
        *_over_answers(better_numbers),
        *_link(scores, notes),
    ]
    if len(numbers.columns) > 1:
        for name, value in (("x", x), ("y", y)):
            if value:
                one_of(name, value, list(numbers.columns))
        rows += _causes(answers, numbers, x, y, setting, caveats)
    ends = best | best_of_answer
    no_end = "it has no better end"
    caveats += [Caveat("Counts as it is in correlations", name, no_end) for name, end in ends.items() if not end]
    empty = [row for row in rows if row["kind"] in CORRELATIONS and np.isnan(row["estimate"])]
    why = "too few have both, or one of them does not vary"
    caveats += [Caveat(f"No correlation over {row['level']}", f"{row['x']} and {row['y']}", why) for row in empty]
    frame = pd.DataFrame([row for row in rows if row not in empty])
    if frame.empty:
        raise BadInput(f"Nothing can be related: {' '.join(grouped(caveats))} Run more models or questions")
    frame["p_adjusted"] = frame.groupby(["level", "kind"])["p"].transform(holm)
    frame.attrs["notes"] = [*dict.fromkeys(notes), *grouped(caveats)]
    frame.attrs["setups"] = SharedRows(scores.reset_index().to_dict("records"))
    return frame


def chart(frame: pd.DataFrame) -> alt.VConcatChart:
    """Draw all correlations with an interval by level, the published link, and the effects, each in a panel."""
    estimated = frame.dropna(subset=["lower", "upper"])
    related = estimated[estimated["kind"].isin(CORRELATIONS)]
    panels = [
        _forest(rows, f"over {level}", "correlation, better with better (0: unrelated)", [-1.0, 1.0])
        for level, rows in related.groupby("level", sort=False)
    ]
    effects = estimated[estimated["kind"].isin(("two-stage least squares", "mediated", "direct"))]
    panels += [
        _forest(rows, f"effects on {y}", f"change of {y} for 1 sd of x, or for the setting")
        for y, rows in effects.groupby("y", sort=False)
    ]
    panels += filter(None, [_link_panel(frame)])
    return stack(panels, "No relation has an interval, so there is no chart; run more models or questions", 600)


def _forest(rows: pd.DataFrame, title: str, axis: str, domain: Sequence[float] | None = None) -> alt.LayerChart:
    constant = rows["controls"].map(lambda controls: f", {controls} constant" if controls else "")
    rows = rows.assign(name=rows["x"] + " ~ " + rows["y"] + constant + " (" + rows["kind"] + ")")
    rows = rows.sort_values("estimate", ascending=False)
    estimate = alt.X("estimate:Q", title=axis, axis=alt.Axis(tickCount=5))
    return interval_panel(
        rows,
        estimate.scale(domain=list(domain)) if domain else estimate,
        y=labels("name", list(rows["name"]), 560),
        tooltip=[*rows.columns.drop("name")],
    ).properties(width=360, height={"step": 18}, title=heading(title, f"{number_range(rows['n'])} units"))


def _link_panel(frame: pd.DataFrame) -> alt.LayerChart | None:
    link = frame[(frame["kind"] == "link") & (frame["controls"] == "")]
    if link.empty:
        return None
    points = pd.DataFrame(frame.attrs["setups"]).rename(columns={"|martingale|": "size"})
    points = points.dropna(subset=["size", "brier"])
    base = alt.Chart(points).encode(
        x=alt.X("size:Q", title="size of the martingale score (0 is best)"),
        y=alt.Y("brier:Q", title="Brier score (lower is better)", scale=alt.Scale(zero=False)),
    )
    has_line = points["model"].nunique() >= MIN_CLUSTERS_REGRESSED and (link["lower"] * link["upper"] > 0).all()
    line = base.transform_regression("size", "brier").mark_line(color="black", strokeWidth=1.5)
    layers = [
        alt.Chart().mark_rule(strokeDash=[4, 4], color="gray").encode(y=alt.datum(CHANCE)),
        *[line] * bool(has_line),  # of an interval that is not too short, and without 0
        base.mark_point(size=60, color=BLUE, opacity=1).encode(tooltip=["model", "setup", "size", "brier"]),
    ]
    title = heading("published link, in form", f"{len(points)} models in setups")
    return alt.LayerChart(layer=layers).properties(width=360, height=260, title=title)


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """The relations as Markdown, each kind with what it assumes."""
    relations = frame.assign(interval=intervals(frame))
    sections = []
    for kind, text in ASSUMPTIONS.items():
        rows = relations[relations["kind"].isin([kind, "direct"] if kind == "mediated" else [kind])]
        if len(rows):
            columns = ["kind"] * (kind == "mediated") + ["level", "x", "y", "controls", "estimate", "interval"]
            columns += ["p_adjusted", "n", "clusters"] + ["strength"] * bool(rows["strength"].notna().any())
            sections.append(section(f"{kind[0].upper()}{kind[1:]}", text, table(rows, columns, LABELS)))
    sizes = f"{frame['n'].min():,} to {frame['n'].max():,} units"
    caption = f"Estimates with 95 % intervals, of {sizes}. Those without an interval are not drawn."
    return page([*sections, chart_section(figure, "Relations of scorers", caption)], frame)


def by_setup(estimates: pd.DataFrame, answers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, BestEnd]]:
    """The estimate of each scorer (columns) of each model in each setup (rows), and its error between models."""
    rows = estimates.copy()
    zero = rows["best"] == "zero"
    rows["measure"] = rows["scorer"].where(~zero, "|" + rows["scorer"] + "|")
    means = rows.groupby(["model", "setup", "domain", "mode", "measure"])["score"].mean().unstack("measure")
    scores = means.apply(lambda column: column.abs() if str(column.name).startswith("|") else column)
    errors = pd.DataFrame(np.nan, index=scores.index, columns=scores.columns)
    parts = answers[answers["scorer"].isin(rows["scorer"][~zero])].groupby(["setup", "scorer"])
    for (setup, scorer), part in parts:
        here = scores.index.get_level_values("setup") == setup
        own = _errors(part, scores.loc[here, scorer].droplevel(["setup", "domain", "mode"]))
        errors.loc[here, scorer] = own.reindex(scores.index[here].get_level_values("model")).to_numpy()
    return scores, errors, dict(zip(rows["measure"], rows["best"], strict=True))


def _errors(answers: pd.DataFrame, estimate: "pd.Series[float]") -> "pd.Series[float]":
    """The standard error of each model's estimate that is not shared by the models. Empty if it is not known."""
    for _, part in answers.groupby("key"):
        values = part.groupby(["event", "sample_id", "model"])["value"].mean().unstack("model")
        if not np.allclose(values.mean().reindex(estimate.index), estimate, atol=1e-6):
            continue  # not the mean of this number
        shared = values[estimate.index].dropna()
        models = len(estimate)
        if models < 2 or len(shared) < CROSSED * len(values):
            break
        rest = shared.sub(shared.mean(axis=1), axis=0) * np.sqrt(models / (models - 1))
        events = [str(event) for event in rest.index.get_level_values("event")]
        return pd.Series({model: mean_estimate(column, events).stderr for model, column in rest.items()})
    return pd.Series(dtype=float)


def _by_answer(answers: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, BestEnd]]:
    """A number of each scorer (columns) for each answer (rows), and the best value of each."""
    columns: dict[str, pd.Series[float]] = {}
    best: dict[str, BestEnd] = {}
    keys, better = main_keys(answers), ends(answers)
    for scorer, part in answers.groupby("scorer", sort=True):
        base = bare_name(str(scorer))
        key = BY_ANSWER.get(base, keys[str(scorer)])
        rows = part[part["key"] == key]
        if rows["value"].isna().all():
            continue
        values, name = rows["value"], score_name(str(scorer), key)
        if base in BY_ANSWER:
            values, name = values.abs(), f"|{name}|"
        columns[name] = values.groupby([rows[column] for column in [*UNIT, "eval_id"]]).mean()
        best[name] = better[str(scorer), key] or ""
    return pd.DataFrame(columns), best


def _row(
    names: tuple[str, str, str], kind: str, controls: str, estimate: Estimate, p: float, strength: float = np.nan
) -> dict[str, Any]:
    """A row, with the names of its level, x and y."""
    level, x, y = names
    row = {"level": level, "kind": kind, "x": x, "y": y, "controls": controls, "estimate": estimate.estimate}
    bounds = {"lower": estimate.lower, "upper": estimate.upper, "p": p, "strength": strength}
    return row | bounds | {"n": estimate.n, "clusters": estimate.clusters}


def _pairs(numbers: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Each pair of measures with the rows that have both; none without such a row."""
    for x, y in combinations(map(str, numbers.columns), 2):
        both = numbers[[x, y]].dropna()
        if len(both):
            yield x, y, both


def _correlations(level: str, x: str, y: str, controls: str, correlated: Correlated) -> Iterator[dict[str, Any]]:
    size = {"n": correlated.plain.n, "clusters": correlated.plain.clusters}
    kind = "partial correlation" if controls else "correlation"
    yield _row((level, x, y), kind, controls, correlated.plain, correlated.p)
    true = correlated.corrected
    if np.isfinite(true.estimate):
        strength = correlated.reliability[0] * correlated.reliability[1]
        p = p_value(true) if np.isfinite(true.stderr) else correlated.p  # dividing by reliabilities changes no p value
        yield _row((level, x, y), "corrected correlation", controls, true, p, strength) | size


def _over_models(scores: pd.DataFrame, errors: pd.DataFrame, caveats: list[Caveat]) -> Iterator[dict[str, Any]]:
    """Over models: each the mean over the setups that all models have."""
    for x, y in combinations(scores.columns, 2):
        both = scores[[x, y]].dropna()
        models = both.index.get_level_values("model").nunique()
        complete = both.groupby("setup")[x].size() == models
        shared = both[both.index.get_level_values("setup").isin(complete.index[complete])]
        if shared.empty or models < MIN_CLUSTERS_CORRELATED:
            reason = f"{MIN_CLUSTERS_CORRELATED} models in the same setups are needed"
            there = f"{counted(models, 'model')} in {counted(len(shared) // max(models, 1), 'setup')}"
            caveats.append(Caveat("No correlation over models", f"{x} and {y}: {there}", reason))
            continue
        means = shared.groupby("model").mean()
        error = (errors.loc[shared.index, [x, y]] ** 2).groupby("model").sum(min_count=complete.sum()) ** 0.5
        noise = error / complete.sum()  # NaN if one error is not known
        correlated = correlate(means[x], means[y], errors=(noise[x].to_numpy(), noise[y].to_numpy()))
        yield from _correlations("models", x, y, "", correlated)


def _over_setups(scores: pd.DataFrame, errors: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Over models in setups, clustered by model."""
    for x, y, both in _pairs(scores):
        models = list(both.index.get_level_values("model"))
        if len(set(models)) < MIN_CLUSTERS_CORRELATED or both.index.get_level_values("setup").nunique() < 2:
            continue
        noise = (errors.loc[both.index, x].to_numpy(), errors.loc[both.index, y].to_numpy())
        for controls in ((), ("setup",), ("setup", "model")):
            design = _indicators(both, controls)
            if len(both) - design.shape[1] >= 5:
                correlated = correlate(both[x], both[y], models, design, noise)
                yield from _correlations("setups", x, y, " and ".join(controls), correlated)


def _over_questions(numbers: pd.DataFrame, notes: list[str]) -> Iterator[dict[str, Any]]:
    """Over questions of each model and setup, without the noise of an epoch, with model and setup constant."""
    if not len(numbers) or numbers.index.get_level_values("epoch").nunique() < 2:
        notes.append("One epoch: the reliability of an answer's numbers is unknown, so no correlation is corrected.")
        return
    for x, y, both in _pairs(numbers):
        wide = both.groupby([*UNIT]).mean().unstack("epoch")
        events = _events(wide.index)
        groups = list(zip(wide.index.get_level_values("model"), wide.index.get_level_values("setup"), strict=True))
        correlated = cross_epoch_correlation(wide[x].to_numpy(), wide[y].to_numpy(), events, groups)
        yield from _correlations("questions", x, y, "model and setup", correlated)


def _over_answers(numbers: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Over answers, and over the answers of one model to one question in one setup."""
    for x, y, both in _pairs(numbers):
        events = _events(both.index)
        yield from _correlations("answers", x, y, "", correlate(both[x], both[y], events))
        unit = [name for name in UNIT if name != "epoch"]
        within = both - both.groupby(unit).transform("mean")
        if min(within.std()) > 1e-9:
            correlated = correlate(within[x], within[y], events)
            yield from _correlations("answers", x, y, "model, setup and question", correlated)


def _link(scores: pd.DataFrame, notes: list[str]) -> Iterator[dict[str, Any]]:
    """The Brier score on the size of the martingale score over setups, without and with indicators of all else."""
    x, y = "|martingale|", "brier"
    if not {x, y} <= set(scores.columns):
        return
    both = scores[[x, y]].dropna()
    models = list(both.index.get_level_values("model"))
    by_model = len(set(models)) >= MIN_CLUSTERS_REGRESSED
    clusters: Sequence[Any] = models if by_model else range(len(both))
    if len(both) < MIN_CLUSTERS_REGRESSED:
        notes.append(
            f"{len(both)} setups have {x} and {y}; {MIN_CLUSTERS_REGRESSED} are needed for the published link."
        )
        return
    if not by_model:
        notes.append(
            f"The link of {x} to {y} is of {len(set(models))} models, too few to cluster by model: each setup counts "
            "as independent, as in the publication, and its interval is too short."
        )
    for controls in ((), ("setup", "model")):
        design = np.column_stack([np.ones(len(both)), both[x], _indicators(both, controls)])
        design = design[:, _independent(design)]
        if len(both) - design.shape[1] < 5:
            notes.append(f"{len(both)} setups are too few for the link of {x} to {y} with setup and model constant.")
            continue
        fit = clustered_fit(both[y], design, list(clusters))
        estimate, lower, upper = (float(side[1]) for side in (fit.estimate, fit.lower, fit.upper))
        slope = Estimate(estimate, lower, upper, n=fit.n, clusters=fit.clusters)
        yield _row(("setups", x, y), "link", " and ".join(controls), slope, float(fit.p[1]))
        if not controls and fit.lower[1] > 0:
            at = crossing(both[x], both[y], list(clusters), CHANCE)
            if both[x].min() <= at.estimate <= both[x].max():
                notes.append(
                    f"The fitted Brier score passes {CHANCE}, that of always saying one half, at {x} = "
                    f"{with_interval(at.estimate, at.lower, at.upper)}."
                )


def _events(index: "pd.Index[Any]") -> list[str]:
    """Domain and event of each row."""
    names = (index.get_level_values(name) for name in ("domain", "event"))
    return [f"{domain} {event}" for domain, event in zip(*names, strict=True)]


def _indicators(frame: pd.DataFrame, names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    values = pd.DataFrame({name: frame.index.get_level_values(name) for name in names}, index=frame.index)
    return pd.get_dummies(values, drop_first=True).to_numpy(dtype=float) if names else np.zeros((len(frame), 0))


def _independent(design: np.ndarray[Any, np.dtype[np.float64]]) -> list[int]:
    """The columns that are no sum of those before them."""
    kept: list[int] = []
    for i in range(design.shape[1]):
        if np.linalg.matrix_rank(design[:, [*kept, i]]) > len(kept):
            kept.append(i)
    return kept


def _causes(
    answers: pd.DataFrame, numbers: pd.DataFrame, x: str, y: str, setting: str, caveats: list[Caveat]
) -> Iterator[dict[str, Any]]:
    """The rows of the kinds "two-stage least squares", "mediated" and "direct"."""
    levels = factors(answers)
    if setting not in levels:
        if setting != "mode":
            one_of("setting", setting, list(map(str, levels)))
        caveats.append(Caveat("No effect of a setting", "all numbers", "all answers have the same mode; run another"))
        return
    nothing = f"No effect of the {setting}"
    effect = y or (BRIER if BRIER in numbers else str(numbers.columns[0]))
    others = [str(name) for name in levels if name != setting]
    by_run = levels.set_axis(answers["eval_id"]).loc[lambda rows: ~rows.index.duplicated()]
    rows = numbers.reset_index()
    rows = rows.assign(**{name: rows["eval_id"].map(by_run[name]) for name in others})
    rows["setting"] = rows["eval_id"].map(by_run[setting])
    unit = [*others, "sample_id"]
    for cause in [x] if x else [name for name in numbers if name != effect]:
        both = rows.dropna(subset=[cause, effect])
        number = both["setting"].nunique()
        complete = both.groupby(unit)["setting"].transform("nunique") == number
        if number < 2:
            caveats.append(Caveat(nothing, f"{cause} and {effect}", f"no two values of {setting} have both numbers"))
            continue
        if complete.mean() < CROSSED:
            share = 100 * complete.mean()
            reason = f"{100 * CROSSED:.0f} % must be to questions that were asked in every {setting}"
            caveats.append(Caveat(nothing, f"{cause} and {effect}: {share:.0f} % of the answers", reason))
            continue
        yield from _effects(both[complete].reset_index(drop=True), str(cause), effect, setting, unit, caveats)


def _effects(
    rows: pd.DataFrame, cause: str, effect: str, setting: str, unit: list[str], caveats: list[Caveat]
) -> Iterator[dict[str, Any]]:
    events = list(rows["domain"] + " " + rows["event"].astype(str))
    if len(set(events)) < MIN_CLUSTERS_REGRESSED:
        what, reason = f"{cause} and {effect}: {len(set(events))} events", f"{MIN_CLUSTERS_REGRESSED} are needed"
        caveats.append(Caveat(f"No effect of the {setting}", what, reason))
        return
    deviation = float(rows[cause].std())
    if not deviation > ROUNDING_ERROR:
        return
    first, *others = sorted(rows["setting"].unique())
    rows = rows.assign(x=rows[cause] / deviation, y=rows[effect], event=events)
    x, y, *indicators = _within(rows, unit, others)
    moved = np.column_stack(indicators)
    names, size = ("answers", cause, effect), {"n": len(rows), "clusters": len(set(events))}
    effects = two_stage(y, x, moved, np.ones((len(rows), 1)), events)
    if effects.first_stage < MIN_F:
        what = f"{cause} and {effect}: F {effects.first_stage:.1f}"
        reason = (
            f"the {setting} moves the first too little to be an instrument; a first-stage F of {MIN_F:.0f} is needed"
        )
        caveats.append(Caveat("No effect by two-stage least squares", what, reason))
    constant = ", ".join(["model", *(name for name in unit[:-1] if name not in ("model", "domain"))]) + " and question"
    controls = f"instrument: {setting}; {constant}"
    yield _row(names, "two-stage least squares", controls, effects.slope, effects.p, effects.first_stage) | size
    for level in others[:MOST_LEVELS]:
        pair = rows[rows["setting"].isin([first, level])]
        x, y, treated = _within(pair, unit, [level])
        controls = f"{setting} {level} against {first}; {constant}"
        for kind, share in mediated(treated, x, y, list(pair["event"])).items():
            yield _row(names, kind, controls, share, p_value(share)) | size | {"n": len(pair)}


def _within(rows: pd.DataFrame, unit: list[str], levels: list[str]) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """x, y and an indicator of each level of the setting, minus their means in a unit of these rows."""
    columns = [rows["x"], rows["y"], *((rows["setting"] == level).astype(float) for level in levels)]
    means = [column.groupby([rows[name] for name in unit]).transform("mean") for column in columns]
    return [(column - mean).to_numpy(dtype=float) for column, mean in zip(columns, means, strict=True)]


if __name__ == "__main__":
    main(load, chart, __doc__, report)
