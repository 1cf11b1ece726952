"""Many runs of the reference agents without a model call.

Each replication draws its own questions and noise. The reports are those that the provider would give, and the figures
those that the scorers' metrics would show: the same functions compute both.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
import pandas as pd

from studies.study import Row, reference_model, run_task
from studies.validity.true_values import Reports, UrnCases, simulate_reports, true_values, urn_cases
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
