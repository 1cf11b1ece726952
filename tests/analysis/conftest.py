"""Logs that the tests of several analyses share."""

from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval, score
from inspect_ai.dataset import Sample
from inspect_ai.log import write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match

from truthgym.scorers.brier import brier
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns


@pytest.fixture(scope="session")
def urn_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents on 40 urn questions in 2 epochs, with all figures of `brier`."""
    folder = tmp_path_factory.mktemp("urns")
    task = urns(n=40, paradigms={"brier": {"figures": "all"}, "martingale": {}})
    models = [get_model("reference/bayesian", noise=0.1), get_model("reference/overreacting", strength=1, noise=0.05)]
    eval(task, model=models, epochs=2, log_dir=str(folder), display="log", log_realtime=False)
    return folder


@pytest.fixture(scope="session")
def mixed_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on urns by chain of thought, one of which is at times silent, and a task that is not ours."""
    folder = tmp_path_factory.mktemp("tables")
    options: dict[str, Any] = {"display": "log", "log_dir": str(folder), "log_realtime": False}
    task = urns(n=6, paradigms={"brier": {}, "martingale": {"per": "step"}})
    models = [get_model("reference/bayesian", noise=0.1), get_model("reference/bayesian", min_confidence=0.25)]
    logs = eval(task, model=models, solver=chain_of_thought(steps=2), epochs=2, **options)
    write_eval_log(score(logs[0], brier(read="token"), display="log"), logs[0].location)
    reply = ModelOutput.from_content("mockllm/model", "Perhaps 12.5 or 3, likely: right")
    reply.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    plain = Task(dataset=[Sample(id=7, input="Which?", target="right")], scorer=match(), name="plain")
    eval(plain, model=get_model("mockllm/model", custom_outputs=[reply]), **options)
    return folder
