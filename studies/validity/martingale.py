"""Can the numbers be believed? Brier and martingale measures on agents whose truth is known, as a page.

    python -m studies.validity.martingale docs/validity.md    (extra: pip install -e ".[charts]")

Everything on the page is computed in this run. `--replications 50 --seeds 2 --real 100 --worlds 10` makes a quick one.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import product

import altair as alt
import numpy as np
import pandas as pd

from studies.study import Row, Study, details, recovery
from studies.validity import report_errors
from studies.validity.report_errors import COVERAGE_AIM
from studies.validity.simulated_runs import Distort, compare, look_ahead, persistent, replicate, unlike_urns
from studies.validity.true_values import true_values
from truthgym.analysis.tables.markdown import table
from truthgym.models.agents.policies import AGENTS, Parameters
from truthgym.scorers.statistics.martingale_score import martingale_score

Runs = dict[tuple[str, int], pd.DataFrame]


NAMES = ["bayesian", "stuck", "underreacting", "overreacting", "entrenched", "confirming", "neglecting"]
"""Agents with a true slope, one for each way of updating."""
USUAL = Parameters(noise=0.1, shared=0.25)
NOISES, SHARES = (0.05, 0.1, 0.15), (0.0, 0.25, 0.5)
BIAS_N, SIZES = 5000, (100, 500)
SECTIONS = ("bias", "coverage", "power", "limits", "small", "joint readings", "real task")
"""Each draws its own questions and noise, so that no lucky draw serves two of them."""
POWERS: tuple[tuple[float, dict[int, int]], ...] = (
    (0.079, {2: 1342, 4: 616}),
    (0.16, {2: 379, 4: 184}),
    (0.46, {2: 71, 4: 33}),
)
"""Strengths that plant slopes of 0.056, 0.10 and 0.24, each with the tabulated number of questions by epochs."""
FEW = (("entrenched", USUAL), ("bayesian", Parameters(noise=0.25)), ("random", Parameters()))


def seeds_of(section: str, count: int) -> range:
    """So many seeds that no other section uses."""
    first = 100_000 * SECTIONS.index(section)
    return range(first, first + count)


def agents() -> pd.DataFrame:
    rows = []
    for name in NAMES:
        truth = true_values(name, Parameters())
        rows.append(
            asdict(truth)
            | {"agent": name, "strength": AGENTS[name].strength or np.nan}
            | {"excess_movement": truth.excess, "brier_gain": truth.gain}
        )
    return pd.DataFrame(rows)


def _bias(runs: pd.DataFrame) -> Row:
    """Bias of both slopes, with the Monte-Carlo error of the first.

    The error of a run is its estimate minus the slope of the noiseless beliefs on the same questions. The mean of that
    slope is the planted one, so this removes the sampling of questions.
    """
    iv, ols = (runs[name] - runs["noiseless"] for name in ("martingale_score", "martingale_score_ols"))
    return {"iv_bias": iv.mean(), "iv_error": iv.std() * len(runs) ** -0.5, "ols_bias": ols.mean()}


def bias(seeds: int) -> pd.DataFrame:
    """Bias of both slopes for each agent, noise and shared error, at 5,000 questions and three epochs."""
    rows = []
    for name, noise, shared in product(NAMES, NOISES, SHARES):
        parameters = Parameters(noise=noise, shared=shared)
        runs = replicate(name, parameters, BIAS_N, seeds_of("bias", seeds))
        # The expectation of least squares, from the reliability and shared error of the run: formula (1).
        reliability = runs["reliability"]
        formula = reliability * runs["noiseless"] - (1 - reliability) * (1 - runs["shared_error"])
        gap = runs["martingale_score_ols"] - formula
        means = ("martingale_score", "martingale_score_ols", "reliability", "shared_error")
        rows.append(
            {"agent": name, "noise": noise, "shared": shared, "planted": true_values(name, parameters).slope}
            | _bias(runs)
            | {mean: runs[mean].mean() for mean in means}
            | {"formula": formula.mean(), "formula_gap": gap.mean(), "formula_error": gap.std() * seeds**-0.5}
        )
    return pd.DataFrame(rows)


def run_agents(replications: int) -> Runs:
    """Every agent with the usual noise, at each size."""
    seeds = seeds_of("coverage", replications)
    return {(name, n): replicate(name, USUAL, n, seeds) for name, n in product(NAMES, SIZES)}


def coverage(usual: Runs) -> pd.DataFrame:
    """How often each interval contains the planted value, for each agent and size."""
    rows = []
    for (name, n), run in usual.items():
        truth = true_values(name, USUAL)
        for figure, planted in (
            ("martingale_score", truth.slope),
            ("excess_movement", truth.excess),
            ("brier_gain", truth.gain),
            ("brier", truth.brier_posterior + truth.noise_cost),
            ("martingale_score_ols", truth.slope),
        ):
            figures = recovery(planted, *(run[f"{figure}{end}"] for end in ("", "_lower", "_upper")))
            rows.append({"agent": name, "n": n, "figure": figure, "replications": len(run)} | figures)
    return pd.DataFrame(rows)


def classification(usual: Runs) -> pd.DataFrame:
    """Share of runs in which an agent is nearest to its own profile of slope, movement and Brier gain."""
    profiles = np.array([[p.slope, p.movement, p.gain] for p in (true_values(name, USUAL) for name in NAMES)])
    rows = []
    for n in SIZES:
        seen = {name: usual[name, n][["martingale_score", "movement", "brier_gain"]].to_numpy() for name in NAMES}
        # A run without a score is a miss: no profile is nearest to NaN.
        scale = np.mean([np.nanstd(values, axis=0) for values in seen.values()], axis=0)
        for own, name in enumerate(NAMES):
            scored = np.isfinite(seen[name]).all(axis=1)
            distance = np.abs(seen[name][:, None] - profiles) / scale
            nearest = np.where(scored, (distance**2).sum(axis=2).argmin(axis=1), -1)
            by_slope = np.where(scored, distance[..., 0].argmin(axis=1), -1)
            others = pd.Series([NAMES[i] if i >= 0 else "none" for i in nearest if i != own])
            rows.append(
                {"agent": name, "n": n, "all_three": np.mean(nearest == own), "slope_alone": np.mean(by_slope == own)}
                | {"mostly_taken_for": str(others.mode()[0]) if len(others) else "-"}
            )
    return pd.DataFrame(rows)


def power(replications: int) -> pd.DataFrame:
    """Share of runs that find a slope, at the sizes tabulated for a power of 0.8."""
    rows = []
    for anew, (strength, sizes) in product((True, False), POWERS):
        true = martingale_score(*unlike_urns(strength, 400_000, 2, 0, anew)).estimate
        for epochs, n in sizes.items():
            seeds = seeds_of("power", replications)
            runs = [martingale_score(*unlike_urns(strength, n, epochs, seed, anew)) for seed in seeds]
            rows.append(
                {"evidence": "each epoch its own" if anew else "the same in all epochs", "slope": true}
                | {"epochs": epochs, "n": n, "power": np.mean([run.p < 0.05 for run in runs])}
                | {"mde": np.nanmean([run.mde for run in runs])}
            )
    return pd.DataFrame(rows)


def limits(seeds: int) -> pd.DataFrame:
    """Where it fails: a Bayesian measured in ways that no estimator mends, and one that another elicitor does."""
    noise = Parameters(noise=0.08)
    ways: list[tuple[str, Parameters, Distort | None]] = [
        ("noise of sd 0.20", Parameters(noise=0.2), None),
        ("noise of sd 0.25", Parameters(noise=0.25), None),
        ("error common to all epochs, sd 0.05", noise, persistent(0.05)),
        ("error common to all epochs, sd 0.05, second elicitor", noise, persistent(0.05, second=True)),
        ("error common to all epochs, sd 0.10", noise, persistent(0.1)),
        ("error common to all epochs, sd 0.10, second elicitor", noise, persistent(0.1, second=True)),
    ]
    rows = []
    for way, parameters, distort in ways:
        runs = replicate("bayesian", parameters, BIAS_N, seeds_of("limits", seeds), distort=distort)
        rows.append({"measured with": way} | _bias(runs) | {"identified": runs["identified"].mean()})
    return pd.DataFrame(rows)


def small(replications: int) -> pd.DataFrame:
    """Few questions: how often the score is identified, and then how often its interval contains the planted slope."""
    rows = []
    for (name, parameters), n in product(FEW, (10, 20, 50)):
        runs = replicate(name, parameters, n, seeds_of("small", replications))
        scored = runs[runs["identified"].astype(bool)]
        true = true_values(name, parameters).slope if name in NAMES else np.nan
        covered = scored["martingale_score_lower"].le(true) & scored["martingale_score_upper"].ge(true)
        rows.append(
            {"agent": name, "noise": parameters.noise or np.nan, "n": n, "identified": runs["identified"].mean()}
            | {"coverage": covered.mean() if name in NAMES and len(scored) else np.nan}
        )
    return pd.DataFrame(rows)


def joint_readings(n: int = 40_000) -> pd.DataFrame:
    """A rational agent read by judges that look ahead, or do not."""
    shares = (0.0, 0.05, 0.1, 0.2)
    seeds = seeds_of("joint readings", len(shares))
    return pd.DataFrame([look_ahead(share, n, seed) for share, seed in zip(shares, seeds, strict=True)])


def through_the_task(real: int, names: Sequence[str] = (*NAMES, "random")) -> list[Row]:
    """The real task's beliefs and metrics beside those of the pure functions, for each agent."""
    seeds = seeds_of("real task", len(names))
    return [
        compare(name, Parameters() if name == "random" else USUAL, real, seed=seed)
        for name, seed in zip(names, seeds, strict=True)
    ]


