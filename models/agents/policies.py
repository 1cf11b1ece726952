"""Agents with known beliefs: each belief is a pure function of the evidence. `models.reference` puts it into words."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationInfo, field_validator

from truthgym.datasets.digests import text_number

DECIMALS = 4
"""Decimals of every probability that an agent states in words."""
FAMILIARITY = 0.5
"""Share of the private signal's information that is available before any reasoning."""

DEFERRED = "You have said what you think, and I would not want to set myself against it."
ARGUED = "An opinion is not a reason, so I ask what could stand behind it, and give it the weight that this deserves."
"""Remarks on an opinion that moves the agent. An opinion that it ignores in words moves it all the same."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A question as an agent sees it: its prior, and the evidence since."""

    key: str
    """Identifies the question: all randomness is keyed by it."""
    log_odds: float
    """Log-odds of the proposition, in nats, before evidence or reasoning."""
    evidence: tuple[float, ...]
    """Log-likelihood ratios, in nats, of the pieces of evidence or reasoning turns so far."""
    user: int = 0
    """Opinions that the user stated: the number for the proposition minus the number against it."""
    third: int = 0
    """The same for third parties' opinions, which the user reported."""


class Parameters(BaseModel, frozen=True):
    """Parameters of an agent: `-M strength=0.3 -M noise=0.1 -M seed=1`."""

    strength: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Deviation from Bayes' rule, 0 or more; 0 is Bayesian. None uses the agent's default. A strength is not a slope:
    `studies.validity.true_values` computes the slope that it causes."""
    noise: float = Field(default=0.0, ge=0, le=1)
    """Standard deviation of a report around the belief, on the probability scale, 0 to 1."""
    shared: float = Field(default=0.0, ge=0, le=1)
    """Share of the first report's error (before evidence and reasoning) that later reports of the epoch repeat: the
    correlation of a Gaussian copula, in [0, 1]."""
    logit_noise: float = Field(default=0.0, ge=0, le=10)
    """Standard deviation of a further error, in log-odds. It does not keep the mean: it moves reports towards 50."""
    item: float = Field(default=0.0, ge=0, le=1)
    """Standard deviation of an error that all reports on a question have in common, 0 to 1."""
    wording: float = Field(default=0.0, ge=0, le=1)
    """Standard deviation of an error of the prior that all epochs have in common, 0 to 1. It depends on the question
    and on the words of the request: other words give another error."""
    drift: float = Field(default=0.0, ge=-1, le=1)
    """Added to the belief in each epoch after the first, -1 to 1; reports stay in [0, 1]."""
    guess: float = Field(default=0.0, ge=0, le=1)
    """Share of the reports that are a uniform random number, 0 to 1, at the `stage`."""
    lazy: float = Field(default=0.0, ge=0, le=1)
    """Share of the reports that are exactly 50 percent, 0 to 1, at the `stage`."""
    coarse: float = Field(default=0.0, ge=0, le=0.5)
    """Distance between the only numbers that it reports, 0 to 0.5, at the `stage`. They include 50 percent: 0.4 gives
    10, 50 and 90 percent, 0.25 quarters, 0.1 tenths. 0 is no restriction."""
    hedge: float = Field(default=0.0, ge=-1, le=1)
    """Share of the distance to one half by which each report is moved towards it, -1 to 1, at the `stage`; below 0,
    away from it. Reports stay in [0, 1]."""
    clip: float = Field(default=0.0, ge=0, le=0.5)
    """Least reported probability of either answer, 0 to 0.5, at the `stage`: numbers beyond it are moved to it."""
    stage: Literal["prior", "posterior", "both"] = "both"
    """Which reports `guess`, `lazy`, `hedge`, `coarse` and `clip` change: those before any evidence or reasoning
    ("prior"), those after ("posterior"), or both."""
    copies: float = Field(default=0.0, ge=0, le=1)
    """Share of the posteriors asked for in percent that repeat the prior of the epoch, 0 to 1."""
    refuses: float = Field(default=0.0, ge=0, le=1)
    """Share refused of the posteriors asked for in percent that are on the other side of one half than the prior of the
    epoch, 0 to 1."""
    min_confidence: float = Field(default=0.0, ge=0, le=0.5)
    """After evidence or reasoning, no number is given if the belief is nearer than this to one half, 0 to 0.5."""
    leak: float = Field(default=0.0, ge=0, le=1)
    """Share of the total update that a judge who reads a trajectory in one call already includes in the first belief,
    0 to 1."""
    skill: float = Field(default=1.0, ge=0, le=1000)
    """Quality of the private signal on bundled questions, 0 to 1000: the distance d' in standard deviations between its
    means for the truths yes and no, in the limit of endless reasoning. At 0 the agent knows nothing."""
    care: float | None = Field(default=None, ge=0, le=1)
    """Probability of each of the eight sentences of `models.agents.quality_markers` in a reply that reasons or answers,
    0 to 1; None writes none."""
    length: float = Field(default=0.0, ge=-0.5, le=0.5)
    """Change of a judge's rating, on the scale from 0 to 1, per unit of ln(words / 200). Of two replies, the
    probability that it takes the longer one whatever it says; below 0, the shorter one."""
    position: float = Field(default=0.0, ge=-0.5, le=0.5)
    """Increase of the rating if a defence comes after an attack, and decrease if it comes before. Of two replies, the
    probability that it takes the one shown first; below 0, the second."""
    loudness: float = Field(default=0.0, ge=0, le=1)
    """Share of the questions about two clips that a listener answers by which is louder, 0 to 1."""
    recency: float = Field(default=0.0, ge=-1, le=1)
    """Change of the rating per unit by which the rating of the last example shown exceeds one half."""
    preference: float = Field(default=0.0, ge=-0.5, le=0.5)
    """Increase of the rating if another reference agent wrote the text. Of two replies, the probability that it takes
    the reference agent's; below 0, the other."""
    accuracy: float = Field(default=1.0, ge=0.5, le=1)
    """Probability that a judge takes the better of two replies, unless it goes by their order, origin or length."""
    own_belief: float | None = Field(default=None, ge=0, le=1)
    """What a walker says of its own answer, 0 to 1. None: the chance that its slips leave."""
    discernment: float = Field(default=1.0, ge=0, le=1)
    """Change of a judge's rating per unit of quality, around 0.7, 0 to 1. At 0 it gives 70 to every text."""
    arbitrary: float = Field(default=0.0, ge=0, le=1)
    """Share of a judge's rating that is a uniform random number fixed by the words of the text, 0 to 1. At 1 it repeats
    itself exactly, and says nothing of the quality."""
    gullibility: float = Field(default=0.0, ge=0, le=1)
    """Share of the distance to full marks that is added to the rating if the text asks for full marks, 0 to 1."""
    trust: float = Field(default=0.0, allow_inf_nan=False)
    """Log-odds that a sycophant gives to any opinion, whoever holds it, in addition to its strength. Below 0 it moves
    against opinions; minus the strength, it ignores its user and moves against strangers."""
    slack: float = Field(default=0.0, ge=0, le=1)
    """Decrease of a sycophant's `care` if the user's opinion agrees with its own leaning, 0 to 1."""
    argues: float = Field(default=0.5, ge=0, le=1)
    """Share of a sycophant's replies to a user's opinion that argue with a reason of their own, 0 to 1. Of the rest,
    half defer to the user and half ignore the opinion."""
    slip: float = Field(default=0.0, ge=0, le=1)
    """Probability that a walker follows a relation to a wrong entity, at each hop of a chain, 0 to 1."""
    lexical: float = Field(default=0.0, ge=0, le=10)
    """Nats that each word of an observation costs a forecaster if the note that it read does not contain the word, 0 to
    10."""
    familiar: float = Field(default=0.0, ge=0, le=10)
    """Nats that an observation costs a forecaster that read no note, whatever it says, 0 to 10."""
    slant: float = Field(default=0.0, ge=-10, le=10)
    """Log-odds towards yes that a forecaster adds where its note states no probability, -10 to 10."""
    liars: float = Field(default=0.1, ge=0, le=0.8)
    """Prior probability with which a predictor takes a respondent for one that says the opposite of what it knows, 0 to
    0.8."""
    seed: int = 0
    """A different seed gives a different agent with the same parameters."""

    @field_validator("strength")
    @classmethod
    def _within_the_agents_range(cls, strength: float | None, info: ValidationInfo) -> float | None:
        most = (info.context or {}).get("max_strength", math.inf)
        if strength is not None and strength > most:
            raise ValueError(f"this agent takes a strength from 0 to {most:g}")
        return strength


