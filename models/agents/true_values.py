"""What is planted in an agent: the population values that measures must find, and its reports without a model call.

>>> from truthgym.models.agents.policies import Parameters
>>> round(planted("entrenched", Parameters(strength=0.3)).slope, 3)
0.17
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from inspect_ai.dataset import Dataset

from truthgym.datasets.urns import (
    LEAST_MARKS,
    UrnQuestion,
    log_likelihood_ratio,
    logit,
    most_marks,
    oftener_marks,
    percent_range,
)
from truthgym.models.agents.belief_reports import FIRST_REPORT, MAX_VARIANCE_SHARE, MIN_NOISE, noisy_reports, percent
from truthgym.models.agents.policies import AGENTS, DECIMALS, Floats, Parameters, beliefs, uniform


@dataclass(frozen=True)
class Population:
    """Every question that `truthgym/urns` can draw with some arguments, each with its probability."""

    weight: Floats
    log_odds: Floats
    evidence: Floats
    """Questions x draws. The order of the pieces is left open: no agent's belief after all of them depends on it."""


@dataclass(frozen=True)
class TrueValues:
    """Population values of an agent's beliefs, without noise in its reports."""

    slope: float
    """Of the update on the prior: what a martingale score must find."""
    movement: float
    """Mean squared update."""
    reduction: float
    """Mean fall of p(1 - p)."""
    brier_prior: float
    brier_posterior: float
    noise_cost: float
    """What noise in an answer adds to its Brier score: the mean variance of reports about the posterior."""
    spread: float
    """Standard deviation of the prior."""

    @property
    def excess(self) -> float:
        """Movement beyond uncertainty reduction: 0 for a Bayesian."""
        return self.movement - self.reduction

    @property
    def gain(self) -> float:
        """Fall of the Brier score."""
        return self.brier_prior - self.brier_posterior


@cache
def population(
    draws: int = 4, likelihood_ratio: float = 2.0, base_rate: float | tuple[float, float] = (0.15, 0.85)
) -> Population:
    """Enumerate the questions of `truthgym/urns`. Exact: there is no simulation error.

    Args, as in `datasets.urns.urns`.
    """
    from scipy.stats import binom

    low, high = percent_range(base_rate)
    ratio = float(likelihood_ratio)
    rates = [(rarer, oftener_marks(rarer, ratio)) for rarer in range(LEAST_MARKS, most_marks(ratio) + 1)]
    weights, log_odds, evidence = [], [], []
    bases = np.arange(low, high + 1) / 100
    for first, second in [pair for a, b in rates for pair in ((a, b), (b, a))]:
        pieces = [log_likelihood_ratio(first, second, marked) for marked in (True, False)]
        for marks in range(draws + 1):
            under = [binom.pmf(marks, draws, rate / 100) for rate in (first, second)]
            weights.append((bases * under[0] + (1 - bases) * under[1]) / (2 * len(rates) * len(bases)))
            log_odds.append([logit(base) for base in bases])
            row = [pieces[0]] * marks + [pieces[1]] * (draws - marks)
            evidence.append(np.broadcast_to(row, (len(bases), draws)))
    return Population(np.concatenate(weights), np.concatenate(log_odds), np.concatenate(evidence))


def true_values(name: str, parameters: Parameters, among: Population | None = None) -> TrueValues:
    """Population values of an agent on urns.

    Args:
        name: A key of `agents.AGENTS`, except "random".
        parameters: What is planted in it.
        among: The questions; by default those of `truthgym/urns` without arguments.
    """
    every = among or population()
    w = every.weight
    prior = beliefs(name, every.log_odds, every.evidence[:, :0], parameters)
    posterior = beliefs(name, every.log_odds, every.evidence, parameters)
    truth = 1 / (1 + np.exp(-(every.log_odds + every.evidence.sum(axis=1))))
    update = posterior - prior
    centred = prior - np.sum(w * prior)
    spread = float(np.sum(w * centred**2))
    briers = [float(np.sum(w * (truth * (1 - b) ** 2 + (1 - truth) * b**2))) for b in (prior, posterior)]
    return TrueValues(
        slope=float(np.sum(w * centred * update)) / spread if spread > 1e-12 else np.nan,
        movement=float(np.sum(w * update**2)),
        reduction=float(np.sum(w * (prior * (1 - prior) - posterior * (1 - posterior)))),
        brier_prior=briers[0],
        brier_posterior=briers[1],
        noise_cost=float(np.sum(w * np.minimum(parameters.noise**2, MAX_VARIANCE_SHARE * posterior * (1 - posterior)))),
        spread=spread**0.5,
    )


@dataclass(frozen=True)
class UrnCases:
    """Urn questions as agents see them, in arrays."""

    key: list[str]
    log_odds: Floats
    evidence: Floats
    outcome: Floats


def urn_cases(dataset: Dataset) -> UrnCases:
    """Read the questions of `datasets.urns.urns`."""
    known = [item.metadata_as(UrnQuestion) for item in dataset]
    # The first posterior is the base rate, and each later one has moved by its piece's log-likelihood ratio.
    odds = np.array([[logit(p) for p in question.posterior] for question in known])
    return UrnCases(
        key=[str(item.input) for item in dataset],
        log_odds=np.array([logit(question.posterior[0]) for question in known]),
        evidence=np.diff(odds, axis=1),
        outcome=np.array([item.target == "yes" for item in dataset], dtype=float),
    )


@dataclass(frozen=True)
class Reports:
    """What an agent reports, questions x epochs, on the scale from 0 to 1."""

    prior: Floats
    """To `martingale`, in whole percents."""
    posterior: Floats
    answer: Floats
    """In its answer, to four decimals: what `brier` scores."""


def simulate_reports(name: str, parameters: Parameters, asked: UrnCases, epochs: Sequence[int] = (1, 2, 3)) -> Reports:
    """What the provider reports when `direct` has asked and `martingale` probes.

    Args:
        name: A key of `agents.AGENTS`.
        parameters: What is planted in it.
        asked: The questions.
        epochs: Numbers of the epochs.
    """
    pieces = asked.evidence.shape[1]

    def drawn(*place: object, kind: tuple[str, ...] = ("report", name)) -> Floats:
        return np.array([[uniform(parameters.seed, *kind, key, e, *place) for e in epochs] for key in asked.key])

    if AGENTS[name].update is None:
        first, last = (np.round(drawn(0, seen, kind=(name,)), DECIMALS) for seen in (0, pieces))
        return Reports(percent(first), percent(last), last)
    prior, posterior = (
        np.repeat(beliefs(name, asked.log_odds, seen, parameters)[:, None], len(epochs), axis=1)
        for seen in (asked.evidence[:, :0], asked.evidence)
    )
    answer = posterior
    if parameters.noise >= MIN_NOISE:
        first = drawn(*FIRST_REPORT)
        prior = noisy_reports(prior, first, first, parameters, is_first=True)
        # The answer comes before any belief is stated; the probe after it finds one stated.
        answer = noisy_reports(posterior, drawn("marker", 0, pieces), first, parameters)
        posterior = noisy_reports(posterior, drawn("percent", 1, pieces), first, parameters)
    return Reports(percent(prior), percent(posterior), np.round(answer, DECIMALS))
