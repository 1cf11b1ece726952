"""Logs and tables that the tests of several analyses share."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
from inspect_ai import Task, score
from inspect_ai.dataset import Sample
from inspect_ai.log import write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match

from tests.fixtures import evaluate, made_once
from truthgym.analysis.site import build
from truthgym.scorers.brier import brier
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a site that a test builds, charts load from a CDN: pictures and the bundle take half of the time."""
    monkeypatch.setattr(build, "find_spec", lambda name: None)


@pytest.fixture(scope="session")
def urn_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents on 40 urn questions in 2 epochs, with all figures of `brier`."""
    task = urns(n=40, paradigms={"brier": {"figures": "all"}, "martingale": {}})
    models = [get_model("reference/bayesian", noise=0.1), get_model("reference/overreacting", strength=1, noise=0.05)]
    return made_once(tmp_path_factory, "urn_logs", lambda folder: evaluate(task, models, folder, epochs=2))


@pytest.fixture(scope="session")
def mixed_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on urns by chain of thought, one of which is at times silent, and a task that is not ours."""
    return made_once(tmp_path_factory, "mixed_logs", write_mixed_logs)


def write_mixed_logs(folder: Path) -> None:
    task = urns(n=6, paradigms={"brier": {}, "martingale": {"per": "step"}})
    models = [get_model("reference/bayesian", noise=0.1), get_model("reference/bayesian", min_confidence=0.25)]
    logs = evaluate(task, models, folder, solver=chain_of_thought(steps=2), epochs=2)
    write_eval_log(score(logs[0], brier(read="token"), display="log"), logs[0].location)
    reply = ModelOutput.from_content("mockllm/model", "Perhaps 12.5 or 3, likely: right")
    reply.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    plain = Task(dataset=[Sample(id=7, input="Which?", target="right")], scorer=match(), name="plain")
    evaluate(plain, get_model("mockllm/model", custom_outputs=[reply]), folder)


Tables = Callable[..., None]


@pytest.fixture
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Tables:
    """Let `load` of the analysis that a file tests read these rows instead of logs."""
    module = import_module(f"truthgym.analysis.{request.module.__name__.rpartition('test_')[2]}")
    return lambda *frames: monkeypatch.setattr(module, "answers", lambda *_, **__: pd.concat(frames))
