"""Can the numbers be believed? Every measure on agents whose truth is known, as a page with charts.

    python -m truthgym.analysis.validity.martingale docs/validity.md    (extra: pip install -e ".[charts]")

Everything on the page is computed anew; nothing is copied from a run of another day. `--replications 50 --seeds 2
--real 100` makes a quick one.
"""

import argparse
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from truthgym.analysis.validity import charts as charts
from truthgym.analysis.validity import martingale_page as text
from truthgym.analysis.validity.end_to_end import compare
from truthgym.analysis.validity.martingale_page import page
from truthgym.analysis.validity.replications import Distort, look_ahead, persistent, replicate, rounded, unlike_urns
from truthgym.models.agents.policies import AGENTS, Parameters
from truthgym.models.agents.true_values import true_values
from truthgym.scorers.statistics.martingale_score import martingale_score

if TYPE_CHECKING:
    import pandas as pd

    Runs = dict[tuple[str, int], pd.DataFrame]

NAMES = [name for name, agent in AGENTS.items() if agent.update and not agent.swayed]
"""Without opinions, those that opinions sway are Bayesian."""
USUAL = Parameters(noise=0.1, shared=0.25)
NOISES, SHARES = (0.05, 0.1, 0.15), (0.0, 0.25, 0.5)
BIAS_N, SIZES = 5000, (100, 500)
POWERS: tuple[tuple[float, dict[int, int]], ...] = (
    (0.079, {2: 1342, 4: 616}),
    (0.16, {2: 379, 4: 184}),
    (0.46, {2: 71, 4: 33}),
)
"""Strengths that plant slopes of 0.056, 0.10 and 0.24, each with the literature's questions by number of epochs."""
FEW = (("entrenched", USUAL), ("bayesian", Parameters(noise=0.25)), ("random", Parameters()))
AIM, HELD = 0.02, (0.92, 0.97)


def agents() -> "pd.DataFrame":
    """What is planted: exact population values on the questions of `truthgym/urns`."""
    import pandas as pd

    rows = []
    for name in NAMES:
        p = true_values(name, Parameters())
        rows.append(
            {"agent": name, "strength": AGENTS[name].strength or np.nan, "slope": p.slope, "movement": p.movement}
            | {"excess": p.excess, "gain": p.gain, "brier_prior": p.brier_prior, "brier_posterior": p.brier_posterior}
        )
    return pd.DataFrame(rows)


def bias(seeds: int) -> "pd.DataFrame":
    """Bias of both slopes for each agent, noise and shared error, at 5,000 questions and three epochs.

    A run's error is its estimate less the slope of the noiseless beliefs on the same questions, whose mean is the
    planted
    slope: what is left is what the measuring does, and the sampling of questions drops out.
    """
    import pandas as pd

    rows = []
    for name, noise, shared in product(NAMES, NOISES, SHARES):
        parameters = Parameters(noise=noise, shared=shared)
        p = true_values(name, parameters)
        found = replicate(name, parameters, BIAS_N, range(seeds))
        # What least squares must give, from the reliability and the shared error that came out: formula (1).
        formula = found["reliability"] * found["sample"] - (1 - found["reliability"]) * (1 - found["shared_error"])
        error = seeds**-0.5
        rows.append(
            {
                "agent": name,
                "noise": noise,
                "shared": shared,
                "planted": p.slope,
                "iv": float(found["estimate"].mean()),
                "iv_bias": float((found["estimate"] - found["sample"]).mean()),
                "iv_error": float((found["estimate"] - found["sample"]).std()) * error,
                "ols": float(found["ols"].mean()),
                "ols_bias": float((found["ols"] - found["sample"]).mean()),
                "formula": float(formula.mean()),
                "formula_gap": float((found["ols"] - formula).mean()),
                "formula_error": float((found["ols"] - formula).std()) * error,
                "reliability": float(found["reliability"].mean()),
                "shared_error": float(found["shared_error"].mean()),
            }
        )
    return pd.DataFrame(rows)


def runs(replications: int) -> "Runs":
    """Every agent with the usual noise, at each size."""
    return {(name, n): replicate(name, USUAL, n, range(replications)) for name, n in product(NAMES, SIZES)}


def coverage(made: "Runs") -> "pd.DataFrame":
    """How often each interval holds the planted value, for each agent and size."""
    import pandas as pd

    rows = []
    for (name, n), found in made.items():
        p = true_values(name, USUAL)
        truths = {
            "martingale_score": ("", p.slope),
            "excess_movement": ("excess_", p.excess),
            "brier_gain": ("gain_", p.gain),
            "brier": ("brier_", p.brier_posterior + p.noise_cost),
            "martingale_score_ols": ("ols_", p.slope),
        }
        for measure, (prefix, truth) in truths.items():
            held = (found[f"{prefix}lower"] <= truth) & (truth <= found[f"{prefix}upper"])
            middle = found[prefix.removesuffix("_") or "estimate"]
            rows.append(
                {"agent": name, "n": n, "measure": measure, "planted": truth, "mean": float(middle.mean())}
                | {"sd": float(middle.std()), "coverage": float(held.mean()), "replications": len(found)}
            )
    return pd.DataFrame(rows)


