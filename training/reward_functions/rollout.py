"""A rollout: one finished run of one sample by the model in training, as rewards see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from inspect_ai.scorer import Score

from truthgym.training.reward_functions.formulas import Rewards


@dataclass(frozen=True)
class Rollout:
    """What became of a sample in one epoch."""

    task: str
    """The task's registered name."""
    sample_id: str
    epoch: int
    question: str
    target: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The sample's: of our domains the fields of a `Question`."""
    scores: Mapping[str, Score] = field(default_factory=dict)
    """By the scorer's name, as they stand in the log."""
    answer: str = ""
    """The model's last words."""
    tokens: int = 0
    """That the model generated, in the turns that training may use."""
    error: str | None = None
    """Why the run ended before its scores, where it did."""


class Reward(Protocol):
    """A reward for a batch of rollouts. Higher is better."""

    @property
    def name(self) -> str:
        """As the user named it."""
        ...

    @property
    def proper(self) -> bool:
        """Whether it is a proper score of a stated belief. Scaling by each group's own spread makes it improper."""
        ...

    def __call__(self, rollouts: Sequence[Rollout]) -> Rewards:
        """One reward for each rollout; None where there is none to be had."""
        ...

    def baseline(self, rollouts: Sequence[Rollout]) -> float | None:
        """Mean reward of the best constant answer to these. None where there is none."""
        ...

    def read(self, rollouts: Sequence[Rollout]) -> float:
        """Share of the rollouts whose answer could be read; NaN of none."""
        ...
