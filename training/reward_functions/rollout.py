"""A rollout: one finished run of one sample by the model in training, as rewards see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inspect_ai.scorer import Score


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
