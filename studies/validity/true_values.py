"""True values of an agent's beliefs, which measures must recover, and its reports without a model call.

>>> from truthgym.models.agents.policies import Parameters
>>> round(true_values("entrenched", Parameters(strength=0.3)).slope, 3)
0.167
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from inspect_ai.dataset import Dataset

from truthgym.datasets.loading.generated import logit, percent_range
from truthgym.datasets.urns import LEAST_MARKS, UrnQuestion, log_likelihood_ratio, most_marks, oftener_marks
from truthgym.models.agents.belief_reports import (
    FIRST_REPORT,
    MAX_VARIANCE_SHARE,
    PER_QUESTION,
    percent,
    reports,
)
from truthgym.models.agents.policies import (
    AGENTS,
    DECIMALS,
    Floats,
    Parameters,
    beliefs,
    is_random,
    question_quantile,
    uniform,
)


@dataclass(frozen=True)
class Population:
    """All questions that `truthgym/urns` can draw with given arguments, each with its probability (`weight`)."""

    weight: Floats
    log_odds: Floats
    evidence: Floats
    """Log-likelihood ratios, questions x draws, in arbitrary order: no agent's final belief depends on the order."""


@dataclass(frozen=True)
class TrueValues:
    """Population values of an agent's beliefs, without the noise of its reports."""

    slope: float
    """Slope of the update on the prior, which a martingale score must recover. NaN if the prior does not vary."""
    movement: float
    """Mean squared update."""
    reduction: float
    """Mean decrease of p(1 - p)."""
    brier_prior: float
    brier_posterior: float
    noise_cost: float
    """Increase of the answer's Brier score through noise: the mean variance of reports of the posterior."""
    spread: float
    """Standard deviation of the prior."""

    @property
    def excess(self) -> float:
        """Movement minus uncertainty reduction: 0 for a Bayesian."""
        return self.movement - self.reduction

    @property
    def gain(self) -> float:
        """Decrease of the Brier score from prior to posterior."""
        return self.brier_prior - self.brier_posterior


@cache
def population(
    draws: int = 4, likelihood_ratio: float = 2.0, base_rate: float | tuple[float, float] = (0.15, 0.85)
) -> Population:
    """Enumerate the questions of `truthgym/urns`. Exact, without simulation error."""
    from scipy.stats import binom

    low, high = percent_range("urns", base_rate)
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
    """Population values of an agent on urns."""
    questions = among or population()
    # An agent that differs between questions meets each of them with each of its numbers.
    numbers = (100 if AGENTS[name].fixed else 2) if AGENTS[name].differs else 1
    place = np.repeat((np.arange(numbers) + 0.5) / numbers, len(questions.weight))
    w = np.tile(questions.weight, numbers) / numbers
    log_odds, evidence = np.tile(questions.log_odds, numbers), np.tile(questions.evidence, (numbers, 1))
    prior = beliefs(name, log_odds, evidence[:, :0], parameters, place=place)
    posterior = beliefs(name, log_odds, evidence, parameters, place=place)
    truth = 1 / (1 + np.exp(-(log_odds + evidence.sum(axis=1))))
    update = posterior - prior
    centred = prior - np.sum(w * prior)
    variance = float(np.sum(w * centred**2))
    briers = [float(np.sum(w * (truth * (1 - b) ** 2 + (1 - truth) * b**2))) for b in (prior, posterior)]
    return TrueValues(
        slope=float(np.sum(w * centred * update)) / variance if variance > 1e-12 else np.nan,
        movement=float(np.sum(w * update**2)),
        reduction=float(np.sum(w * (prior * (1 - prior) - posterior * (1 - posterior)))),
        brier_prior=briers[0],
        brier_posterior=briers[1],
        noise_cost=float(np.sum(w * np.minimum(parameters.noise**2, MAX_VARIANCE_SHARE * posterior * (1 - posterior)))),
        spread=variance**0.5,
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
    questions = [item.metadata_as(UrnQuestion) for item in dataset]
    # The first posterior is the base rate. Each later one differs by the log-likelihood ratio of its piece of evidence.
    odds = np.array([[logit(p) for p in question.posterior] for question in questions])
    return UrnCases(
        key=[str(item.input) for item in dataset],
        log_odds=np.array([logit(question.posterior[0]) for question in questions]),
        evidence=np.diff(odds, axis=1),
        outcome=np.array([item.target == "yes" for item in dataset], dtype=float),
    )


@dataclass(frozen=True)
class Reports:
    """An agent's reports, questions x epochs, on the scale from 0 to 1."""

    prior: Floats
    """Elicited by `martingale`, rounded to whole percents, as is `posterior`."""
    posterior: Floats
    answer: Floats
    """The answer, to four decimals, which `brier` scores."""


def simulate_reports(
    name: str, parameters: Parameters, cases: UrnCases, epochs: Sequence[int] = (1, 2, 3), wording: str = ""
) -> Reports:
    """The reports that the model provider gives to the solver `direct` and the scorer `martingale`. NaN if refused."""
    pieces = cases.evidence.shape[1]

    def draw(what: str, *place: object) -> Floats:
        if what in PER_QUESTION:
            return np.array([[uniform(parameters.seed, what, name, key, *place)] * len(epochs) for key in cases.key])
        return np.array([[uniform(parameters.seed, what, name, key, e, *place) for e in epochs] for key in cases.key])

    if is_random(name):
        random = [[[uniform(parameters.seed, name, key, e, 0, count) for e in epochs] for key in cases.key]
                  for count in (0, pieces)]  # fmt: skip
        first, last = (np.round(np.array(values), DECIMALS) for values in random)
        return Reports(percent(first), percent(last), last)
    places = np.array([question_quantile(name, key, parameters) for key in cases.key])
    before, after = (
        np.repeat(beliefs(name, cases.log_odds, seen, parameters, place=places)[:, None], len(epochs), axis=1)
        for seen in (cases.evidence[:, :0], cases.evidence)
    )
    common = (parameters, draw, np.array(epochs), wording)
    prior = reports(before, FIRST_REPORT, *common)
    # The answer is the first statement of a belief; the probe after it comes with one stated belief.
    answer = reports(after, ("marker", 0, pieces), *common, prior)
    posterior = reports(after, ("percent", 1, pieces), *common, prior)
    return Reports(percent(prior), percent(posterior), np.round(answer, DECIMALS))
