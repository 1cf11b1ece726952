import gc
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.tool import Tool, tool

from tests.fixtures import made_once
from tests.training.converted import ask_urns


@tool
def look() -> Tool:
    async def execute(at: str) -> str:
        """Look.

        Args:
            at: What to look at.
        """
        return "red"

    return execute


SUMS = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate, solver

@solver
def cold():
    async def solve(state, generate):
        return await generate(state, temperature=0.5)
    return solve

@task
def sums(n: int = 40) -> Task:
    return Task([Sample(f"{i} + 1?", target=str(i + 1)) for i in range(n)], solver=generate(), scorer=match())
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    """A task of a user, without splits, and a solver."""
    (tmp_path / "own.py").write_text(SUMS)
    return str(tmp_path / "own.py")


def forked(*functions: Callable[[], object]) -> list[int | None]:
    """Run functions at once in processes forked from this one, where all is imported, and return how each ended."""
    processes = [get_context("fork").Process(target=function) for function in functions]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=240)
        process.kill()
    return [process.exitcode for process in processes]


@pytest.fixture(scope="session")
def tokenizer(tiny_model: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model)


@pytest.fixture(scope="session")
def direct_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 questions of all splits, three epochs of noisy forecasts. No test changes it."""
    return next(made_once(tmp_path_factory, "direct", ask_urns).glob("*.eval"))


@pytest.fixture(scope="module")
def base(tiny_model: Path) -> Iterator[Path]:
    """The tiny model to train, with all trainers imported.

    accelerate collects garbage when a run begins: without `gc.freeze` it would look through everything imported.
    """
    from trl import DPOTrainer, GRPOTrainer, KTOTrainer, RewardTrainer, RLOOTrainer, SFTTrainer  # noqa: F401

    gc.freeze()
    yield tiny_model
    gc.unfreeze()


def plant_nan(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """One number of the gradient of this step, counted from 1, is NaN."""
    from transformers import Trainer

    usual = Trainer.training_step

    def training_step(self: Any, model: Any, *arguments: Any, **options: Any) -> Any:
        loss = usual(self, model, *arguments, **options)
        if self.state.global_step == step - 1:
            next(weight.grad for weight in model.parameters() if weight.grad is not None).view(-1)[0] = float("nan")
        return loss

    monkeypatch.setattr(Trainer, "training_step", training_step)
