"""Uplift against a budget of tokens, of answers whose worth is known."""

import math
from pathlib import Path

import pytest
from inspect_ai.log import read_eval_log
from inspect_ai.model import get_model

from tests.fixtures import evaluate, metrics
from truthgym.analysis import frontier
from truthgym.datasets.errors import BadInput
from truthgym.tasks.world_in_the_loop import world_in_the_loop

N = 6


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frontier")
    task = world_in_the_loop(domain="urns", n=N, budgets="3,1000", per="observation")
    roles = {"forecaster": get_model("reference/forecaster")}
    evaluate(task, "reference/bayesian", folder, model_roles=roles, epochs=2)
    return folder


def test_three_tokens_say_nothing_and_a_long_budget_is_the_whole(logs: Path) -> None:
    frame = frontier.load(logs).set_index("budget")
    assert list(frame.index) == ["3", "1000", "whole"]
    assert (frame["n"] == N).all()
    assert frame["tokens"]["3"] == 3 < frame["tokens"]["whole"] == frame["tokens"]["1000"]
    assert frame["uplift"]["3"] == pytest.approx(0, abs=1e-6)
    assert frame["uplift"]["1000"] == pytest.approx(frame["uplift"]["whole"], abs=1e-5)
    [path] = logs.glob("*.eval")
    figures = metrics(read_eval_log(str(path), header_only=True))
    assert frame["uplift"]["whole"] == pytest.approx(figures["world_uplift"], abs=1e-5)
    assert frame["lower"]["whole"] == pytest.approx(figures["world_uplift_lower"], abs=1e-5)
    assert not math.isclose(frame["uplift"]["whole"], 0, abs_tol=1e-3)


def test_the_page_has_every_point(logs: Path) -> None:
    frame = frontier.load(logs)
    spec = frontier.chart(frame).to_dict()
    assert max(map(len, spec["datasets"].values())) == 3
    page = frontier.report(frame, "frontier.svg")
    assert "*n = 6 questions, 95 % intervals.*" in page
    assert page.count("\n| reference/bayesian |") == 3


def test_logs_without_budgets(urn_logs: Path) -> None:
    with pytest.raises(BadInput, match=r"no answer was scored by world_uplift with budgets; .*budgets=50,200"):
        frontier.load(urn_logs)