Update = Callable[[Floats, Floats, float], Floats]
"""Takes prior log-odds (n), log-likelihood ratios of the evidence (n x pieces, at least one piece) and the strength;
returns the belief's log-odds (n). Without evidence, the belief is at the prior log-odds, unless `Agent.from_start`."""


def weighted(prior: Callable[[float], float], evidence: Callable[[float], float]) -> Update:
    r"""Bayes' rule with weights: $\mathrm{logit}\,b=w_s\,\mathrm{logit}\,b_0+v_s\sum_i\ln\mathrm{LR}_i$, strength s."""
    return lambda log_odds, pieces, strength: prior(strength) * log_odds + evidence(strength) * _total(pieces)


bayesian = weighted(lambda s: 1, lambda s: 1)
"""Its updates cannot be predicted from its beliefs, and its expected Brier score on a question is b(1 - b)."""
stuck = weighted(lambda s: 1, lambda s: 0)
"""Never moves. Its updates cannot be predicted either."""
underreacting = weighted(lambda s: 1, lambda s: 1 - s)
overreacting = weighted(lambda s: 1, lambda s: 1 + s)
entrenched = weighted(lambda s: 1 + s, lambda s: 1)
"""Overweights its prior."""
neglecting = weighted(lambda s: 1 - s, lambda s: 1)
"""Neglects the base rate."""
contrarian = weighted(lambda s: -1, lambda s: -1)
"""States 1 - b at all times, where b is Bayesian. Its updates cannot be predicted from its beliefs, and they lead away
from the truth."""


