"""Can the numbers be believed? Brier and martingale measures on agents whose truth is known, as a page.

    python -m studies.validity.martingale docs/validity.md    (extra: pip install -e ".[charts]")

Everything on the page is computed in this run. `--replications 50 --seeds 2 --real 100 --worlds 10` makes a quick one.
"""

from collections.abc import Sequence
from itertools import product

import altair as alt
import pandas as pd

from studies.study import Row, Study, recovery
from studies.validity import report_errors
from studies.validity.report_errors import COVERAGE_AIM
from studies.validity.simulated_runs import Distort, compare, look_ahead, persistent, replicate
from studies.validity.true_values import true_values
from truthgym.analysis.tables.markdown import table
from truthgym.models.agents.policies import Parameters

Runs = dict[tuple[str, int], pd.DataFrame]


NAMES = ["bayesian", "stuck", "underreacting", "overreacting", "entrenched", "confirming", "neglecting"]
"""Agents with a true slope, one for each way of updating."""
USUAL = Parameters(noise=0.1, shared=0.25)
NOISES, SHARES = (0.05, 0.1, 0.15), (0.0, 0.25, 0.5)
BIAS_N, SIZES = 5000, (100, 500)
SECTIONS = ("bias", "coverage", "power", "limits", "small", "joint readings", "real task")
"""Each draws its own questions and noise, so that no lucky draw serves two of them."""


def seeds_of(section: str, count: int) -> range:
    """So many seeds that no other section uses."""
    first = 100_000 * SECTIONS.index(section)
    return range(first, first + count)


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
        rows.append(
            {"agent": name, "noise": noise, "shared": shared, "planted": true_values(name, parameters).slope}
            | _bias(runs)
            | {mean: runs[mean].mean() for mean in ("martingale_score", "martingale_score_ols")}
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
    "iv_bias": "bias",
    "ols_bias": "bias of `_ols`",
    "share": "planted look-ahead",
    "joint": "published score of the joint reading",
    "separate": "`martingale_score`, read separately",
    "leak": "`leak`",
    "identified": "share identified",
}
"""Headers of the columns whose name is not their header."""


def tables(compared: Sequence[Row], joint: pd.DataFrame, limits: pd.DataFrame) -> dict[str, str]:
    equal, beliefs = (sum(row[name] for row in compared) for name in ("equal", "beliefs"))
    return {
        "equal": f"{equal:,} of {beliefs:,}",
        "joint": table(joint, ("share", "joint", "separate", "leak"), LABELS),
        "limits": table(limits, ("measured with", "iv_bias", "ols_bias", "identified"), LABELS),
    }


def bias_texts(biases: pd.DataFrame) -> dict[str, str]:
    worst, ols = (biases.iloc[int(biases[name].abs().argmax())] for name in ("iv_bias", "ols_bias"))
    sloped = biases[biases["planted"].abs() > BIAS_AIM]
    wrong, iv_wrong = (
        int((sloped[name] * sloped["planted"] < 0).sum()) for name in ("martingale_score_ols", "martingale_score")
    )
    return {
        "largest bias": f"{worst.iv_bias:+.3f} (Monte-Carlo error {worst.iv_error:.3f}), for `{worst.agent}` with "
        f"noise {worst.noise:g} and shared error {worst.shared:g}",
        "unbiased": f"{int((biases['iv_bias'].abs() <= BIAS_AIM).sum())} of the {len(biases)}",
        "bias of ols": f"{ols.ols_bias:+.3f}",
        "wrong sign of ols": f"{wrong} of the {len(sloped)}",
        "wrong sign": str(iv_wrong),
    }


def coverage_texts(covered: pd.DataFrame) -> dict[str, str]:
    low, high = COVERAGE_AIM
    sentences = []
    for figure, shares in covered.groupby("figure", sort=False)["coverage"]:
        inside = f"{shares.between(low, high).sum()} of {len(shares)} within {low:g} to {high:g}"
        sentences.append(f"- `{figure}`: {shares.min():.3f} to {shares.max():.3f}; {inside}")
    return {
        "coverage error": f"{1.96 * (0.95 * 0.05 / covered['replications'].iloc[0]) ** 0.5:.3f}",
        "coverage": "\n".join(sentences),
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


STUDY = Study(
    page="validity.md",
    sizes={"replications": 500, "seeds": 10, "real": 500, "worlds": 400, "repeated_runs": 120, "flat_runs": 60},
    measures={
        "usual": run_agents,
        "biases": bias,
        "covered": coverage,
        "compared": through_the_task,
        "errors": lambda worlds: report_errors.worlds(worlds),
        "again": report_errors.repeated,
        "flat": report_errors.slopeless,
        "joint": joint_readings,
        "limits": limits,
    },
    charts={"_bias": bias_chart},
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
