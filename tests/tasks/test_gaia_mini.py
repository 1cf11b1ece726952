"""GAIA mini from one end to the other, on agents whose score is known."""

import pytest
from inspect_ai import eval
from inspect_ai.log import EvalLog

from tests.fixtures import Fails, Listens, metrics
from truthgym.tasks.agents import gaia_mini

AGENTS = ("oracle", "no_tool", "inventing", "refusing")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, EvalLog]:
    def play(name: str) -> EvalLog:
        folder = str(tmp_path_factory.mktemp(name))
        model = f"reference/{name}"
        return eval(gaia_mini(n=3, seed=1), model=model, display="log", log_dir=folder, log_realtime=False)[0]

    return {name: play(name) for name in AGENTS}


def test_an_oracle_is_right_with_no_needless_call(logs: dict[str, EvalLog]) -> None:
    found = metrics(logs["oracle"], 0)
    assert (found["answer"], found["process"], found["share_scored"]) == (1, 1, 1)


@pytest.mark.parametrize("agent", ["no_tool", "inventing", "refusing"])
def test_an_agent_that_does_not_look_is_right_about_nothing(logs: dict[str, EvalLog], agent: str) -> None:
    found = metrics(logs[agent], 0)
    assert found["answer"] <= 0.05
    assert found["process"] == 0
    assert found["share_scored"] == 1


def test_beliefs_tell_knowledge_from_refusal(logs: dict[str, EvalLog]) -> None:
    scores = {name: metrics(logs[name], 1)["brier"] for name in AGENTS}
    assert scores["oracle"] < 0.05
    assert scores["refusing"] > 0.9


def test_python_needs_a_sandbox_before_the_first_call(fails: Fails, listens: Listens) -> None:
    model, heard = listens()
    assert "--sandbox docker" in fails(gaia_mini(n=1, python=True), model)
    assert not heard
