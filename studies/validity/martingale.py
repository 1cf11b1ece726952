"""Can the numbers be believed? Brier and martingale measures on agents whose truth is known, as a page.

    python -m studies.validity.martingale docs/validity.md    (extra: pip install -e ".[charts]")

Everything on the page is computed in this run. `--replications 50 --seeds 2 --real 100 --worlds 10` makes a quick one.
Many runs are without a model call: each draws its own questions and noise. The reports are those that the provider
would give, and the figures those that the scorers' metrics would show: the same functions compute both.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product

import altair as alt
import numpy as np
import pandas as pd

from studies.study import Row, Study, recovery, reference_model, run_task
from studies.validity import report_errors
from studies.validity.report_errors import COVERAGE_AIM
from studies.validity.true_values import Reports, UrnCases, simulate_reports, true_values, urn_cases
from truthgym.analysis.tables.markdown import table
from truthgym.datasets.urns import urns
from truthgym.models.agents.belief_reports import noisy, percent, wording_of
from truthgym.models.agents.policies import AGENTS, Floats, Parameters, beliefs, is_random, uniform
from truthgym.scorers.beliefs.elicitation import PROBE
from truthgym.scorers.statistics.instrumented_slope import Codes, ols_slope
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.martingale_score import (
    brier_gain,
    corrected_posterior,
    foreseen_share,
    martingale_score,
    movement,
)
from truthgym.scorers.statistics.proper_scores import brier_score, row_mean
from truthgym.tasks.worlds import urns as task

Runs = dict[tuple[str, int], pd.DataFrame]
NAMES = ["bayesian", "stuck", "underreacting", "overreacting", "entrenched", "confirming", "neglecting"]
"""Agents with a true slope, one for each way of updating."""
USUAL = Parameters(noise=0.1, shared=0.25)
NOISES, SHARES = (0.05, 0.1, 0.15), (0.0, 0.25, 0.5)
BIAS_N, SIZES = 5000, (100, 500)
SECTIONS = ("bias", "coverage", "power", "limits", "small", "joint readings", "real task")
"""Each draws its own questions and noise, so that no lucky draw serves two of them."""
Distort = Callable[[Reports, UrnCases, Parameters], tuple[Reports, Floats | None]]
"""Another way of measuring: from an agent's reports to other ones, and an instrument where there is one."""
EPOCHS = 3
"""Runs of each question."""


@cache
def questions(n: int, seed: int) -> UrnCases:
    return urn_cases(urns(n=n, seed=1_000_000 + seed))


def figures(reports: Reports, cases: UrnCases, instrument: Floats | None = None) -> dict[str, float]:
    """What the metrics of `martingale` and `brier` would show, by their names."""
    x, y, outcome = reports.prior, reports.posterior, cases.outcome
    score = martingale_score(x, y, instrument)
    moved = movement(x, y)
    corrected = corrected_posterior(x, y, score.estimate, np.zeros(len(x), dtype=np.intp))
    answer, posterior, without_slope = (
        mean_estimate(row_mean(brier_score(belief, outcome[:, None]))) for belief in (reports.answer, y, corrected)
    )
    return {
        "martingale_score": score.estimate,
        "martingale_score_lower": score.lower,
        "martingale_score_upper": score.upper,
        "mde": score.mde,
        "identified": score.identified,
        "martingale_score_ols": score.ols,
        "martingale_score_ols_lower": score.ols_lower,
        "martingale_score_ols_upper": score.ols_upper,
        "reliability": score.reliability,
        "shared_error": score.shared_error,
        "movement": mean_estimate(moved.movement).estimate,
        **mean_estimate(moved.excess).metrics("excess_movement"),
        **mean_estimate(brier_gain(x, y, outcome)).metrics("brier_gain"),
        **answer.metrics("brier"),
        "brier_posterior": posterior.estimate,
        "brier_corrected": without_slope.estimate,
    }


def replicate(
    name: str, parameters: Parameters, n: int, seeds: Sequence[int], distort: Distort | None = None
) -> pd.DataFrame:
    """Run an agent on one set of questions for each seed."""

    def rows() -> Iterator[dict[str, float]]:
        for seed in seeds:
            cases = questions(n, seed)
            drawn = parameters.model_copy(update={"seed": seed})
            reports = simulate_reports(name, drawn, cases, range(1, EPOCHS + 1))
            instrument = None
            if distort:
                reports, instrument = distort(reports, cases, drawn)
            yield figures(reports, cases, instrument) | {"noiseless": noiseless_slope(name, parameters, cases)}

    return pd.DataFrame(rows())


def noiseless_slope(name: str, parameters: Parameters, cases: UrnCases) -> float:
    """Slope of an agent's noiseless beliefs on these questions: the planted slope plus the sampling of questions."""
    if AGENTS[name].update is None:
        return np.nan
    before, after = (beliefs(name, cases.log_odds, e, parameters) for e in (cases.evidence[:, :0], cases.evidence))
    same_domain: Codes = np.zeros(len(before), dtype=np.intp)
    return ols_slope(
        (after - before)[:, None, None], before[:, None, None], np.arange(len(before)), same_domain
    ).estimate