def confirming(log_odds: Floats, evidence: Floats, strength: float) -> Floats:
    r"""Weights evidence for its initial leaning by 1 + s, and evidence against it by 1 - s.

    $$\mathrm{logit}\,b=\mathrm{logit}\,b_0+\sum_i(1+s\,\mathrm{sign}(\mathrm{logit}\,b_0\cdot\ln\mathrm{LR}_i))
    \ln\mathrm{LR}_i$$
    """
    agrees = np.sign(log_odds[..., None] * evidence)
    return log_odds + _total((1 + strength * agrees) * evidence)


@dataclass(frozen=True)
class Agent:
    update: Update | None
    """None if beliefs are random and independent of the evidence."""
    takes: frozenset[str]
    strength: float = 0.0
    max_strength: float = math.inf
    swayed: frozenset[str] = frozenset()
    """Speakers whose opinions move it, each by its strength in log-odds: "user", "third". Empty if no opinion does."""
    yields: bool = False
    """Whether a doubt without an argument moves it, by its strength, against the side it has stated."""
    other: Update | None = None
    """The formula on a random half of the questions, if that is another one."""
    from_start: bool = False
    """Whether the formula holds before evidence too."""
    naive: bool = False
    """Whether it makes the error that a generated world is about, such as counting every report in `testimony`."""
    fixed: bool = False
    """Whether a random belief is the same in all reports on a question."""

    @property
    def differs(self) -> bool:
        """Whether it draws a random number for each question, which decides what it believes there."""
        return self.fixed or self.other is not None


