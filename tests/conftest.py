import gc
import math
import os
import sys
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
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ContentReasoning,
    ContentText,
    Model,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.solver import Solver

from tests.fixtures import QUIET, Fails, Heard, Listens, Number, Plain, Rain, Reason, Reply, Run, Says, Solve, Thinks
from truthgym.datasets.question import Question, question, sample
from truthgym.solvers.prepare import prepare

ROOT = Path(__file__).parent.parent
settings.register_profile("truthgym", deadline=None)  # a busy machine is no failure
settings.load_profile("truthgym")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of torch cost tiny models more than they help
# Inspect asks in each eval which package has a task; of one that is installed with -e, it reads all there are.
vars(sys.modules["inspect_ai._util.package"])["packages_distributions"] = cache(packages_distributions)
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


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a task as `inspect eval` does and return its log. The run must succeed."""

    def run_task(task: Task | str, model: str | Model = "reference/bayesian", **arguments: Any) -> EvalLog:
        logs = eval(task, model=model, log_dir=str(tmp_path / "logs"), **{**QUIET, "score_display": False, **arguments})
        assert logs[0].status == "success", logs[0].error
        return logs[0]

    return run_task


@pytest.fixture
def fails(tmp_path: Path) -> Fails:
    """Run a task that must fail, and return the error in its log."""

    def run_task(task: Task | str, model: str | Model = "reference/bayesian", **arguments: Any) -> str:
        logs = eval(task, model=model, log_dir=str(tmp_path / "logs"), **{**QUIET, "score_display": False, **arguments})
        assert logs[0].status == "error"
        assert logs[0].error
        return logs[0].error.message.replace("\\", "")  # a BadInput escapes brackets, which Inspect prints with rich

    return run_task


@pytest.fixture
def says() -> Says:
    """Make a mock model that replies with a text, or with what a function of the conversation returns."""

    def make(reply: Reply) -> Model:
        def generate(messages: list[ChatMessage], *_: Any) -> ModelOutput:
            output = reply(messages) if callable(reply) else reply
            output = ModelOutput.from_content("mockllm/model", output) if isinstance(output, str) else output
            # Without usage, Inspect would download a tokenizer.
            output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
            return output

        return get_model("mockllm/model", custom_outputs=generate, memoize=False)

    return make


@pytest.fixture
def plain() -> Plain:
    """A reply that states a belief of 0.6 in the requested form, or says nothing if no belief is requested."""

    def reply(messages: list[ChatMessage]) -> str:
        request = messages[-1].text
        if "whole number from 0 to 100" in request:
            return "60%"
        return r"I think so. \finalBeliefProb{0.6}" if "finalBeliefProb" in request else "Hm."

    return reply


@pytest.fixture
def listens(says: Says, plain: Plain) -> Listens:
    """Make a mock model, and the list of the conversations that it is sent, one per call."""

    def make(reply: Reply = plain) -> tuple[Model, Heard]:
        heard: Heard = []

        def output(messages: list[ChatMessage]) -> str | ModelOutput:
            heard.append(list(messages))
            return reply(messages) if callable(reply) else reply

        return says(output), heard

    return make


@pytest.fixture
def thinks() -> Thinks:
    """Make a reasoning model's output: reasoning content, then the reply."""

    def make(text: str, *reasoning: ContentReasoning) -> ModelOutput:
        message = ChatMessageAssistant(content=[*reasoning, ContentText(text=text)], source="generate")
        return ModelOutput.from_message(message)

    return make


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment for a subprocess: the user's, without PYTHONPATH."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "INSPECT_LOG_DIR")}


@pytest.fixture
def rain() -> Rain:
    """Make a small question with three pieces of evidence."""

    def make(**fields: Any) -> Sample:
        evidence = ["It thundered.", "It cleared.", "Clouds came."]
        given = {"domain": "test", "event": "e", "proposition": "It rains.", "evidence": evidence} | fields
        return sample("q", "Will it rain?", "yes", question(Question, "q", **given), "q")

    return make


@pytest.fixture
def solve(run: Run) -> Solve:
    """Let a solver work on one question with a model, and return the sample of the last epoch."""

    def run_solver(
        model: Model,
        solver: Solver | list[Solver],
        item: Sample,
        epochs: int = 1,
        prompt: str | None = None,
        **arguments: Any,
    ) -> EvalSample:
        log = run(Task(dataset=[item], setup=prepare(prompt), solver=solver, epochs=epochs), model, **arguments)
        assert log.samples
        return log.samples[-1]

    return run_solver


@pytest.fixture
def number() -> Number:
    """Read one number of a sample's score."""

    def read(done: EvalSample, scorer: str, key: str) -> float:
        assert done.scores
        values = done.scores[scorer].value
        assert isinstance(values, dict)
        value = values[key]
        assert isinstance(value, int | float)
        return value

    return read


@pytest.fixture
def reason() -> Reason:
    """The reason why a scorer left a sample unscored. All its values must be NaN."""

    def read(done: EvalSample, scorer: str) -> str:
        assert done.scores
        values = done.scores[scorer].value
        assert isinstance(values, dict)
        assert all(isinstance(value, float) and math.isnan(value) for value in values.values()), values
        return str((done.scores[scorer].metadata or {})["reason"])

    return read