def persistent(spread: float, second: bool = False) -> Distort:
    """An error of the prior that is the same in all epochs of a question: misleading wording can cause one."""

    def measure(reports: Reports, cases: UrnCases, parameters: Parameters) -> tuple[Reports, Floats | None]:
        places = np.array([uniform(parameters.seed, "persistent", key) for key in cases.key])[:, None]
        other = None
        if second:
            start = beliefs("bayesian", cases.log_odds, cases.evidence[:, :0], parameters)
            other = _noisy_reports(start, 0.05, parameters.seed, "second", cases)
        return Reports(percent(noisy(reports.prior, spread, places)), reports.posterior, reports.answer), other

    return measure


def _noisy_reports(belief: Floats, noise: float, seed: int, reading: str, cases: UrnCases) -> Floats:
    """Noisy reports of one belief for each question: questions x epochs."""
    places = np.array([[uniform(seed, reading, key, e) for e in range(EPOCHS)] for key in cases.key])
    return percent(noisy(np.repeat(belief[:, None], EPOCHS, axis=1), noise, places))


def look_ahead(share: float, n: int, seed: int) -> dict[str, float]:
    """A Bayesian without noise, read by a judge who sees the whole trajectory at once, and by one who does not."""
    cases, parameters = questions(n, seed), Parameters(seed=seed)
    prior, posterior = (
        beliefs("bayesian", cases.log_odds, seen, parameters) for seen in (cases.evidence[:, :0], cases.evidence)
    )
    # A joint reading has one error throughout.
    joint, end, before, after = (
        _noisy_reports(belief, 0.05, seed, reading, cases)
        for belief, reading in (
            (prior + share * (posterior - prior), "joint"),
            (posterior, "joint"),
            (prior, "before"),
            (posterior, "after"),
        )
    )
    same_domain: Codes = np.zeros(n, dtype=np.intp)
    each: Codes = np.arange(n)
    joint_slope = ols_slope((end - joint)[:, :, None], joint[:, :, None], each, same_domain)
    seen = foreseen_share(before, after, joint, each, same_domain)
    moved, spread = float(np.mean((posterior - prior) ** 2)), float(np.var(joint))
    return {
        "share": share,
        "joint": joint_slope.estimate - noiseless_slope("bayesian", parameters, cases),
        "formula": (1 - share) * share * moved / spread,
        "separate": martingale_score(before, after).estimate - noiseless_slope("bayesian", parameters, cases),
        "leak": seen.estimate,
        "leak_lower": seen.lower,
        "leak_upper": seen.upper,
    }


REPORTS = (("prior", "martingale", "prior"), ("posterior", "martingale", "posterior"), ("answer", "brier", "belief"))
"""Each array of `Reports`, with the scorer and the key that hold its numbers in a log."""


def compare(name: str, parameters: Parameters, n: int, epochs: int = 3, seed: int = 0) -> Row:
    """Run `truthgym/urns` on an agent and compare its beliefs and metrics with those of the pure functions."""
    parameters = parameters.model_copy(update={"seed": seed})
    dataset = urns(n=n, seed=seed)
    cases = urn_cases(dataset)
    wording = wording_of(PROBE.format(proposition=""))
    expected = simulate_reports(name, parameters, cases, range(1, epochs + 1), wording)
    row = {item.id: i for i, item in enumerate(dataset)}
    logged = Reports(*(np.full((n, epochs), np.nan) for _ in REPORTS))
    asked = task(n=n, seed=seed, paradigms={"brier": {}, "martingale": {"figures": "all"}})
    log = run_task(asked, reference_model(name, parameters), epochs=epochs)
    for sample in log.samples or []:
        for array, scorer, key in REPORTS:
            value = (sample.scores or {})[scorer].value
            assert isinstance(value, dict)
            getattr(logged, array)[row[sample.id], sample.epoch - 1] = value[key]
    arrays = [(getattr(logged, array), getattr(expected, array)) for array, *_ in REPORTS]
    equal = [(logged_values == right) | (np.isnan(logged_values) & np.isnan(right)) for logged_values, right in arrays]
    assert log.results is not None
    metrics = {
        score.name: {name: metric.value for name, metric in score.metrics.items()} for score in log.results.scores
    }
    shown = metrics["martingale"] | {"brier": metrics["brier"]["brier"]}
    gaps = [abs(value - shown[figure]) for figure, value in figures(expected, cases).items() if figure in shown]
    return metrics["martingale"] | {
        "agent": name,
        "beliefs": sum(matches.size for matches in equal),
        "equal": int(sum(matches.sum() for matches in equal)),
        "difference": float(np.nanmax(gaps)),
        "planted": np.nan if is_random(name) else true_values(name, parameters).slope,
    }


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