BIAS_AIM = 0.02
"""The largest bias of the martingale score that the project accepts."""
LABELS = {
    "beliefs": "beliefs compared",
    "equal": "equal",
    "difference": "largest difference of a metric",
    "martingale_score": "`martingale_score`",
    "martingale_score_lower": "lower",
    "martingale_score_upper": "upper",
    "martingale_score_ols": "`_ols`",
    "excess_movement": "excess movement",
    "brier_gain": "Brier gain",
    "brier_prior": "Brier, prior",
    "brier_posterior": "Brier, posterior",
    "iv_bias": "bias",
    "iv_error": "its MC error",
    "ols_bias": "bias of `_ols`",
    "formula": "formula (1)",
    "formula_gap": "`_ols` minus formula",
    "shared_error": "shared error",
    "all_three": "correct by all three",
    "slope_alone": "correct by the slope alone",
    "mostly_taken_for": "mostly taken for",
    "n": "questions",
    "mde": "mean `mde`",
    "share": "planted look-ahead",
    "joint": "published score of the joint reading",
    "separate": "`martingale_score`, read separately",
    "leak": "`leak`",
    "leak_lower": "lower",
    "leak_upper": "upper",
    "identified": "share identified",
}
"""Headers of the columns whose name is not their header."""


def tables(
    compared: Sequence[Row],
    planted: pd.DataFrame,
    classes: pd.DataFrame,
    powers: pd.DataFrame,
    joint: pd.DataFrame,
    limits: pd.DataFrame,
    small: pd.DataFrame,
) -> dict[str, str]:
    real = pd.DataFrame(compared)
    real["difference"] = [f"{gap:.0e}" if gap else "0" for gap in real["difference"]]
    real["identified"] = real["identified"].astype(int)
    compared_columns = ["agent", "beliefs", "equal", "difference", "planted", "martingale_score"]
    compared_columns += ["martingale_score_lower", "martingale_score_upper", "martingale_score_ols", "identified"]
    planted_columns = ["agent", "strength", "slope", "movement", "excess_movement", "brier_gain", "brier_prior"]
    joint_columns = ("share", "joint", "formula", "separate", "leak", "leak_lower", "leak_upper")
    return {
        "compared": table(real, compared_columns, LABELS | {"identified": "`identified`", "planted": "planted slope"}),
        "planted": table(planted, [*planted_columns, "brier_posterior"], LABELS, 4),
        "chance": f"{1 / classes['agent'].nunique():.2f}",
        "classes": table(classes, ("agent", "n", "all_three", "slope_alone", "mostly_taken_for"), LABELS, 2),
        "powers": table(powers, ("evidence", "slope", "epochs", "n", "power", "mde"), LABELS),
        "joint": table(joint, joint_columns, LABELS | {"formula": "formula (2)"}),
        "limits": table(limits, ("measured with", "iv_bias", "iv_error", "ols_bias", "identified"), LABELS),
        "few": table(small, ("agent", "noise", "n", "identified", "coverage"), LABELS),
    }