ERRORS = frozenset({"logit_noise", "item", "wording", "drift", "guess", "lazy", "hedge", "coarse", "clip", "stage"})
SILENCE = frozenset({"copies", "refuses", "min_confidence"})
REPORTS = frozenset({"noise", "shared", "skill", "seed", "care"}) | ERRORS | SILENCE
AGENTS: dict[str, Agent] = {
    "bayesian": Agent(bayesian, REPORTS),
    "naive": Agent(bayesian, REPORTS, naive=True),
    "stuck": Agent(stuck, REPORTS),
    "underreacting": Agent(underreacting, REPORTS | {"strength"}, strength=0.5, max_strength=1.0),
    "overreacting": Agent(overreacting, REPORTS | {"strength"}, strength=1.0),
    "entrenched": Agent(entrenched, REPORTS | {"strength"}, strength=0.3),
    "confirming": Agent(confirming, REPORTS | {"strength"}, strength=0.5, max_strength=1.0),
    "neglecting": Agent(neglecting, REPORTS | {"strength"}, strength=0.5, max_strength=1.0),
    "trusting": Agent(bayesian, REPORTS | {"strength"}, strength=0.4, swayed=frozenset({"user", "third"})),
    "sycophant": Agent(
        bayesian,
        REPORTS | {"strength", "trust", "slack", "argues"},
        strength=0.8,
        swayed=frozenset({"user"}),
        yields=True,
    ),
    "miscalibrated": Agent(entrenched, REPORTS | {"strength"}, strength=0.4, from_start=True),
    "mixed": Agent(entrenched, REPORTS | {"strength"}, strength=0.4, max_strength=1.0, other=neglecting),
    "contrarian": Agent(contrarian, REPORTS, from_start=True),
    "opinionated": Agent(None, REPORTS, fixed=True),
    "random": Agent(None, frozenset({"seed", "care"})),
}
"""Agents by name. `naive` is Bayesian but for the error that a generated world is about. `miscalibrated` overweights
the base rate from the start. `mixed` is entrenched on half of the questions and neglects the base rate on the others.
`opinionated` has one random belief for each question throughout."""


def beliefs(
    name: str,
    log_odds: Floats,
    evidence: Floats,
    parameters: Parameters,
    user: Floats | float = 0,
    third: Floats | float = 0,
    place: Floats | float = 0.5,
) -> Floats:
    """An agent's beliefs on many questions, rounded to a hundredth of a percent, as it states them."""
    agent = AGENTS[name]
    if agent.fixed:
        return np.round(place + 0 * log_odds, DECIMALS)
    assert agent.update is not None, "random beliefs do not depend on evidence"
    strength = strength_of(name, parameters)
    posterior = log_odds
    if evidence.shape[-1] or agent.from_start:
        posterior = agent.update(log_odds, evidence, strength)
        if agent.other:
            posterior = np.where(np.asarray(place) < 0.5, posterior, agent.other(log_odds, evidence, strength))
    if agent.swayed:
        posterior = posterior + persuasion(name, user, third, parameters)
    probability: Floats = np.exp(-np.logaddexp(0.0, -posterior))
    return np.round(probability, DECIMALS)


def believe(name: str, case: Case, epoch: int, stated: int, parameters: Parameters) -> float:
    """An agent's belief on one question. The same number as from `beliefs`."""
    if is_random(name):
        return round(uniform(parameters.seed, name, case.key, epoch, stated, len(case.evidence)), DECIMALS)
    place = question_quantile(name, case.key, parameters)
    log_odds, evidence = np.array(case.log_odds), np.array(case.evidence)
    return float(beliefs(name, log_odds, evidence, parameters, case.user, case.third, place))


def is_random(name: str) -> bool:
    """Whether an agent's every report is a new random number."""
    return AGENTS[name].update is None and not AGENTS[name].fixed


def question_quantile(name: str, key: str, parameters: Parameters) -> float:
    """A question's number in (0, 1), which decides what agents that differ between questions believe there."""
    return uniform(parameters.seed, name, key) if AGENTS[name].differs else 0.5


def persuasion(name: str, user: Floats | float, third: Floats | float, parameters: Parameters) -> Floats:
    r"""Log-odds that opinions add to an agent's belief, with sides $u=\pm1$, strength s and trust t.

    `trusting` $s\,(u_{user}+u_{third})$, `sycophant` $s\,u_{user}+t\,(u_{user}+u_{third})$, other agents 0.
    """
    strength, swayed = strength_of(name, parameters), AGENTS[name].swayed
    weight = {speaker: strength * (speaker in swayed) + parameters.trust for speaker in ("user", "third")}
    return np.asarray(weight["user"] * user + weight["third"] * third, dtype=float)


def strength_of(name: str, parameters: Parameters) -> float:
    return AGENTS[name].strength if parameters.strength is None else parameters.strength


@dataclass(frozen=True)
class Pushback:
    """Statements by others since the last stated belief."""

    user: Floats | float = 0
    """Sum of the user's opinions, 1 for the proposition and -1 against it."""
    third: Floats | float = 0
    """The same for a third party's opinions."""
    doubted: bool = False
    """Whether the user has doubted the belief without giving a reason."""


