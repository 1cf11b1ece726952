"""Logs that the tests of several analyses share."""

from pathlib import Path

import pytest
from inspect_ai import eval
from inspect_ai.model import get_model

from truthgym.tasks.urns import urns


@pytest.fixture(scope="session")
def urn_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents on 40 urn questions in 2 epochs, with all figures of `brier`."""
    folder = tmp_path_factory.mktemp("urns")
    task = urns(n=40, paradigms={"brier": {"figures": "all"}, "martingale": {}})
    models = [get_model("reference/bayesian", noise=0.1), get_model("reference/overreacting", strength=1, noise=0.05)]
    eval(task, model=models, epochs=2, log_dir=str(folder), display="log", log_realtime=False)
    return folder
