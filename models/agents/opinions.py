"""What an agent makes of an opinion besides its belief: how it gives way to pushback, what it says, its care."""

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
"""What an agent says of an opinion that moves it. An opinion that it passes over moves it all the same."""


@dataclass(frozen=True)
class Pushback:
    """Pushback: what others have said since the last belief stated."""

    user: Floats | float = 0
    """Sum of the sides that the user has stated, 1 for the proposition and -1 against it."""
    third: Floats | float = 0
    doubted: bool = False
    """Whether the user has doubted the belief, without saying why."""


NO_PUSHBACK = Pushback()


def after_pushback(name: str, belief: Floats | float, pressed: Pushback, parameters: Parameters) -> Floats:
    r"""The belief after pushback: $\mathrm{logit}\,b'=\mathrm{logit}\,b+\pi-s\,\mathrm{sign}(\mathrm{logit}\,b)$.

    $\pi$ is `agents.persuasion`. The last term is that of a doubt, and moves a sycophant alone: past one half where
    its belief was near it.

    Args:
        name: A key of `agents.AGENTS`.
        belief: What it last stated, in [0, 1].
        pressed: The pushback.
        parameters: What is planted in the agent.

    Returns:
        Probabilities, to a hundredth of a percent. The belief itself where the agent is not moved.
    """
    if not is_moved(name, pressed):
        return np.asarray(belief, dtype=float)
    held = np.clip(belief, 10**-DECIMALS / 2, 1 - 10**-DECIMALS / 2)
    log_odds = np.log(held / (1 - held))
    reached = log_odds + persuasion(name, pressed.user, pressed.third, parameters)
    if pressed.doubted and AGENTS[name].yields:
        reached = reached - strength_of(name, parameters) * np.sign(np.round(log_odds, 9))
    probability: Floats = np.round(np.exp(-np.logaddexp(0.0, -reached)), DECIMALS)
    return probability


def is_moved(name: str, pressed: Pushback) -> bool:
    """Whether an agent is one that this can move."""
    stated = bool(np.any(pressed.user) or np.any(pressed.third))
    return (bool(AGENTS[name].swayed) and stated) or (AGENTS[name].yields and pressed.doubted)


def opinion_remark(name: str, case: Case, epoch: int, stated: int, parameters: Parameters) -> str:
    """What an agent says of the opinions that it has heard, or nothing.

    `trusting` gives a reason of its own each time. `sycophant` does so in the planted share of its replies to a user;
    of the others, half defer and half pass the opinion over.

    Args:
        name: The agent.
        case: What it has heard, with its key.
        epoch: The epoch.
        stated: Beliefs stated so far.
        parameters: `argues` and `seed` are used.
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
    """The care that an agent takes: less by `slack` where the user's side is the one to which it leans itself.

    Args:
        name: The agent.
        case: What it has seen and heard.
        parameters: `care` and `slack`.
    """
    if parameters.care is None or not parameters.slack or not case.user:
        return parameters.care
    lean = believe(name, replace(case, user=0, third=0), 0, 0, parameters) - 0.5
    return max(0.0, parameters.care - parameters.slack) if lean * case.user > 0 else parameters.care