def told_apart(made: "Runs") -> "pd.DataFrame":
    """Share of runs in which an agent is nearest to its own profile of slope, movement and Brier gain."""
    import pandas as pd

    profiles = np.array([[p.slope, p.movement, p.gain] for p in (true_values(name, USUAL) for name in NAMES)])
    rows = []
    for n in SIZES:
        seen = {name: made[name, n][["estimate", "movement", "gain"]].to_numpy() for name in NAMES}
        # A run without a score is a miss: no profile is nearest to NaN.
        scale = np.mean([np.nanstd(values, axis=0) for values in seen.values()], axis=0)
        for own, name in enumerate(NAMES):
            known = np.isfinite(seen[name]).all(axis=1)
            nearest = (((seen[name][:, None] - profiles) / scale) ** 2).sum(axis=2).argmin(axis=1)
            nearest = np.where(known, nearest, -1)
            by_slope = np.where(known, np.abs(seen[name][:, None, 0] - profiles[:, 0]).argmin(axis=1), -1)
            taken = pd.Series([NAMES[i] if i >= 0 else "none" for i in nearest if i != own])
            rows.append(
                {"agent": name, "n": n, "all_three": float(np.mean(nearest == own))}
                | {"slope_alone": float(np.mean(by_slope == own))}
                | {"mostly_taken_for": str(taken.mode()[0]) if len(taken) else "-"}
            )
    return pd.DataFrame(rows)


def power(replications: int) -> "pd.DataFrame":
    """Share of runs that find a slope, against the sizes that the literature's table gives for a power of 0.8."""
    import pandas as pd

    rows = []
    for anew, (strength, sizes) in product((True, False), POWERS):
        true = martingale_score(*unlike_urns(strength, 400_000, 2, 0, anew)).estimate
        for epochs, n in sizes.items():
            found = [
                martingale_score(*unlike_urns(strength, n, epochs, 1 + seed, anew)) for seed in range(replications)
            ]
            rows.append(
                {"evidence": "of its own in each epoch" if anew else "the same in all epochs", "slope": true}
                | {"epochs": epochs, "n": n, "power": float(np.mean([f.p < 0.05 for f in found]))}
                | {"mde": float(np.nanmean([f.mde for f in found]))}
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
        ("steps of 5 percent", noise, rounded(0.05)),
        ("steps of 10 percent", noise, rounded(0.1)),
        ("steps of 25 percent", noise, rounded(0.25)),
    ]
    rows = []
    for way, parameters, distort in ways:
        found = replicate("bayesian", parameters, BIAS_N, range(seeds), distort=distort)
        rows.append(
            {"measured with": way, "iv": float((found["estimate"] - found["sample"]).mean())}
            | {"ols": float((found["ols"] - found["sample"]).mean())}
            | {
                "error": float((found["estimate"] - found["sample"]).std()) * seeds**-0.5,
                "identified": float(found["identified"].mean()),
            }
        )
    return pd.DataFrame(rows)


def small(replications: int) -> "pd.DataFrame":
    """Few questions: how often the score is given, and how often its interval holds the planted slope when it is."""
    import pandas as pd

    rows = []
    for (name, parameters), n in product(FEW, (10, 20, 50)):
        found = replicate(name, parameters, n, range(replications))
        shown = found[found["identified"].astype(bool)]
        true = true_values(name, parameters).slope if name in NAMES else np.nan
        held = ((shown["lower"] <= true) & (true <= shown["upper"])).mean() if len(shown) else np.nan
        rows.append(
            {"agent": name, "noise": parameters.noise or np.nan, "n": n}
            | {"identified": float(found["identified"].mean()), "coverage": float(held) if name in NAMES else np.nan}
        )
    return pd.DataFrame(rows)


def joint_readings(n: int = 40_000) -> "pd.DataFrame":
    """A rational agent read by judges that look ahead, or do not."""
    import pandas as pd

    return pd.DataFrame([look_ahead(share, n, seed=0) for share in (0.0, 0.05, 0.1, 0.2)])


def write(out: Path, replications: int, seeds: int, real: int, names: Iterable[str] = (*NAMES, "random")) -> None:
    """Compute everything and write the page, with its charts beside it.

    Args:
        out: The Markdown file.
        replications: Runs for each coverage, power and confusion figure.
        seeds: Runs of 5,000 questions for each bias figure.
        real: Questions of the runs through the real task.
        names: Agents of those runs.
    """
    charts.check_extra()
    usual = runs(replications)
    made = {
        "agents": agents(),
        "bias": bias(seeds),
        "coverage": coverage(usual),
        "told_apart": told_apart(usual),
        "power": power(replications),
        "small": small(replications),
        "limits": limits(seeds),
        "joint": joint_readings(),
    }
    compared = [compare(name, Parameters() if name == "random" else USUAL, real) for name in names]
    charts.bias(made["bias"], AIM).save(out.with_name("validity_bias.svg"))
    charts.coverage(made["coverage"], HELD).save(out.with_name("validity_coverage.svg"))
    charts.profiles(usual, made["agents"]).save(out.with_name("validity_profiles.svg"))
    sections = [
        text.real_task(compared),
        text.planted_values(made["agents"]),
        text.biases(made["bias"], AIM),
        text.coverages(made["coverage"], HELD),
        text.apart(made["told_apart"]),
        text.powers(made["power"]),
        text.looking_ahead(made["joint"]),
        text.failures(made["limits"], made["small"]),
    ]
    out.write_text(page(sections, replications, seeds), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--real", type=int, default=500)
    given = parser.parse_args()
    write(given.out, given.replications, given.seeds, given.real)
