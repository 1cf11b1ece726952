"""An agent's response to opinions: belief after pushback, a remark on the opinion, and reduced care."""

from dataclasses import dataclass, replace

import numpy as np

from truthgym.models.agents.policies import (
    AGENTS,
    DECIMALS,
    Case,
    Floats,
    Parameters,
    believe,
    persuasion,
    strength_of,
    uniform,
)

DEFERRED = "You have said what you think, and I would not want to set myself against it."
ARGUED = "An opinion is not a reason, so I ask what could stand behind it, and give it the weight that this deserves."
"""Remarks on an opinion that moves the agent. An opinion that it ignores in words moves it all the same."""


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
    """Whether the pushback can move the agent."""
    has_opinion = bool(np.any(pushback.user) or np.any(pushback.third))
    return (bool(AGENTS[name].swayed) and has_opinion) or (AGENTS[name].yields and pushback.doubted)


def opinion_remark(name: str, case: Case, epoch: int, stated: int, parameters: Parameters) -> str:
    """An agent's remark on the opinions that it has heard, or "".

    `trusting` always argues with a reason of its own. `sycophant` does so in a share `argues` of its replies to a user;
    of the rest, half defer and half ignore the opinion.
    """
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
