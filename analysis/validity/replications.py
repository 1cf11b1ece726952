"""Many runs of the reference agents without a model call: the material of `analysis.validity`.

Every replication draws its own questions and its own noise. The reports are those that the provider would give, and the
figures those that the scorers' metrics would show: the same functions compute both.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from truthgym.datasets.urns import urns
from truthgym.models.agents.belief_reports import noisy, percent
from truthgym.models.agents.policies import AGENTS, Floats, Parameters, beliefs, uniform
from truthgym.models.agents.true_values import Reports, UrnCases, simulate_reports, urn_cases
from truthgym.scorers.statistics.belief_movement import brier_gain, corrected_posterior, leak, movement
from truthgym.scorers.statistics.interval import mean_headline
from truthgym.scorers.statistics.martingale_score import martingale_score
from truthgym.scorers.statistics.proper_scores import brier_score, row_mean
from truthgym.scorers.statistics.slopes import Codes, ols_slope

if TYPE_CHECKING:
    import pandas as pd

Distort = Callable[[Reports, UrnCases, Parameters], tuple[Reports, Floats | None]]
"""Another way of measuring: from an agent's reports to other ones, and an instrument where there is one."""


@cache
def asked(n: int, seed: int) -> UrnCases:
    """The questions of one replication."""
    return urn_cases(urns(n=n, seed=1_000_000 + seed))


def figures(reports: Reports, of: UrnCases, instrument: Floats | None = None) -> dict[str, float]:
    """What the metrics of `martingale` and `brier` would show."""
    x, y, outcome = reports.prior, reports.posterior, of.outcome
    score = martingale_score(x, y, instrument)
    moved = movement(x, y)
    excess, gain = mean_headline(moved.excess), mean_headline(brier_gain(x, y, outcome))
    brier = mean_headline(row_mean(brier_score(reports.answer, outcome[:, None])))
    mended = corrected_posterior(x, y, score.estimate, np.zeros(len(x), dtype=np.intp))
    return {
        "estimate": score.estimate,
        "lower": score.lower,
        "upper": score.upper,
        "mde": score.mde,
        "identified": score.identified,
        "ols": score.ols,
        "ols_lower": score.ols_lower,
        "ols_upper": score.ols_upper,
        "reliability": score.reliability,
        "shared_error": score.shared_error,
        "excess": excess.estimate,
        "excess_lower": excess.lower,
        "excess_upper": excess.upper,
        "movement": mean_headline(moved.movement).estimate,
        "gain": gain.estimate,
        "gain_lower": gain.lower,
        "gain_upper": gain.upper,
        "brier": brier.estimate,
        "brier_lower": brier.lower,
        "brier_upper": brier.upper,
        "brier_posterior": mean_headline(row_mean(brier_score(y, outcome[:, None]))).estimate,
        "brier_corrected": mean_headline(row_mean(brier_score(mended, outcome[:, None]))).estimate,
    }


def replicate(
    name: str,
    parameters: Parameters,
    n: int,
    seeds: Sequence[int],
    epochs: int = 3,
    distort: Distort | None = None,
) -> "pd.DataFrame":
    """Run an agent over as many sets of questions as there are seeds.

    Args:
        name: A key of `agents.AGENTS`.
        parameters: What is planted in it. Its seed is the replication's.
        n: Questions of each set.
        seeds: One for each replication.
        epochs: How often each question is asked.
        distort: Another way of measuring.

    Returns:
        One row a replication; the columns are those of `figures`, and `sample`: see `noiseless`.
    """
    import pandas as pd

    def rows() -> Iterator[dict[str, float]]:
        for seed in seeds:
            of = asked(n, seed)
            drawn = parameters.model_copy(update={"seed": seed})
            reports = simulate_reports(name, drawn, of, range(1, epochs + 1))
            instrument = None
            if distort:
                reports, instrument = distort(reports, of, drawn)
            yield figures(reports, of, instrument) | {"sample": noiseless(name, parameters, of)}

    return pd.DataFrame(rows())


def noiseless(name: str, parameters: Parameters, of: UrnCases) -> float:
    """Slope of an agent's own beliefs on just these questions: the planted one, but for the sampling of questions."""
    if AGENTS[name].update is None:
        return np.nan
    before, after = (beliefs(name, of.log_odds, e, parameters) for e in (of.evidence[:, :0], of.evidence))
    one: Codes = np.zeros(len(before), dtype=np.intp)
    return ols_slope((after - before)[:, None, None], before[:, None, None], np.arange(len(before)), one).estimate


