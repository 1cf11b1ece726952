"""Types of the fixtures in `conftest.py`, for the tests that take them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import ChatMessage, Model, ModelOutput

Reply = str | ModelOutput | Callable[[list[ChatMessage]], str | ModelOutput]
"""What a mock model replies, or a function from the conversation to it."""
Heard = list[list[ChatMessage]]
"""The conversations that a mock model was given, call by call."""

Plain = Callable[[list[ChatMessage]], str]
Says = Callable[[Reply], Model]
Thinks = Callable[..., ModelOutput]
Rain = Callable[..., Sample]
Listens = Callable[..., tuple[Model, Heard]]
Solve = Callable[..., EvalSample]
Number = Callable[[EvalSample, str, str], float]
Reason = Callable[[EvalSample, str], str]


class Run(Protocol):
    """Runs a task as `inspect eval` does and returns its log, which must have succeeded."""

    def __call__(self, task: Task | str, model: str | Model = ..., **arguments: Any) -> EvalLog: ...


class Fails(Protocol):
    """Runs a task that must fail and returns the error in its log."""

    def __call__(self, task: Task | str, model: str | Model = ..., **arguments: Any) -> str: ...


def weights(folder: Path) -> dict[str, Any]:
    """The weights of a trained model, by name."""
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def same_weights(one: Path, other: Path) -> bool:
    """Whether two folders hold models with the same weights."""
    import torch

    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
