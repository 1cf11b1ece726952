"""Agents whose truth is known: belief as a pure function of what was seen. `models.reference` lets them speak.

Validity studies call these functions on arrays; the provider calls the same ones, so both give the same numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

DECIMALS = 4
"""Of every probability that an agent states in words."""
FAMILIARITY = 0.5
"""Share of the private signal's information that is there before any thought."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A question as an agent sees it: what it starts from, and what it has learned since."""

    key: str
    """Tells questions apart: all randomness is keyed by it."""
    log_odds: float
    """Log-odds of the proposition, in nats, before evidence or thought."""
    evidence: tuple[float, ...]
    """Log-likelihood ratios, in nats, of the pieces seen or thoughts had so far."""
    user: int = 0
    """Opinions that the user stated: those for the proposition less those against it."""
    third: int = 0
    """The same of opinions that the user reported of others."""


class Parameters(BaseModel, frozen=True):
    """What can be planted in an agent: `-M strength=0.3 -M noise=0.1 -M seed=1`."""

    strength: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """How far from Bayes' rule the agent is, 0 or more; 0 is Bayesian. None takes the agent's own default. A strength
    is not a slope: `models.planted` gives the slope that it plants."""
    noise: float = Field(default=0.0, ge=0, le=1)
    """Standard deviation of a report about the belief, on the probability scale, 0 to 1."""
    shared: float = Field(default=0.0, ge=0, le=1)
    """Share of the error of the first report (before evidence and thought) that later reports of the epoch carry on:
    the correlation of a Gaussian copula, in [0, 1]."""
    leak: float = Field(default=0.0, ge=0, le=1)
    """Share of the whole update that a judge who reads a trajectory in one go already sees in its beginning."""
    skill: float = Field(default=1.0, ge=0, le=1000)
    """Quality of the private signal on bundled questions, 0 to 1000: the distance in standard deviations (d') between
    what it shows when the truth is yes and when it is no, after endless thought. 0 knows nothing."""
    care: float | None = Field(default=None, ge=0, le=1)
    """Probability of each of the eight sentences of `models.considerations` in a reply that thinks or answers, 0 to 1;
    None writes none."""
    length: float = Field(default=0.0, ge=-0.5, le=0.5)
    """What a judge's rating, on the scale from 0 to 1, gains for each unit of ln(words / 200)."""
    position: float = Field(default=0.0, ge=-0.5, le=0.5)
    """What it gains where a defence stands after an attack, and loses where it stands before."""
    recency: float = Field(default=0.0, ge=-1, le=1)
    """What it gains for each unit by which the last example shown was rated above one half."""
    preference: float = Field(default=0.0, ge=-0.5, le=0.5)
    """What it gains where another reference agent wrote the text."""
    gullibility: float = Field(default=0.0, ge=0, le=1)
    """Share of the way to full marks that it goes where the text asks for them."""
    trust: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Log-odds, 0 or more, that a sycophant gives to an opinion besides, whoever holds it."""
    slack: float = Field(default=0.0, ge=0, le=1)
    """What a sycophant's `care` falls by where the user's opinion is on the side to which it leans itself, 0 to 1."""
    argues: float = Field(default=0.5, ge=0, le=1)
    """Share of a sycophant's replies to a user's opinion in which it gives a reason of its own, 0 to 1. Of the rest,
    half defer to the user and half pass the opinion over."""
    seed: int = 0
    """Another seed gives another agent with the same parameters."""


Update = Callable[[Floats, Floats, float], Floats]
"""From log-odds before anything was learned (n), log-likelihood ratios of what was learned (n x pieces, one piece or
more) and the strength, to the belief's log-odds (n). Before anything is learned, every belief is the log-odds given."""


def bayesian(log_odds: Floats, evidence: Floats, strength: float) -> Floats:
    r"""Bayes' rule: $\mathrm{logit}\,b=\mathrm{logit}\,b_0+\sum_i\ln\mathrm{LR}_i$.

    Its updates cannot be predicted from its beliefs, and its expected Brier score on a question is b(1 - b).
    """
    return log_odds + _total(evidence)


def stuck(log_odds: Floats, evidence: Floats, strength: float) -> Floats:
    r"""Never moves: $\mathrm{logit}\,b=\mathrm{logit}\,b_0$. Its updates cannot be predicted either."""
    return log_odds + 0 * _total(evidence)


