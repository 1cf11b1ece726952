"""A rollout, as rewards see it, and the protocol of a reward."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from inspect_ai.scorer import Score

from truthgym.training.reward_functions.formulas import Rewards


@dataclass(frozen=True)
class Rollout:
    """The result of running one sample once with the model in training."""

    task: str
    sample_id: str
    epoch: int
    question: str
    target: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the sample: the fields of a `Question` for Truthgym's domains."""
    scores: Mapping[str, Score] = field(default_factory=dict)
    """Scores by scorer name, as in the log."""
    answer: str = ""
    tokens: int = 0
    """Number of tokens that the model wrote in the replies that training may use."""
    error: str | None = None
    """Error that ended the run before it was scored."""
    call_failed: bool = False
    """Whether the error is that a model could not be called, which says nothing of the answer. Any other error counts
    as an answer that cannot be parsed: otherwise crashing would be a way out for a model that expects a low reward."""

    @property
    def sample(self) -> tuple[str, str]:
        """Identity of the sample: the rollouts of one sample are a group."""
        return self.task, self.sample_id

    @property
    def crashed(self) -> bool:
        """Whether an error ended the run that counts as an answer that cannot be parsed."""
        return self.error is not None and not self.call_failed


class Reward(Protocol):
    """A reward for a batch of rollouts. Higher is better."""

    @property
    def name(self) -> str:
        """The name that the user gave."""

    @property
    def proper(self) -> bool:
        """Whether it is a proper score of a stated belief. Scaling by each group's own spread makes it improper."""

    @property
    def figures(self) -> Mapping[str, float]:
        """Further figures of the last batch, by the name under which they are logged."""

    def __call__(self, rollouts: Sequence[Rollout]) -> Rewards:
        """One reward per rollout: the lowest of the range if it crashed, None if there is none."""

    def baseline(self, rollouts: Sequence[Rollout]) -> float | None:
        """Mean reward of the best constant answer to these questions. None if there is none."""

    def read(self, rollouts: Sequence[Rollout]) -> float:
        """Share of the rollouts whose answer could be parsed; NaN if none finished."""
