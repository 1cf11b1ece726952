import gc
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import settings
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import Model
from inspect_ai.scorer import Scorer
from inspect_ai.solver import Solver

from tests import fixtures
from tests.fixtures import QUIET, Fails, Run, Solve, made_once

ROOT = Path(__file__).parent.parent
settings.register_profile("truthgym", deadline=None)  # a busy machine is no failure
settings.load_profile("truthgym")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of torch cost tiny models more than they help
os.environ.setdefault("INSPECT_EVAL_CTL_SERVER", "false")  # else each eval starts a server of its own
# Inspect asks in each eval which package has a task; of one that is installed with -e, it reads all there are.
vars(sys.modules["inspect_ai._util.package"])["packages_distributions"] = cache(packages_distributions)
TASK_LOG = vars(sys.modules["inspect_ai._eval.task.log"])
TASK_LOG["get_distribution_for_object"] = cache(TASK_LOG["get_distribution_for_object"])
vars(sys.modules["inspect_ai._util.zipfile"])["_ZSTD_THREADS"] = 0  # small logs take longer to start 12 threads for
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process that a test starts would compile all of Truthgym
sys.dont_write_bytecode = False
gc.set_threshold(50_000, 20, 20)  # by default, a seventh of the time goes into looking through what Inspect imports


def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: some tests wait for a server or a child."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests first, so that no process waits for the last of them."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Leave what is imported out of every later collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def root() -> Path:
    return ROOT


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a cache of its own, so that a judge's cached replies of one test do not reach another.

    Not `tmp_path`: pytest makes its folder, which takes longer the more there are.
    """
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache" / uuid4().hex))


def _runs(folder: Path, status: str = "success") -> Run:
    def run_task(task: Task | str, model: str | Model = "reference/bayesian", **arguments: Any) -> EvalLog:
        (log,) = eval(task, model=model, log_dir=str(folder), **{**QUIET, "score_display": False, **arguments})
        assert log.status == status, log.error
        return log

    return run_task


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a task as `inspect eval` does and return its log. The run must succeed."""
    return _runs(tmp_path / "logs")


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same for fixtures of a module, whose logs several tests read."""
    return _runs(tmp_path_factory.mktemp("logs"))


@pytest.fixture
def fails(tmp_path: Path) -> Fails:
    """Run a task that must fail, and return the error in its log."""

    def run_task(task: Task | str, model: str | Model = "reference/bayesian", **arguments: Any) -> str:
        log = _runs(tmp_path / "logs", "error")(task, model, **arguments)
        assert log.error
        return log.error.message.replace("\\", "")  # a BadInput escapes brackets, which Inspect prints with rich

    return run_task


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model with random weights. No test changes it."""
    from truthgym.training.tiny import tiny

    return made_once(tmp_path_factory, "tiny", lambda folder: tiny(folder, steps=0, hidden=32, layers=2))


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment for a subprocess: the user's, without PYTHONPATH."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "INSPECT_LOG_DIR")}


@pytest.fixture
def solve(run: Run) -> Solve:
    """Let a solver work on one question with a model, and return the sample of the last epoch."""

    def run_solver(
        model: Model,
        solver: Solver | list[Solver],
        item: Sample,
        epochs: int = 1,
        prompt: str | None = None,
        scorers: Sequence[Scorer] = (),
        **arguments: Any,
    ) -> EvalSample:
        task = fixtures.task_of(item, solver, *scorers, prompt=prompt, epochs=epochs)
        return fixtures.samples(run(task, model, **arguments))[-1]

    return run_solver