def underreacting(log_odds: Floats, evidence: Floats, strength: float) -> Floats:
    r"""Gives evidence too little weight: $\mathrm{logit}\,b=\mathrm{logit}\,b_0+(1-s)\sum_i\ln\mathrm{LR}_i$."""
    return log_odds + (1 - strength) * _total(evidence)


def overreacting(log_odds: Floats, evidence: Floats, strength: float) -> Floats:
    r"""Gives evidence too much weight: $\mathrm{logit}\,b=\mathrm{logit}\,b_0+(1+s)\sum_i\ln\mathrm{LR}_i$."""
    return log_odds + (1 + strength) * _total(evidence)


def entrenched(log_odds: Floats, evidence: Floats, strength: float) -> Floats:
    r"""Goes on where it stood: $\mathrm{logit}\,b=(1+s)\,\mathrm{logit}\,b_0+\sum_i\ln\mathrm{LR}_i$."""
    return (1 + strength) * log_odds + _total(evidence)


def confirming(log_odds: Floats, evidence: Floats, strength: float) -> Floats:
    r"""Weighs what speaks for its first lean by 1 + s, and what speaks against it by 1 - s.

    $$\mathrm{logit}\,b=\mathrm{logit}\,b_0+\sum_i(1+s\,\mathrm{sign}(\mathrm{logit}\,b_0\cdot\ln\mathrm{LR}_i))
    \ln\mathrm{LR}_i$$
    """
    agrees = np.sign(log_odds[..., None] * evidence)
    return log_odds + _total((1 + strength * agrees) * evidence)


def neglecting(log_odds: Floats, evidence: Floats, strength: float) -> Floats:
    r"""Forgets the base rate: $\mathrm{logit}\,b=(1-s)\,\mathrm{logit}\,b_0+\sum_i\ln\mathrm{LR}_i$."""
    return (1 - strength) * log_odds + _total(evidence)


@dataclass(frozen=True)
class Agent:
    """An agent as it can be asked for."""

    update: Update | None
    """None for one whose beliefs are drawn and follow from nothing."""
    takes: frozenset[str]
    """The parameters that it takes."""
    strength: float = 0.0
    """Its strength where none is asked for."""
    most: float = math.inf
    """Its greatest strength."""
    swayed: frozenset[str] = frozenset()
    """Whose opinions move it, each by its strength in log-odds: "user", "third". Empty for one that hears none."""
    yields: bool = False
    """Whether a doubt without an argument moves it, by its strength, against the side it has stated."""


REPORTS = frozenset({"noise", "shared", "skill", "seed", "care"})
AGENTS: dict[str, Agent] = {
    "bayesian": Agent(bayesian, REPORTS),
    "stuck": Agent(stuck, REPORTS),
    "underreacting": Agent(underreacting, REPORTS | {"strength"}, strength=0.5, most=1.0),
    "overreacting": Agent(overreacting, REPORTS | {"strength"}, strength=1.0),
    "entrenched": Agent(entrenched, REPORTS | {"strength"}, strength=0.3),
    "confirming": Agent(confirming, REPORTS | {"strength"}, strength=0.5, most=1.0),
    "neglecting": Agent(neglecting, REPORTS | {"strength"}, strength=0.5, most=1.0),
    "trusting": Agent(bayesian, REPORTS | {"strength"}, strength=0.4, swayed=frozenset({"user", "third"})),
    "sycophant": Agent(
        bayesian,
        REPORTS | {"strength", "trust", "slack", "argues"},
        strength=0.8,
        swayed=frozenset({"user"}),
        yields=True,
    ),
    "random": Agent(None, frozenset({"seed", "care"})),
}
"""Each agent by its name."""


