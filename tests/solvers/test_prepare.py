"""The setup of every task: the system prompt, by name or as text, the epoch on every message, and the roles."""

from socket import create_server

import pytest
from inspect_ai.model import get_model

from tests.fixtures import Fails, Solve, listens, rain, says, task_of
from truthgym.solvers.direct import direct
from truthgym.solvers.prepare import PRESETS, system_message
from truthgym.solvers.roles import required_server


def test_the_system_prompt_comes_first(solve: Solve) -> None:
    sample = solve(says("Hm."), direct(), rain(), prompt="Think.")
    assert (sample.messages[0].role, sample.messages[0].text) == ("system", "Think.")
    assert [m.role for m in solve(says("Hm."), direct(), rain()).messages] == ["user", "assistant"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_system_prompt_by_name_is_set_as_its_text(solve: Solve, name: str) -> None:
    model, requests = listens()
    solve(model, direct(), rain(), prompt=name)
    assert [m.text for m in requests[0] if m.role == "system"] == ([] if name == "none" else [PRESETS[name]])


@pytest.mark.parametrize("prompt", ["Think critically.", "critical thinking", "Be terse.", "Bedenke!", "Think"])
def test_other_text_is_the_system_prompt_itself(prompt: str) -> None:
    assert system_message(prompt) == prompt


def test_a_role_that_a_scorer_needs_is_checked_before_any_call(fails: Fails) -> None:
    model, requests = listens()
    message = fails(task_of(rain(), direct(), roles=["judge"]), model)
    assert "A scorer of this task needs the role judge, and no model has it; add --model-role judge=MODEL" in message
    assert not requests


@pytest.mark.parametrize("role", ["evaluated", "judge"])
def test_a_server_that_is_not_there_is_refused_before_any_call(
    fails: Fails, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    absent = get_model("openai-api/nobody/model", base_url=address, api_key="none")
    model, requests = listens()
    task = task_of(rain(), direct(), roles=["judge"])
    given = {"evaluated": (absent, model), "judge": (model, absent)}[role]
    error = fails(task, given[0], model_roles={"judge": given[1]}, max_retries=0)
    assert f"openai-api/nobody/model: no server answers at {address} (Connection refused); start it" in error
    assert not requests
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    required_server(absent)