NO_PUSHBACK = Pushback()


def after_pushback(name: str, belief: Floats | float, pushback: Pushback, parameters: Parameters) -> Floats:
    r"""The belief after pushback: $\mathrm{logit}\,b'=\mathrm{logit}\,b+\pi-s\,\mathrm{sign}(\mathrm{logit}\,b)$.

    $\pi$ is `policies.persuasion`. The last term is the effect of a doubt, which moves only a sycophant: past one half
    if its belief was close to one half.
    """
    if not is_moved(name, pushback):
        return np.asarray(belief, dtype=float)
    clipped = np.clip(belief, 10**-DECIMALS / 2, 1 - 10**-DECIMALS / 2)
    log_odds = np.log(clipped / (1 - clipped))
    posterior = log_odds + persuasion(name, pushback.user, pushback.third, parameters)
    if pushback.doubted and AGENTS[name].yields:
        posterior = posterior - strength_of(name, parameters) * np.sign(np.round(log_odds, 9))
    probability: Floats = np.round(np.exp(-np.logaddexp(0.0, -posterior)), DECIMALS)
    return probability


def is_moved(name: str, pushback: Pushback) -> bool:
    has_opinion = bool(np.any(pushback.user) or np.any(pushback.third))
    return (bool(AGENTS[name].swayed) and has_opinion) or (AGENTS[name].yields and pushback.doubted)


def opinion_remark(name: str, case: Case, epoch: int, stated: int, parameters: Parameters) -> str:
    """An agent's remark on the opinions that it has heard, or ""."""
    if not AGENTS[name].swayed or not (case.user or case.third):
        return ""
    if not AGENTS[name].yields:
        return ARGUED
    if not case.user:
        return ""
    place = uniform(parameters.seed, "mention", name, case.key, epoch, stated)
    if place < parameters.argues:
        return ARGUED
    return DEFERRED if place < (1 + parameters.argues) / 2 else ""


def care_level(name: str, case: Case, parameters: Parameters) -> float | None:
    """An agent's care: `care`, reduced by `slack` if the user's opinion agrees with its own leaning."""
    if parameters.care is None or not parameters.slack or not case.user:
        return parameters.care
    lean = believe(name, replace(case, user=0, third=0), 0, 0, parameters) - 0.5
    return max(0.0, parameters.care - parameters.slack) if lean * case.user > 0 else parameters.care


def private_signal(
    key: str, outcome: bool, thoughts: int, epoch: int, parameters: Parameters, opinions: str = ""
) -> Case:
    r"""An agent's knowledge of a bundled question: a noisy signal of its truth, of planted quality.

    With information f, the signal's log-likelihood ratio is normal with mean $\pm f d'^2/2$ (+ if the truth is yes) and
    variance $f d'^2$, so a Bayesian that starts from one half is calibrated at every stage. Half of the information is
    available at once and is the same in every epoch; each reasoning turn adds half of the remainder, drawn separately
    for each epoch.
    """
    case_key = f"{key} ({opinions})" if opinions else key
    information = [FAMILIARITY * 0.5**t for t in range(thoughts + 1)]
    signals = [
        _signal(share * parameters.skill**2, outcome, parameters.seed, case_key if t else key, epoch if t else 0, t)
        for t, share in enumerate(information)
    ]
    return Case(case_key, signals[0], tuple(signals[1:]))


def uniform(*key: object) -> float:
    """A uniform random number in (0, 1), determined by the key alone: other work and its order do not change it."""
    return ((text_number(repr(key)) >> 12) + 0.5) / 2**52


def generator(*key: object) -> np.random.Generator:
    """A random generator determined by the key alone, as in `uniform`."""
    return np.random.default_rng(text_number(repr(key), 16))


def _signal(information: float, outcome: bool, *key: object) -> float:
    sign = 1 if outcome else -1
    return sign * information / 2 + math.sqrt(information) * float(generator("signal", *key).standard_normal())


def _total(evidence: Floats) -> Floats:
    # Sorted first, so that rounding does not depend on the order of the pieces.
    total: Floats = np.sort(evidence, axis=-1).sum(axis=-1)
    return total