def beliefs(
    name: str,
    log_odds: Floats,
    evidence: Floats,
    parameters: Parameters,
    user: Floats | float = 0,
    third: Floats | float = 0,
) -> Floats:
    """What an agent believes, for many questions at once: to a hundredth of a percent, as it says it.

    Args:
        name: A key of `AGENTS`, except "random".
        log_odds: Before anything was learned (n).
        evidence: Log-likelihood ratios of what was learned (n x pieces, or n x 0).
        parameters: What is planted in it.
        user: Sum of the sides of the user's opinions, 1 for the proposition and -1 against it (n, or one for all).
        third: The same of a third party's.

    Returns:
        Probabilities (n).
    """
    agent = AGENTS[name]
    assert agent.update is not None, "random beliefs follow from nothing"
    strength = strength_of(name, parameters)
    reached = agent.update(log_odds, evidence, strength) if evidence.shape[-1] else log_odds
    if agent.swayed:
        reached = reached + persuasion(name, user, third, parameters)
    probability: Floats = np.exp(-np.logaddexp(0.0, -reached))
    return np.round(probability, DECIMALS)


def believe(name: str, case: Case, epoch: int, stated: int, parameters: Parameters) -> float:
    """What an agent believes of one question. The same number as `beliefs`.

    Args:
        name: A key of `AGENTS`. "random" believes a number drawn uniformly from [0, 1] each time, whatever was seen.
        case: What it has seen.
        epoch: The epoch.
        stated: Beliefs stated so far.
        parameters: What is planted in it.
    """
    if AGENTS[name].update is None:
        return round(uniform(parameters.seed, name, case.key, epoch, stated, len(case.evidence)), DECIMALS)
    return float(beliefs(name, np.array(case.log_odds), np.array(case.evidence), parameters, case.user, case.third))


def persuasion(name: str, user: Floats | float, third: Floats | float, parameters: Parameters) -> Floats:
    r"""What opinions add to an agent's log-odds, with sides $u=\pm1$, strength s and trust t.

    `trusting` $s\,(u_{user}+u_{third})$, `sycophant` $s\,u_{user}+t\,(u_{user}+u_{third})$, others nothing.

    Args: as `beliefs`.
    """
    strength, swayed = strength_of(name, parameters), AGENTS[name].swayed
    weight = {speaker: strength * (speaker in swayed) + parameters.trust for speaker in ("user", "third")}
    return np.asarray(weight["user"] * user + weight["third"] * third, dtype=float)


def strength_of(name: str, parameters: Parameters) -> float:
    """The strength that an agent has: what is asked for, or its own default."""
    return AGENTS[name].strength if parameters.strength is None else parameters.strength


def private_signal(key: str, outcome: bool, thoughts: int, epoch: int, parameters: Parameters, said: str = "") -> Case:
    r"""What an agent knows of a question whose truth we have: a noisy signal of planted quality.

    With information f, the signal's log-likelihood ratio is normal with mean $\pm f d'^2/2$ (+ if the truth is yes) and
    variance $f d'^2$, so a Bayesian who starts from one half is calibrated at every stage. Half the information is
    there at first sight, the same in every epoch; each thought adds half of what is missing, anew in each epoch.

    Args:
        key: The question's id.
        outcome: Its truth.
        thoughts: Thoughts had so far.
        epoch: The epoch of those thoughts.
        parameters: `skill` is d'.
        said: What others have said, where anything was: each has thoughts of its own after the first sight.
    """
    thinking = f"{key} ({said})" if said else key
    information = [FAMILIARITY * 0.5**t for t in range(thoughts + 1)]
    drawn = [
        _signal(share * parameters.skill**2, outcome, parameters.seed, thinking if t else key, epoch if t else 0, t)
        for t, share in enumerate(information)
    ]
    return Case(thinking, drawn[0], tuple(drawn[1:]))


def uniform(*key: object) -> float:
    """A number drawn uniformly from (0, 1), of its own for each key: the same whatever else runs, in whatever order."""
    return ((int.from_bytes(sha256(repr(key).encode()).digest()[:8]) >> 12) + 0.5) / 2**52


def generator(*key: object) -> np.random.Generator:
    """A random generator of its own for each key, as `uniform`."""
    return np.random.default_rng(int.from_bytes(sha256(repr(key).encode()).digest()[:16]))


def _signal(information: float, outcome: bool, *key: object) -> float:
    sign = 1 if outcome else -1
    return sign * information / 2 + math.sqrt(information) * float(generator("signal", *key).standard_normal())


def _total(evidence: Floats) -> Floats:
    # Sorted, so that the last digit does not depend on the order of the pieces.
    total: Floats = np.sort(evidence, axis=-1).sum(axis=-1)
    return total
