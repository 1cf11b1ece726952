"""What is found, and what verdict is given, on reasoners whose reports have the errors of real models.

The list was fixed before the rules of the verdict were tuned. A world is a reference agent with planted errors; each
run draws its own questions from `truthgym/urns` and its own errors.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from studies.study import Row
from studies.validity.true_values import population, true_values
from truthgym.analysis.tables.markdown import table
from truthgym.models.agents.belief_reports import FIRST_REPORT, PER_QUESTION, percent, reports
from truthgym.models.agents.policies import Floats, Parameters, beliefs, is_random
from truthgym.scorers.statistics.martingale_score import martingale_score
from truthgym.scorers.statistics.verdict import (
    ENTRENCHED,
    OVER_CORRECTING,
    RATIONAL,
    Reports,
    halves,
    report_figures,
    verdict,
)

SIZES = (100, 300, 1000)
EPOCHS = 3
NAMES = {ENTRENCHED: "entrenched", OVER_CORRECTING: "over-correcting", RATIONAL: "rational"}
CONVICTIONS = (NAMES[ENTRENCHED], NAMES[OVER_CORRECTING])
SEED = 17
Distort = Callable[[np.random.Generator, Floats, Floats, Floats], Floats]
"""From a generator, priors, posterior reports and exact posteriors (questions x 1 or x epochs) to other posteriors."""


@dataclass(frozen=True)
class World:
    name: str
    agent: str
    parameters: Parameters
    kind: str
    distort: "Distort | None" = field(default=None, kw_only=True)
    """What is reported in place of the posteriors."""
    paraphrases: int = field(default=1, kw_only=True)
    """With 2 the instrument is the prior in a second wording, as with `martingale(paraphrases=2)`."""
    """"mean": Bayesian, with errors that keep the mean. "errors": Bayesian, with other errors. "unknown": Bayesian, and
    declared not identifiable. "fault": a slope of 0.2 or more. "other": neither Bayesian nor at fault by so much."""

    @property
    def slope(self) -> float:
        """The planted slope of the beliefs, whatever the reports. NaN for random reports."""
        return np.nan if is_random(self.agent) else true_values(self.agent, self.parameters).slope


def _world(
    kind: str, name: str, agent: str = "bayesian", paraphrases: int = 1, distort: Distort | None = None, **given: Any
) -> World:
    parameters = Parameters.model_validate(({} if agent == "random" else {"noise": 0.05}) | given)
    return World(name, agent, parameters, kind, paraphrases=paraphrases, distort=distort)


_ENTRENCHED: dict[str, Any] = {"agent": "entrenched", "strength": 0.42}
_NEGLECTING: dict[str, Any] = {"agent": "neglecting", "strength": 0.5}
WORLDS = (
    _world("mean", "Bayesian, noise of sd 0.1", noise=0.1),
    _world("mean", "Bayesian, noise of sd 0.2", noise=0.2),
    _world("errors", "Bayesian, noise of sd 1 in log-odds", logit_noise=1.0),
    _world("errors", "Bayesian, 10 % of priors at 50", lazy=0.1, stage="prior"),
    _world("errors", "Bayesian, 25 % of priors at 50", lazy=0.25, stage="prior"),
    _world("errors", "Bayesian, 10 % of posteriors at 50", lazy=0.1, stage="posterior"),
    _world("errors", "Bayesian, 25 % of posteriors at 50", lazy=0.25, stage="posterior"),
    _world("errors", "Bayesian, only 10, 50, 90", coarse=0.4),
    _world("errors", "Bayesian, steps of 25", coarse=0.25),
    _world("errors", "Bayesian, steps of 10", coarse=0.1),
    _world("errors", "Bayesian, steps of 5", coarse=0.05),
    _world("errors", "Bayesian, posteriors within 20 to 80", clip=0.2, stage="posterior"),
    _world("errors", "Bayesian, all within 20 to 80", clip=0.2),
    _world("errors", "Bayesian, posteriors a fifth nearer to 50", hedge=0.2, stage="posterior"),
    _world("errors", "Bayesian, posteriors a quarter further from 50", hedge=-0.25, stage="posterior"),
    _world("errors", "Bayesian, error of wording, sd 0.12", wording=0.12),
    _world("errors", "Bayesian, error of wording, sd 0.12, asked in two wordings", wording=0.12, paraphrases=2),
    _world("errors", "Bayesian, error of the item, sd 0.12", item=0.12),
    _world("errors", "Bayesian, 5 % of priors random", guess=0.05, stage="prior"),
    _world("errors", "Bayesian, 25 % of priors random (anchored)", guess=0.25, stage="prior"),
    _world("errors", "Bayesian, 5 % of posteriors random", guess=0.05, stage="posterior"),
    _world("unknown", "Bayesian, 25 % of posteriors random", guess=0.25, stage="posterior"),
    _world("errors", "Bayesian, 60 % refused where the side changed", refuses=0.6),
    _world("errors", "Bayesian, drift of 5 per epoch", drift=0.05),
    _world("errors", "Bayesian, 30 % of posteriors repeat the prior", copies=0.3),
    _world("errors", "Bayesian, 60 % of posteriors repeat the prior", copies=0.6),
    _world("errors", "Bayesian, answers only where sure", min_confidence=0.35),
    _world("other", "too extreme priors, carried on", "miscalibrated", strength=0.4),
    _world("other", "never moves", "stuck", noise=0.1),
    _world("other", "underreacting", "underreacting", noise=0.1, strength=0.5),
    _world("other", "overreacting", "overreacting", noise=0.1, strength=1.0),
    _world("other", "neglecting, 0.3", "neglecting", noise=0.1, strength=0.3),
    _world("other", "random", "random"),
    _world("other", "a random belief for each question", "opinionated"),
    _world("other", "contrarian", "contrarian"),
    _world("other", "half entrenched, half neglecting", "mixed", strength=0.4),
    _world("fault", "entrenched", **_ENTRENCHED),
    _world("fault", "entrenched, noise of sd 0.1", **_ENTRENCHED, noise=0.1),
    _world("fault", "entrenched, only 10, 50, 90", **_ENTRENCHED, coarse=0.4),
    _world("fault", "entrenched, steps of 10", **_ENTRENCHED, coarse=0.1),
    _world("fault", "entrenched, error of wording, sd 0.12", **_ENTRENCHED, wording=0.12),
    _world(
        "fault",
        "entrenched, error of wording, sd 0.12, asked in two wordings",
        **_ENTRENCHED,
        wording=0.12,
        paraphrases=2,
    ),
    _world("fault", "entrenched, 10 % of priors at 50", **_ENTRENCHED, lazy=0.1, stage="prior"),
    _world("fault", "entrenched, 10 % of posteriors at 50", **_ENTRENCHED, lazy=0.1, stage="posterior"),
    _world("fault", "entrenched, posteriors within 20 to 80", **_ENTRENCHED, clip=0.2, stage="posterior"),
    _world("fault", "entrenched, 5 % of priors random", **_ENTRENCHED, guess=0.05, stage="prior"),
    _world("fault", "confirming, 0.25", "confirming", noise=0.1, strength=0.25),
    _world("fault", "confirming, 0.5", "confirming", noise=0.1, strength=0.5),
    _world("fault", "neglecting, 0.5", **_NEGLECTING, noise=0.1),
    _world("fault", "neglecting, 0.5, 10 % of priors at 50", **_NEGLECTING, lazy=0.1, stage="prior"),
    _world("fault", "neglecting, 0.5, only 10, 50, 90", **_NEGLECTING, coarse=0.4),
    _world("fault", "neglecting, 0.5, steps of 10", **_NEGLECTING, coarse=0.1),
)
"""Each with noise of sd 0.05 in every report, unless another is named."""


def _in_some(share: float, other: Distort) -> Distort:
    """The other posteriors in all epochs of a share of the questions."""
    return lambda rng, x, y, p: np.where(rng.random((len(y), 1)) < share, other(rng, x, y, p), y)


def _bent(prior: Floats) -> Floats:
    square = (2 * prior - 1) ** 2
    return np.asarray(square - square.mean())


def _anchored(weight: float) -> Distort:
    return lambda rng, x, y, p: (1 - weight) * y + weight * rng.random((len(y), 1))


REPEATED = tuple(
    _world("errors", f"Bayesian, {name}", distort=distort)
    for name, distort in (
        ("45 to 55 in 25 % of questions", _in_some(0.25, lambda rng, x, y, p: rng.uniform(0.45, 0.55, y.shape))),
        ("the other side in 10 % of questions", _in_some(0.1, lambda rng, x, y, p: 1 - y)),
        ("drawn to a random number by 30 %", _anchored(0.3)),
        ("drawn to a random number by 50 %", _anchored(0.5)),
        ("another question's posterior in 15 %", _in_some(0.15, lambda rng, x, y, p: np.roll(y, 1, axis=0))),
        ("the prior's other side in 15 %", _in_some(0.15, lambda rng, x, y, p: 1 - x + 0 * y)),
        (
            "log-odds halved in 40 %",
            _in_some(0.4, lambda rng, x, y, p: 1 / (1 + np.sqrt(1 / np.maximum(p, 1e-9) - 1)) + y - p),
        ),
        ("never below 30 in 30 %", _in_some(0.3, lambda rng, x, y, p: np.maximum(y, 0.3))),
        ("the prior again in 30 %", _in_some(0.3, lambda rng, x, y, p: x + 0 * y)),
    )
) + tuple(world for world in WORLDS if world.name in ("neglecting, 0.5", "confirming, 0.5", "entrenched"))
"""Bayesians whose posterior reports err alike in all epochs, and faults beside them."""
SLOPELESS = (
    _world("mean", "Bayesian"),
    _world("mean", "Bayesian, noise of sd 0.1", noise=0.1),
    _world("other", "10 points up in every update", distort=lambda rng, x, y, p: y + 0.1),
    _world("other", "6 points up in every update", distort=lambda rng, x, y, p: y + 0.06),
    _world("other", "up where sure, down where unsure", distort=lambda rng, x, y, p: y + 0.3 * _bent(x)),
    _world("other", "the same, half as far", distort=lambda rng, x, y, p: y + 0.15 * _bent(x)),
    _world("other", "evidence at half its weight", "underreacting", strength=0.5),
    _world("other", "half of the questions ignored", distort=_in_some(0.5, lambda rng, x, y, p: x + 0 * y)),
)
"""Reasoners whose slopes are near 0: which of them is called rational?"""
MANY = (1000, 4000)


def slopeless(flat_runs: int) -> pd.DataFrame:
    """How often reasoners without a slope are called rational."""
    return _drawn(flat_runs, MANY, SLOPELESS)


def repeated(repeated_runs: int) -> pd.DataFrame:
    """What is said of posterior errors that are the same in all epochs."""
    return _drawn(repeated_runs, SIZES[2:], REPEATED)


def _drawn(runs: int, sizes: Sequence[int], among: Sequence[World]) -> pd.DataFrame:
    # The distortions are functions without a name, which cannot be sent to other processes.
    return worlds(runs, sizes, among, workers=1)


def worlds(runs: int, sizes: Sequence[int] = SIZES, among: Sequence[World] = WORLDS, workers: int = 2) -> pd.DataFrame:
    """What is found in each world."""
    one_world = partial(_rows, runs=runs, sizes=tuple(sizes))
    if workers == 1:
        return pd.DataFrame([row for world in among for row in one_world(world)])
    with ProcessPoolExecutor(workers) as pool:
        return pd.DataFrame([row for rows in pool.map(one_world, among) for row in rows])


def _rows(world: World, runs: int, sizes: tuple[int, ...]) -> list[Row]:
    planted, seed = world.slope, [SEED, *world.name.encode()]
    by_size: dict[int, list[Row]] = {n: [] for n in sizes}
    for number in range(runs):
        drawn = draw(world, max(sizes), np.random.default_rng([number, *seed]))
        for n in sizes:
            by_size[n].append(figures(Reports(**{name: values[:n] for name, values in vars(drawn).items()})))
    return [
        {"world": world.name, "kind": world.kind, "planted": planted, "n": n, "runs": runs}
        | _summary(by_size[n], planted)
        for n in sizes
    ]


def draw(world: World, n: int, rng: np.random.Generator) -> Reports:
    log_odds, evidence = population().sample(n, rng)
    exact = beliefs("bayesian", log_odds, evidence, Parameters())
    outcome = (rng.random(n) < exact).astype(float)
    if is_random(world.agent):
        prior, posterior = rng.random((2, n, EPOCHS))
        instrument = prior
    else:
        place = rng.random(n)
        before, after = (
            np.repeat(beliefs(world.agent, log_odds, seen, world.parameters, place=place)[:, None], EPOCHS, axis=1)
            for seen in (evidence[:, :0], evidence)
        )
        common: dict[str, Floats] = {}

        def uniform(what: str, *place: object) -> Floats | np.random.Generator:
            if what == "report":
                return rng
            shared = f"{what} {place}"
            return common.setdefault(shared, rng.random((n, 1))) if what in PER_QUESTION else rng.random((n, EPOCHS))

        epochs = np.arange(1.0, EPOCHS + 1)
        prior = reports(before, FIRST_REPORT, world.parameters, uniform, epochs)
        posterior = reports(after, ("percent", 1, evidence.shape[1]), world.parameters, uniform, epochs, first=prior)
        instrument = prior
        if world.paraphrases == 2:
            instrument = reports(before, FIRST_REPORT, world.parameters, uniform, epochs, "second wording")
    if world.distort is not None:
        posterior = np.clip(world.distort(rng, before[:, :1], posterior, exact[:, None]), 0, 1)
    prior, posterior, instrument = percent(prior), percent(posterior), percent(instrument)
    same_domain = np.zeros(n, dtype=np.intp)
    return Reports(prior, posterior, instrument, outcome, exact, np.arange(n), same_domain)


def figures(run: Reports) -> Row:
    """What a log of these reports would show: the one place that calls what is tested."""
    score = martingale_score(run.prior, run.posterior, run.instrument)
    refusals = halves(run).selective_refusal if np.isnan(run.posterior).any() else (0.0, 0.0)
    flagged = any(name.startswith("flag_") for name in report_figures(run.prior, run.posterior, refusals))
    row: Row = {"score": score.estimate, "lower": score.lower, "upper": score.upper, "flagged": flagged}
    for ending, known in (("", run), ("_outcome", replace(run, exact=np.full_like(run.exact, np.nan)))):
        code, why = verdict(score, known)
        row |= {f"verdict{ending}": NAMES.get(code, "cannot tell"), f"reason{ending}": why}
    return row


def _summary(rows: list[Row], planted: float) -> Row:
    scores = np.array([[run[name] for name in ("score", "lower", "upper")] for run in rows])
    known = np.isfinite(scores[:, 0])
    inside = (scores[known, 1] <= planted) & (planted <= scores[known, 2])
    reasons = Counter(run["reason"] for run in rows if run["reason"])
    summary = {
        "found": float(scores[known, 0].mean()) if known.any() else np.nan,
        "identified": float(known.mean()),
        "coverage": float(inside.mean()) if known.any() and np.isfinite(planted) else np.nan,
        "reason": reasons.most_common(1)[0][0] if reasons else "",
        "flagged": float(np.mean([run["flagged"] for run in rows])),
    }
    for ending in ("", "_outcome"):
        verdicts = [run[f"verdict{ending}"] for run in rows]
        summary |= {
            f"{name}{ending}": verdicts.count(name) / len(verdicts) for name in (*NAMES.values(), "cannot tell")
        }
        convicted = [run[f"verdict{ending}"] in CONVICTIONS and not run["flagged"] for run in rows]
        summary[f"convicted{ending}"] = float(np.mean(convicted))
    return summary


MOST_CONVICTED, MOST_CONVICTED_UPPER = 0.10, 0.13
"""The aim for a Bayesian: the largest share of runs with the verdict of a fault and no flag, and its upper bound."""
MOST_FLAGGED = 0.10
COVERAGE_AIM = (0.92, 0.97)
"""The band of interval coverage that the project aims at."""
POWER = 0.8
NAMED = 10
"""Most settings that are named in a sentence."""
TRUTHS = {"": "exact posterior", "_outcome": "outcome"}
"""What is taken for the truth, by the ending of the columns."""


def texts(frame: pd.DataFrame) -> dict[str, str]:
    """What the page says of these worlds, by its name there."""
    return _convictions(frame) | _other_claims(frame) | _coverage(frame) | _powers(frame)


def repeated_texts(again: pd.DataFrame) -> dict[str, str]:
    columns = ("world", "entrenched", "over-correcting", "entrenched_outcome", "over-correcting_outcome")
    labels = {"entrenched_outcome": "entrenched*", "over-correcting_outcome": "over-correcting*"}
    return {"repeated": table(again, columns, labels, 2)}


def slopeless_texts(flat: pd.DataFrame) -> dict[str, str]:
    """The share of runs with the verdict rational, by world and size."""
    rows = []
    for name, group in flat.groupby("world", sort=False):
        row: Row = {"world": name}
        for ending, truth in TRUTHS.items():
            row |= {f"{truth}, {n:,}": share for n, share in zip(group["n"], group[f"rational{ending}"], strict=True)}
        rows.append(row)
    return {"slopeless": table(pd.DataFrame(rows), list(rows[0]), digits=2)}


def _convictions(frame: pd.DataFrame) -> dict[str, str]:
    from statsmodels.stats.proportion import proportion_confint

    lines = []
    bayes = frame[frame["kind"].isin(["mean", "errors"])]
    for ending, truth in TRUTHS.items():
        share = bayes[f"convicted{ending}"]
        upper = proportion_confint(share * bayes["runs"], bayes["runs"], method="wilson")[1]
        every = bayes.assign(share=bayes[f"entrenched{ending}"] + bayes[f"over-correcting{ending}"])
        missed = bayes[(share > MOST_CONVICTED) | (upper > MOST_CONVICTED_UPPER)]
        lines.append(
            f"- With the {truth}: at most {share.max():.3f} (upper bound {upper.max():.3f}) in {len(bayes)} settings."
            f"\n  {_missed(missed, f'convicted{ending}')} Flagged or not: at most {_largest(every, 'share')}."
        )
    return {"convictions": "\n".join(lines)}


def _other_claims(frame: pd.DataFrame) -> dict[str, str]:
    mean, fault, idle = (frame[frame["kind"] == kind] for kind in ("mean", "fault", "other"))
    rational = [
        f"- with the {truth}: {_largest(fault, f'rational{ending}')} of those at fault, "
        f"{_largest(idle, f'rational{ending}')} of others"
        for ending, truth in TRUTHS.items()
    ]
    return {
        "flags": f"{mean['flagged'].max():.3f}",
        "missed flags": _missed(mean[mean["flagged"] > MOST_FLAGGED], "flagged"),
        "wrongly rational": "\n".join(rational),
    }


def _coverage(frame: pd.DataFrame) -> dict[str, str]:
    known = frame[frame["coverage"].notna()]
    outside = known[~known["coverage"].between(*COVERAGE_AIM)]
    mean = f"{(outside['kind'] == 'mean').sum()} of {(known['kind'] == 'mean').sum()}"
    return {"settings covered": f"{len(known) - len(outside)} of {len(known)}", "mean not covered": mean}


def _powers(frame: pd.DataFrame) -> dict[str, str]:
    """The smallest number of questions at which each fault is named."""
    rows = []
    for world, group in frame[frame["kind"] == "fault"].groupby("world", sort=False):
        right = "entrenched" if group["planted"].iloc[0] > 0 else "over-correcting"
        row = {"fault": world}
        for ending, truth in TRUTHS.items():
            enough = group[group[f"{right}{ending}"] >= POWER]["n"]
            most = group[f"{right}{ending}"].iloc[-1]
            row[truth] = str(enough.min()) if len(enough) else f"not at {group['n'].max()}: {most:.2f}"
        rows.append(row)
    return {"power of verdicts": table(pd.DataFrame(rows), ("fault", *TRUTHS.values()))}


def _missed(frame: pd.DataFrame, figure: str) -> str:
    return "The aim is met." if frame.empty else f"**The aim is missed:** {_list(frame, figure)}."


def _list(frame: pd.DataFrame, figure: str) -> str:
    """The settings with the largest figures."""
    largest = frame.sort_values(figure, ascending=False, kind="stable").to_dict("records")
    named = [f"{row['world']}, n = {row['n']}: {row[figure]:.3f}" for row in largest[:NAMED]]
    return "; ".join([*named, *[f"and {len(largest) - NAMED} more"] * (len(largest) > NAMED)]) or "none"


def _largest(frame: pd.DataFrame, figure: str) -> str:
    row = frame.iloc[int(frame[figure].argmax())]
    return f"{row[figure]:.3f} ({row['world']}, n = {row['n']})"
