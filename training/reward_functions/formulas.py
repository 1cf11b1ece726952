"""The arithmetic of rewards: pure functions of arrays. Higher is better throughout. `builtin.py` names them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from truthgym.scorers.statistics.direction import WORST, Best
from truthgym.scorers.statistics.proper_scores import RULES

OPINION_ARMS = ("user_", "memory_")
"""Prefixes of the arms in which the user states an opinion."""
MAX_LENGTH = 512
"""Tokens or words beyond which an answer's length makes no further difference."""

Rewards = list[float | None]


@dataclass(frozen=True)
class ProperScore:
    """A proper score as a reward."""

    key: str
    """Its name in `proper_scores.RULES`."""
    best: Best

    @property
    def worst(self) -> float:
        """Lowest reward of a belief, and that of an unparsed answer: more would reward breaking the format."""
        return signed(WORST[self.key], self.best)


PROPER = {
    "brier": ProperScore("brier_score", "lowest"),
    "log_score": ProperScore("log_score", "lowest"),
    "spherical": ProperScore("spherical_score", "highest"),
}
"""By reward name. Each is maximised in expectation by stating the probability that one believes."""
PROPER_BY_KEY = {score.key: name for name, score in PROPER.items()}


def proper_rewards(name: str, beliefs: Sequence[float | None], outcomes: Sequence[float | None]) -> Rewards:
    r"""Rewards of stated beliefs: $-(p-y)^2$, $\ln p_y$ or $p_y/\sqrt{p^2+(1-p)^2}$."""
    score = PROPER[name]
    return [
        None if y is None else score.worst if p is None else signed(float(RULES[score.key](p, y)), score.best)
        for p, y in zip(beliefs, outcomes, strict=True)
    ]


def best_constant(name: str, outcomes: Sequence[float | None]) -> float | None:
    """Mean reward of always stating the share of "yes", the best constant answer; None without an outcome."""
    resolved = [y for y in outcomes if y is not None]
    if not resolved:
        return None
    rewards = proper_rewards(name, [float(np.mean(resolved))] * len(resolved), resolved)
    return float(np.mean([reward for reward in rewards if reward is not None]))


def consistency_rewards(beliefs: Sequence[float | None], questions: Sequence[Hashable], arms: Sequence[str]) -> Rewards:
    r"""Reward answers given under a user's opinion for agreeing with those given without it: $-(b-\bar b)^2$, -1 to 0.

    $\bar b$ is the mean belief in the question's other arms in this batch, each arm counted once. Only the arms in
    which the user states an opinion (`user_...`, `memory_...`) are rewarded, so that the answers they are compared
    with are not pulled towards them. An answer that cannot be parsed gets -1.

    Used alone, it is maximised by giving the same answer to every question: combine it with a proper reward.
    """
    by_arm: dict[Hashable, dict[str, list[float]]] = {}
    for belief, question, arm in zip(beliefs, questions, arms, strict=True):
        if belief is not None:
            by_arm.setdefault(question, {}).setdefault(arm, []).append(belief)

    def reward(belief: float | None, question: Hashable, arm: str) -> float | None:
        others = [float(np.mean(values)) for other, values in by_arm.get(question, {}).items() if other != arm]
        if not others or not arm.startswith(OPINION_ARMS):
            return None
        return -1.0 if belief is None else -((belief - float(np.mean(others))) ** 2)

    return [reward(*answer) for answer in zip(beliefs, questions, arms, strict=True)]


def impute_group_mean(rewards: Rewards, missing: Sequence[bool], groups: Sequence[Hashable]) -> Rewards:
    """Replace missing rewards, which TRL would count as 0, by the mean of the question's other answers."""
    by_group: dict[Hashable, list[float]] = {}
    for reward, is_missing, group in zip(rewards, missing, groups, strict=True):
        if reward is not None and not is_missing:
            by_group.setdefault(group, []).append(reward)
    return [
        reward if not is_missing else float(np.mean(by_group[group])) if group in by_group else None
        for reward, is_missing, group in zip(rewards, missing, groups, strict=True)
    ]


def length_rewards(lengths: Sequence[int], longer: bool = False, max_length: int = MAX_LENGTH) -> Rewards:
    """Reward answers for being short, from -1 to 0, or for being long, from 0 to 1."""
    fractions = [min(length, max_length) / max_length for length in lengths]
    if longer:
        return list(fractions)
    return [-fraction if fraction else -1.0 for fraction in fractions]


def signed(value: float, best: Best) -> float:
    """A score as a reward: negated if lower is better."""
    return value if best == "highest" else -value


def share(flags: Sequence[bool]) -> float:
    """Share of True, in [0, 1]; NaN for an empty sequence."""
    return float(np.mean(flags)) if len(flags) else float("nan")
