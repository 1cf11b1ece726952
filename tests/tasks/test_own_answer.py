"""Belief in the model's own answer, through the real tasks: known Brier scores, attacks, and bad input."""

from typing import Any

import numpy as np
import pytest
from inspect_ai import Task, eval, score
from inspect_ai.log import EvalLog
from inspect_ai.model import get_model

from tests.fixtures import Fails, Run, Says, metrics
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import OWN_ANSWER
from truthgym.scorers.agent_answer import agent_answer
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import martingale
from truthgym.tasks.agent_bench_mini import agent_bench_mini
from truthgym.tasks.code_repair import code_repair
from truthgym.tasks.fact_chains import fact_chains
from truthgym.tasks.gaia_mini import gaia_mini
from truthgym.tasks.urns import urns

OWN: dict[str, Any] = {"about": "own_answer", "figures": "all"}
SLIP = 0.2


def play(task: Task, agent: str, **planted: Any) -> EvalLog:
    model = get_model(f"reference/{agent}", **planted)
    log = eval(task, model=model, display="log", log_realtime=False, score_display=False, log_format="json")[0]
    assert log.status == "success", log.error
    return log


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, EvalLog]:
    place = str(tmp_path_factory.mktemp("walks"))
    found = {}
    for name, own in (("calibrated", {}), ("sure", {"own_belief": 1.0}), ("half", {"own_belief": 0.5})):
        task = fact_chains(n=120, hops=(1, 3), paradigms={"brier": OWN, "agent_answer": {}})
        model = get_model("reference/walker", slip=SLIP, **own)
        arguments: dict[str, Any] = {"display": "log", "log_realtime": False, "score_display": False, "log_dir": place}
        found[name] = eval(task, model=model, **arguments)[0]
        assert found[name].status == "success"
    return found


def test_a(walks):
    for name, log in walks.items():
        print(name, {k: v.value for s in log.results.scores for k, v in s.metrics.items() if k in ("brier","brier_lower","brier_upper","calibration_slope","calibration_intercept","murphy_reliability","ece","ece_null","n","share_scored","answer","skill_base_rate")})
    print(walks["sure"].stats.started_at, walks["sure"].stats.completed_at)
    assert 0