def bias_texts(biases: pd.DataFrame) -> dict[str, str]:
    worst, ols = (biases.iloc[int(biases[name].abs().argmax())] for name in ("iv_bias", "ols_bias"))
    sloped = biases[biases["planted"].abs() > BIAS_AIM]
    wrong, iv_wrong = (
        int((sloped[name] * sloped["planted"] < 0).sum()) for name in ("martingale_score_ols", "martingale_score")
    )
    gap = (biases["formula_gap"].abs() / biases["formula_error"]).max()
    columns = ["agent", "noise", "shared", "planted", "martingale_score", "iv_bias", "iv_error", "martingale_score_ols"]
    columns += ["ols_bias", "formula", "formula_gap", "reliability", "shared_error"]
    return {
        "largest bias": f"{worst.iv_bias:+.3f} (Monte-Carlo error {worst.iv_error:.3f}), for `{worst.agent}` with "
        f"noise {worst.noise:g} and shared error {worst.shared:g}",
        "unbiased": f"{int((biases['iv_bias'].abs() <= BIAS_AIM).sum())} of the {len(biases)}",
        "bias of ols": f"{ols.ols_bias:+.3f}",
        "wrong sign of ols": f"{wrong} of the {len(sloped)}",
        "wrong sign": str(iv_wrong),
        "gap to formula": f"{biases['formula_gap'].abs().max():.4f} ({gap:.1f} Monte-Carlo errors)",
        "biases": details(f"All {len(biases)} settings", table(biases, columns, LABELS)),
    }


