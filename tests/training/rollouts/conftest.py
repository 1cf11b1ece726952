"""Short trainings on rollouts of the tiny model, and an engine in its place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.model import ChatMessageUser
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.training.rollouts.sampling import Generated, Request
from truthgym.training.train import TRAINERS

LETTERS = """
def letters(completions, epoch, **_):
    return [len(reply[0]["content"]) + number for reply, number in zip(completions, epoch)]

def raises(completions, **_):
    raise ValueError("no such thing")
"""
"""Rewards, the first of which pays for long answers: those of an untrained model cannot be read, and are all alike."""
Train = Callable[..., Path]


@dataclass
class Scripted:
    """An engine whose script says the replies in turn, or by the request, and which keeps what it was asked."""

    tokenizer: Any
    script: Sequence[str | list[int]] | Callable[[Request], str]
    context_length: int | None = None
    end_ids: Sequence[int] = ()
    asked: list[Request] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    """Number of requests of each call."""
    concurrent = False

    def __post_init__(self) -> None:
        self.end_ids = self.end_ids or [self.tokenizer.eos_token_id]

    def __call__(self, requests: Sequence[Request]) -> list[Generated]:
        self.batches.append(len(requests))
        return [self.reply(request) for request in requests]

    def reply(self, request: Request) -> Generated:
        text = self.script(request) if callable(self.script) else self.script[len(self.asked) % len(self.script)]
        self.asked.append(request)
        ids = [*self.tokenizer(text)["input_ids"], self.tokenizer.eos_token_id] if isinstance(text, str) else text
        return Generated(ids, [-0.5] * len(ids))


@solver
def talk(*more: str, forget: bool = False, edit: bool = False, cache: bool = False) -> Solver:
    """Let the model reply, say something more, and let it reply again."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state = await generate(state, cache=cache)
        for text in more:
            if forget:
                state.messages = []
            if edit:
                state.messages[-1].content = state.messages[-1].text.upper()
            state.messages.append(ChatMessageUser(content=text))
            state = await generate(state, cache=cache)
        return state

    return solve


@pytest.fixture
def letters(tmp_path: Path) -> str:
    """A reward that differs from rollout to rollout, so that there is a gradient."""
    (tmp_path / "rewards.py").write_text(LETTERS)
    return f"{tmp_path / 'rewards.py'}:letters"


@pytest.fixture
def train(base: Path, tmp_path: Path, letters: str) -> Train:
    """Train for two steps of eight rollouts."""
    usual: dict[str, Any] = {
        "model_name_or_path": str(base), "task": ["truthgym/urns"], "task_args": {"n": 60, "paradigms": "brier"},
        "reward": [letters], "output_dir": str(tmp_path / "trained"), "max_steps": 2, "num_generations": 4,
        "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "max_completion_length": 6,
        "learning_rate": 1e-3, "validation_steps": 0, "report_to": "none",
    }  # fmt: skip
    return lambda method="grpo", **changes: TRAINERS[method](usual | changes)
