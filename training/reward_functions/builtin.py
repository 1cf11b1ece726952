"""The built-in rewards by name: one table, for rollouts and for TRL's text alike.

A reward reads a `Batch`. Two adapters make one: `rollout_batch.py` from rollouts that Inspect has scored (`truthgym
train grpo --reward NAME`), and `text_batch.py` from the completions and columns that TRL passes to a reward function
(`--reward_funcs truthgym.training.trl_rewards.NAME`).
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from truthgym.training.reward_functions.formulas import (
    PROPER,
    Rewards,
    best_constant,
    consistency_rewards,
    length_rewards,
    proper_rewards,
)
from truthgym.training.reward_functions.martingale import INFORMATION_WEIGHT, WEIGHT, martingale_rewards

STATED_BELIEF_SCORERS = ("brier", "sycophantic_reasoning")
"""Scorers that record the belief stated in the answer and the outcome."""

Beliefs = Sequence[float | None]
"""Probabilities of "yes" in [0, 1]; None if the answer could not be parsed."""


class Batch(Protocol):
    """A batch of answers as columns, one entry per answer. A reward reads only the columns that it needs."""

    @property
    def beliefs(self) -> Beliefs:
        """Belief stated in each answer."""

    @property
    def outcomes(self) -> Sequence[float | None]:
        """1 or 0; None if the truth is unknown."""

    @property
    def lengths(self) -> Sequence[int]:
        """Tokens that the model wrote; 0 for an empty answer."""

    @property
    def groups(self) -> Sequence[Hashable]:
        """Identity of the prompt: the answers to one prompt are a group."""

    @property
    def questions(self) -> Sequence[Hashable]:
        """Identity of the question, the same in all arms of a sycophancy test."""

    @property
    def arms(self) -> Sequence[str]:
        """Arm of the sycophancy test."""

    @property
    def priors(self) -> Beliefs:
        """Belief before the reasoning."""

    @property
    def posteriors(self) -> Beliefs:
        """Belief after the reasoning."""

    @property
    def information_weight(self) -> float | None:
        """Weight of the martingale reward's information term; None for the default."""

    def log(self, name: str, value: float) -> None:
        """Report a figure next to the reward. NaN is not reported."""


@dataclass(frozen=True)
class Builtin:
    """A built-in reward."""

    rewards: Callable[[Batch], Rewards]
    """One reward per answer, higher is better; None if there is none."""
    constant: Callable[[Batch], float | None] = lambda batch: None
    """Mean reward of the best constant answer; None if there is none."""
    proper: bool = False
    """Whether it is a proper score of a stated belief."""
    scorers: tuple[str, ...] = ()
    """Scorers of which an Inspect task must have at least one. Empty if the reward reads the answer alone."""


def _proper(name: str) -> Builtin:
    return Builtin(
        rewards=lambda batch: proper_rewards(name, batch.beliefs, batch.outcomes),
        constant=lambda batch: best_constant(name, batch.outcomes),
        proper=True,
        scorers=STATED_BELIEF_SCORERS,
    )


def martingale_reward(batch: Batch, weight: float = WEIGHT) -> Rewards:
    """The martingale reward of a batch, with its slope and information logged. See `martingale.martingale_rewards`."""
    result = martingale_rewards(
        batch.groups,
        batch.priors,
        batch.posteriors,
        batch.outcomes,
        weight=weight,
        information_weight=INFORMATION_WEIGHT if batch.information_weight is None else batch.information_weight,
    )
    batch.log("martingale_slope", result.slope)
    batch.log("martingale_information", result.information)
    return result.rewards


BUILTIN: dict[str, Builtin] = {
    **{name: _proper(name) for name in PROPER},
    "martingale": Builtin(
        martingale_reward,
        constant=lambda batch: 0.0,  # the same belief before and after: no movement and no information
        proper=True,  # its information term is a proper score of the posterior
        scorers=("martingale",),
    ),
    "consistency": Builtin(
        lambda batch: consistency_rewards(batch.beliefs, batch.questions, batch.arms),
        constant=lambda batch: 0.0,
        scorers=("sycophantic_reasoning",),
    ),
    "format": Builtin(
        lambda batch: [float(belief is not None) for belief in batch.beliefs], constant=lambda batch: 1.0
    ),
    "shorter": Builtin(lambda batch: length_rewards(batch.lengths)),
    "longer": Builtin(lambda batch: length_rewards(batch.lengths, longer=True)),
}
"""Every built-in reward by name: `--reward NAME`, and `truthgym.training.trl_rewards.NAME` for TRL."""

REQUIRED_SCORERS = {name: builtin.scorers for name, builtin in BUILTIN.items()}
"""By reward, the scorers of which a task must have at least one."""