def coverage_texts(covered: pd.DataFrame) -> dict[str, str]:
    low, high = COVERAGE_AIM
    sentences = []
    for figure, shares in covered.groupby("figure", sort=False)["coverage"]:
        inside = f"{shares.between(low, high).sum()} of {len(shares)} within {low:g} to {high:g}"
        sentences.append(f"- `{figure}`: {shares.min():.3f} to {shares.max():.3f}; {inside}")
    ours = covered[covered["figure"] != "martingale_score_ols"]
    columns = ("agent", "n", "figure", "planted", "mean", "sd", "coverage")
    return {
        "coverage error": f"{1.96 * (0.95 * 0.05 / covered['replications'].iloc[0]) ** 0.5:.3f}",
        "coverage": "\n".join(sentences),
        "coverages": details("All settings", table(ours, columns)),
    }


def bias_chart(biases: pd.DataFrame) -> alt.FacetChart:
    long = pd.concat(
        [
            biases.assign(estimator=label, bias=biases[f"{column}_bias"])
            for column, label in (("iv", "martingale_score"), ("ols", "martingale_score_ols (published)"))
        ]
    )
    band = alt.Chart(long).mark_rect(color="#ddd", opacity=0.6).encode(y=alt.datum(-BIAS_AIM), y2=alt.datum(BIAS_AIM))
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


def coverage_chart(covered: pd.DataFrame) -> alt.FacetChart:
    (low, high), share = COVERAGE_AIM, covered["coverage"]
    half = 1.96 * np.sqrt(share * (1 - share) / covered["replications"])
    data = covered.assign(lower=share - half, upper=(share + half).clip(upper=1))
    band = alt.Chart(data).mark_rect(color="#ddd", opacity=0.6).encode(x=alt.datum(low), x2=alt.datum(high))
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


def profiles_chart(usual: Runs, planted: pd.DataFrame) -> alt.HConcatChart:
    """Which agent is it? Slope against movement and Brier gain: a dot for each run, a cross at the planted value."""
    size = max(n for _, n in usual)
    dots = pd.concat([run.head(60).assign(agent=name) for (name, n), run in usual.items() if n == size])
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


STUDY = Study(
    page="validity.md",
    sizes={"replications": 500, "seeds": 10, "real": 500, "worlds": 400, "repeated_runs": 120, "flat_runs": 60},
    measures={
        "usual": run_agents,
        "planted": agents,
        "biases": bias,
        "covered": coverage,
        "compared": through_the_task,
        "classes": classification,
        "powers": power,
        "errors": lambda worlds: report_errors.worlds(worlds),
        "again": report_errors.repeated,
        "flat": report_errors.slopeless,
        "joint": joint_readings,
        "limits": limits,
        "small": small,
    },
    charts={"_bias": bias_chart, "_coverage": coverage_chart, "_profiles": profiles_chart},
    texts=(
        tables,
        bias_texts,
        coverage_texts,
        lambda errors: report_errors.texts(errors),
        report_errors.repeated_texts,
        report_errors.slopeless_texts,
    ),
)


if __name__ == "__main__":
    STUDY.main(__doc__)
