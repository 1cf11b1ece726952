"""Can the numbers be believed? Brier and martingale measures on agents whose truth is known, as a page with charts.

    python -m studies.validity.martingale docs/validity.md    (extra: pip install -e ".[charts]")

Everything on the page is computed in this run. `--replications 50 --seeds 2 --real 100 --worlds 10` makes a quick one.
"""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from studies.validity import charts, worlds_page
from studies.validity import martingale_page as text
from studies.validity.end_to_end import Row, compare
from studies.validity.pages import main
from studies.validity.replications import (
    Distort,
    look_ahead,
    persistent,
    recovery,
    replicate,
    unlike_urns,
)
from studies.validity.true_values import true_values
from studies.validity.worlds import worlds as run_worlds
from truthgym.analysis.tables.saving import check_extra
from truthgym.models.agents.policies import AGENTS, Parameters
from truthgym.scorers.statistics.martingale_score import martingale_score

if TYPE_CHECKING:
    import pandas as pd

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


def agents() -> "pd.DataFrame":
    """What is planted: exact population values on the questions of `truthgym/urns`."""
    import pandas as pd

    rows = []
    for name in NAMES:
        truth = true_values(name, Parameters())
        rows.append(
            asdict(truth)
            | {"agent": name, "strength": AGENTS[name].strength or np.nan}
            | {"excess_movement": truth.excess, "brier_gain": truth.gain}
        )
    return pd.DataFrame(rows)


def _bias(runs: "pd.DataFrame") -> Row:
    """Bias of both slopes, with the Monte-Carlo error of the first.

    The error of a run is its estimate minus the slope of the noiseless beliefs on the same questions. The mean of that
    slope is the planted one, so this removes the sampling of questions.
    """
    iv, ols = (runs[name] - runs["noiseless"] for name in ("martingale_score", "martingale_score_ols"))
    return {"iv_bias": iv.mean(), "iv_error": iv.std() * len(runs) ** -0.5, "ols_bias": ols.mean()}


def bias(seeds: int) -> "pd.DataFrame":
    """Bias of both slopes for each agent, noise and shared error, at 5,000 questions and three epochs."""
    import pandas as pd

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


def run_agents(replications: int) -> "Runs":
    """Every agent with the usual noise, at each size."""
    seeds = seeds_of("coverage", replications)
    return {(name, n): replicate(name, USUAL, n, seeds) for name, n in product(NAMES, SIZES)}


def coverage(runs: "Runs") -> "pd.DataFrame":
    """How often each interval contains the planted value, for each agent and size."""
    import pandas as pd

    rows = []
    for (name, n), run in runs.items():
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


def classification(runs: "Runs") -> "pd.DataFrame":
    """Share of runs in which an agent is nearest to its own profile of slope, movement and Brier gain."""
    import pandas as pd

    profiles = np.array([[p.slope, p.movement, p.gain] for p in (true_values(name, USUAL) for name in NAMES)])
    rows = []
    for n in SIZES:
        seen = {name: runs[name, n][["martingale_score", "movement", "brier_gain"]].to_numpy() for name in NAMES}
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


def power(replications: int) -> "pd.DataFrame":
    """Share of runs that find a slope, at the sizes tabulated for a power of 0.8."""
    import pandas as pd

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


def limits(seeds: int) -> "pd.DataFrame":
    """Where it fails: a Bayesian measured in ways that no estimator mends, and one that another elicitor does."""
    import pandas as pd

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


def small(replications: int) -> "pd.DataFrame":
    """Few questions: how often the score is identified, and then how often its interval contains the planted slope."""
    import pandas as pd

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


def joint_readings(n: int = 40_000) -> "pd.DataFrame":
    """A rational agent read by judges that look ahead, or do not."""
    import pandas as pd

    shares = (0.0, 0.05, 0.1, 0.2)
    seeds = seeds_of("joint readings", len(shares))
    return pd.DataFrame([look_ahead(share, n, seed) for share, seed in zip(shares, seeds, strict=True)])


def write(
    out: Path,
    replications: int = 500,
    seeds: int = 10,
    real: int = 500,
    worlds: int = 400,
    names: Iterable[str] = (*NAMES, "random"),
) -> None:
    """Compute everything and write the page, with its charts beside it.

    Args:
        out: The Markdown file.
        replications: Runs for each coverage, power and classification figure.
        seeds: Runs of 5,000 questions for each bias figure.
        real: Number of questions of the runs through the real task.
        worlds: Runs of each of `worlds.WORLDS`, in two processes.
        names: Agents of those runs.
    """
    check_extra()  # before a computation of minutes
    usual, planted, biases = run_agents(replications), agents(), bias(seeds)
    covered = coverage(usual)
    shown = tuple(names)
    seeds_shown = seeds_of("real task", len(shown))
    compared = [
        compare(name, Parameters() if name == "random" else USUAL, real, seed=seed)
        for name, seed in zip(shown, seeds_shown, strict=True)
    ]
    charts.bias(biases, text.BIAS_AIM).save(out.with_name("validity_bias.svg"))
    charts.coverage(covered, text.COVERAGE_AIM).save(out.with_name("validity_coverage.svg"))
    charts.profiles(usual, planted).save(out.with_name("validity_profiles.svg"))
    sections = [
        text.head(replications, seeds),
        text.real_task(compared, real),
        text.planted_values(planted),
        text.biases(biases),
        text.coverages(covered),
        text.classified(classification(usual)),
        text.powers(power(replications)),
        worlds_page.section(run_worlds(worlds)),
        text.looking_ahead(joint_readings()),
        text.failures(limits(seeds), small(replications)),
    ]
    out.write_text("\n".join(sections), encoding="utf-8")


if __name__ == "__main__":
    main(write, __doc__, "replications", "seeds", "real", "worlds")