def persistent(spread: float, second: bool = False) -> Distort:
    """An error of the prior that is the same in all epochs of a question, as a prompt can cause.

    Args:
        spread: Its standard deviation.
        second: Whether a second elicitor, which does not make it, gives the instrument (with noise of sd 0.05).
    """

    def measure(reports: Reports, of: UrnCases, parameters: Parameters) -> tuple[Reports, Floats | None]:
        places = np.array([uniform(parameters.seed, "persistent", key) for key in of.key])[:, None]
        other = None
        if second:
            own = np.array(
                [[uniform(parameters.seed, "second", key, e) for e in range(reports.prior.shape[1])] for key in of.key]
            )
            start = beliefs("bayesian", of.log_odds, of.evidence[:, :0], parameters)[:, None]
            other = percent(noisy(start + 0 * own, 0.05, own))
        return Reports(percent(noisy(reports.prior, spread, places)), reports.posterior, reports.answer), other

    return measure


def rounded(step: float) -> Distort:
    """Reports on a coarse scale, as "in steps of ten percent"."""

    def measure(reports: Reports, of: UrnCases, parameters: Parameters) -> tuple[Reports, None]:
        prior, posterior = (np.round(held / step) * step for held in (reports.prior, reports.posterior))
        return Reports(prior, posterior, reports.answer), None

    return measure


def look_ahead(share: float, n: int, seed: int, epochs: int = 3) -> dict[str, float]:
    """One Bayesian without noise, read by a judge in one go, who looks ahead, and by one who does not.

    Args:
        share: Of the update that the first judge sees in the beginning.
        n: Questions.
        seed: Of questions and noise.
        epochs: How often each question is asked.

    Returns:
        `joint`, least squares on the joint reading, and `separate`, the score of the separate reading, both less
        `noiseless`; `formula`, what `joint` must be; `leak` with its bounds.
    """
    of, parameters, noise = asked(n, seed), Parameters(seed=seed), 0.05
    prior, posterior = (
        np.repeat(beliefs("bayesian", of.log_odds, seen, parameters)[:, None], epochs, axis=1)
        for seen in (of.evidence[:, :0], of.evidence)
    )

    def read(belief: Floats, what: str) -> Floats:
        places = np.array([[uniform(seed, what, key, e) for e in range(epochs)] for key in of.key])
        return percent(noisy(belief, noise, places))

    # One error runs through a joint reading.
    joint, end = read(prior + share * (posterior - prior), "joint"), read(posterior, "joint")
    before, after = read(prior, "before"), read(posterior, "after")
    one: Codes = np.zeros(n, dtype=np.intp)
    each: Codes = np.arange(n)
    found = ols_slope((end - joint)[:, :, None], joint[:, :, None], each, one)
    seen = leak(before, after, joint, each, one)
    moved, spread = float(np.mean((posterior - prior) ** 2)), float(np.var(joint))
    return {
        "share": share,
        "joint": found.estimate - noiseless("bayesian", parameters, of),
        "formula": (1 - share) * share * moved / spread,
        "separate": martingale_score(before, after).estimate - noiseless("bayesian", parameters, of),
        "leak": seen.estimate,
        "leak_lower": seen.lower,
        "leak_upper": seen.upper,
    }


def unlike_urns(strength: float, n: int, epochs: int, seed: int, anew: bool) -> tuple[Floats, Floats]:
    """Reports of an entrenched agent on the questions of the power table in the literature we follow.

    Beliefs before are drawn from Beta(2, 2), the evidence is a log-likelihood ratio of unit variance, and reports err
    by 0.5 in log-odds.

    Args:
        strength: The agent's.
        n: Questions.
        epochs: How often each is asked.
        seed: Of everything.
        anew: Whether each epoch finds evidence of its own about the one truth, or all have the same.
    """
    rng = np.random.default_rng(seed)
    before = rng.beta(2, 2, (n, 1))
    odds = np.log(before / (1 - before))
    truth = np.where(rng.random((n, 1)) < before, 0.5, -0.5)
    ratio = rng.normal(truth, 1.0, (n, epochs if anew else 1))
    reports = [o + rng.normal(0, 0.5, (n, epochs)) for o in (odds, (1 + strength) * odds + ratio)]
    prior, posterior = (1 / (1 + np.exp(-r)) for r in reports)
    return prior, posterior
