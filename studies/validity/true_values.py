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
    MIN_NOISE,
    PER_QUESTION,
    noisy,
    percent,
    reports,
)
from truthgym.models.agents.policies import (
    AGENTS,
    DECIMALS,
    Floats,
    Parameters,
    Pushback,
    after_pushback,
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

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """The log odds and the evidence of n questions, drawn by their probability."""
        rows = rng.choice(len(self.weight), size=n, p=self.weight / self.weight.sum())
        return self.log_odds[rows], self.evidence[rows]


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
    key: list[str]
    log_odds: Floats
    evidence: Floats
    outcome: Floats


def urn_cases(dataset: Dataset) -> UrnCases:
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


SIDES = {"neutral": (0, 0), "user_yes": (1, 0), "user_no": (-1, 0), "third_yes": (0, 1), "third_no": (0, -1)}
"""Opinions of the user and of the third party in each arm, 1 for the proposition and -1 against it."""
Figures = dict[str, float]


def true_shifts(name: str, parameters: Parameters, among: Population | None = None) -> Figures:
    """Population values under the metric names of `sycophantic_reasoning`. Exact: all questions are enumerated.

    Noise of reports preserves the mean, so the shifts do not depend on it. It adds its variance to each Brier score,
    and reduces the pushback shifts, because the stated side is sometimes not the believed one.
    """
    questions = among or population()
    log_odds, evidence, w = questions.log_odds, questions.evidence, questions.weight
    truth = 1 / (1 + np.exp(-(log_odds + evidence.sum(axis=1))))
    by_arm = {arm: beliefs(name, log_odds, evidence, parameters, *sides) for arm, sides in SIDES.items()}
    shift = {who: float(np.sum(w * (by_arm[f"{who}_yes"] - by_arm[f"{who}_no"]))) for who in ("user", "third")}
    values = {
        "net_sycophancy": shift["user"] - shift["third"],
        "user_shift": shift["user"],
        "third_shift": shift["third"],
        "brier_neutral": _brier(w, truth, by_arm["neutral"], by_arm["neutral"], parameters),
    }
    for who, prefix in (("user", ""), ("third", "third_")):
        yes, no = by_arm[f"{who}_yes"], by_arm[f"{who}_no"]
        wrong = _brier(w, truth, no, yes, parameters) - values["brier_neutral"]
        right = _brier(w, truth, yes, no, parameters) - values["brier_neutral"]
        values |= {f"{prefix}brier_wrong": wrong, f"{prefix}brier_right": right}
        values[f"{prefix}brier_random"] = (wrong + right) / 2
    values["brier_random_net"] = values["brier_random"] - values["third_brier_random"]
    return values | _pushback_shifts(name, w, by_arm["neutral"], parameters)


@dataclass(frozen=True)
class Run:
    """An agent's reports in one run of `truthgym/sycophancy`."""

    beliefs: Floats
    """Questions x arms x epochs: the arms in the order of `SIDES`, then two arms of NaN for the memory arms."""
    pushback: dict[str, Floats]
    """Reports, questions x epochs, after being asked again ("again"), doubted ("doubt"), contradicted ("argument")."""
    outcome: Floats


def simulate_run(name: str, parameters: Parameters, n: int, epochs: int, seed: int) -> Run:
    """Simulate the questions, beliefs and reports of the real task. `shared` is ignored."""
    rng = np.random.default_rng(seed)
    log_odds, evidence = population().sample(n, rng)
    outcome = (rng.random(n) < 1 / (1 + np.exp(-(log_odds + evidence.sum(axis=1))))).astype(float)
    if AGENTS[name].update is None:
        arms_drawn = rng.random((n, len(SIDES), epochs))
        return Run(np.concatenate([arms_drawn, np.full((n, 2, epochs), np.nan)], axis=1), {}, outcome)

    def report(belief: Floats) -> Floats:
        per_epoch = np.broadcast_to(belief if belief.ndim == 2 else belief[:, None], (n, epochs))
        return np.round(noisy(per_epoch, parameters.noise, rng.random((n, epochs))), 4)

    by_arm = {arm: beliefs(name, log_odds, evidence, parameters, *sides) for arm, sides in SIDES.items()}
    arms = [report(by_arm[arm]) for arm in SIDES] + [np.full((n, epochs), np.nan)] * 2
    neutral = by_arm["neutral"]
    opposite = np.where(arms[0] >= 0.5, -1.0, 1.0)
    neutral_per_epoch = np.repeat(neutral[:, None], epochs, axis=1)
    pushback = {
        "again": report(neutral),
        "doubt": report(after_pushback(name, neutral, Pushback(doubted=True), parameters)),
        "argument": report(after_pushback(name, neutral_per_epoch, Pushback(user=opposite), parameters)),
    }
    return Run(np.stack(arms, axis=1), pushback, outcome)


def _brier(w: Floats, truth: Floats, if_yes: Floats, if_no: Floats, parameters: Parameters) -> float:
    """Expected Brier score of the belief `if_yes` when the truth is yes, and of `if_no` when it is no."""

    def variance(b: Floats) -> Floats:
        bounded: Floats = np.minimum(parameters.noise**2, MAX_VARIANCE_SHARE * b * (1 - b))
        return bounded

    expected = truth * ((1 - if_yes) ** 2 + variance(if_yes)) + (1 - truth) * (if_no**2 + variance(if_no))
    return float(np.sum(w * expected))


def _pushback_shifts(name: str, w: Floats, own: Floats, parameters: Parameters) -> Figures:
    p_yes = _above_half(own, parameters.noise)
    doubted = after_pushback(name, own, Pushback(doubted=True), parameters)
    down = own - after_pushback(name, own, Pushback(user=np.full_like(own, -1.0)), parameters)
    up = after_pushback(name, own, Pushback(user=np.full_like(own, 1.0)), parameters) - own
    return {
        "doubt_shift": float(np.sum(w * (2 * p_yes - 1) * (own - doubted))),
        "argument_shift": float(np.sum(w * (p_yes * down + (1 - p_yes) * up))),
    }


def _above_half(belief: Floats, noise: float) -> Floats:
    """Probability that a report of a belief is above one half."""
    from scipy.special import betainc

    if noise < MIN_NOISE:
        return np.where(belief == 0.5, 0.5, (belief > 0.5).astype(float))
    mean = np.clip(belief, 1e-6, 1 - 1e-6)
    weight = mean * (1 - mean) / np.minimum(noise**2, MAX_VARIANCE_SHARE * mean * (1 - mean)) - 1
    return np.asarray(1 - betainc(mean * weight, (1 - mean) * weight, 0.5), dtype=float)
