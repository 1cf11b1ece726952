"""Agents of several turns and contexts, on a simulated agent with the tools of an invented country."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from inspect_ai.agent import handoff, react
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, ChatMessageTool, ModelOutput
from inspect_ai.util import Store

from tests.fixtures import Run, details, metrics, samples, says
from truthgym.datasets.errors import BadInput
from truthgym.solvers.agent_tools.tools import SampleTools
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.scratchpad import first_words
from truthgym.solvers.trajectory import recorded_answer, recorded_steps
from truthgym.solvers.workers import LABELS
from truthgym.tasks.agents import agent_bench_mini


@pytest.fixture(scope="module")
def play(run_once: Run) -> Callable[..., EvalLog]:
    """What a team does, and believes at each step."""

    @cache
    def logged(agent: str, **arguments: Any) -> EvalLog:
        task = agent_bench_mini(n=2, paradigms={"martingale": {"per": "step"}, "agent_answer": {}})
        solver = run_agent(f"truthgym/{agent}", arguments)
        return run_once(task, "reference/bayesian", solver=solver, score_display=False)

    return logged


Play = Callable[..., EvalLog]
TEAMS = ["plan_and_execute", "planner_team", "scratchpad", "workers"]


@pytest.mark.parametrize("agent", TEAMS)
def test_a_team_finds_the_answer_and_a_plan_makes_no_needless_call(play: Play, agent: str) -> None:
    found = metrics(play(agent))
    assert found["answer"] == 1
    assert found["process"] == 1 or agent == "scratchpad"


def test_the_plan_is_revised_after_each_result(play: Play) -> None:
    for sample in samples(play("plan_and_execute")):
        results = [i for i, message in enumerate(sample.messages) if message.role == "tool"]
        assert results
        assert all("write the plan anew" in sample.messages[i + 1].text for i in results)


def test_the_synthesiser_sees_the_reports_and_has_no_tools(play: Play) -> None:
    for sample in samples(play("planner_team")):
        assert [message.role for message in sample.messages[-2:]] == ["user", "assistant"]
        assert "answers:" in sample.messages[-2].text
        spans = {event.id for event in sample.events if event.event == "span_begin" and event.type == "scorer"}
        calls = [event for event in sample.events if event.event == "model" and event.span_id not in spans]
        assert not calls[-1].tools


def test_notes_are_cut_at_their_length(play: Play) -> None:
    for sample in samples(play("scratchpad", words=400)):
        assert "found so far" in sample.messages[-2].text
        assert "(I call" in sample.messages[-2].text
    assert metrics(play("scratchpad", words=3, steps=3))["answer"] == 0
    assert first_words("one\ntwo three", 2) == "one\ntwo"
    assert first_words("one\ntwo", 2) == "one\ntwo"


def test_workers_who_see_each_others_calls_repeat_none(play: Play) -> None:
    assert [sample.store[LABELS]["redundant"] for sample in samples(play("workers"))] == [0, 0]
    isolated = play("workers", ledger="isolated")
    assert all(sample.store[LABELS]["redundant"] > 0 for sample in samples(isolated))
    assert metrics(isolated)["process"] < 1
    assert details(samples(isolated)[0], "agent_answer")["labels"] == samples(isolated)[0].store[LABELS]


def test_workers_who_answer_differently_contradict_each_other(run: Run) -> None:
    texts = iter(["Nothing to do.", "Nothing to do.", *(f"Answer: {name} \\finalBeliefProb{{0.5}}" for name in "ABA")])

    def reply(messages: list[ChatMessage]) -> ModelOutput:
        return ModelOutput.from_content("mockllm/model", next(texts))

    log = run(agent_bench_mini(n=1), says(reply), solver=run_agent("truthgym/workers"))
    assert samples(log)[0].store[LABELS] == {"redundant": 0, "contradiction": 1, "overruled": 1}


@pytest.mark.parametrize("agent", TEAMS)
def test_beliefs_are_asked_for_at_each_step_of_a_team(play: Play, agent: str) -> None:
    """What it believes after the last call is the exact probability, and before the first the stated chance."""
    for sample in samples(play(agent)):
        path, elicited = details(sample, "agent_answer")["exact_path"], details(sample, "martingale")["beliefs"]
        stated = [one["value"] for one in elicited if one["stage"].startswith("step")]
        assert len(stated) >= len(path) - 1
        assert (stated[-1], elicited[-1]["value"]) == pytest.approx((path[-1], path[-1]), abs=0.011)
        assert elicited[0]["value"] == pytest.approx(path[0], abs=0.006)


@pytest.mark.parametrize("submit", [False, True])
def test_an_agent_may_hand_off_to_one_that_has_the_tools(run: Run, submit: bool) -> None:
    """Inspect's `handoff`: without `submit` the other's reply is the answer, with it the first agent submits one."""

    def reply(messages: list[ChatMessage]) -> ModelOutput:
        if not any(isinstance(message, ChatMessageTool) for message in messages):
            return ModelOutput.for_tool_call("mockllm/model", "transfer_to_reader", {})
        replies = "\n\n".join(message.text for message in messages if message.role == "assistant")
        return ModelOutput.for_tool_call("mockllm/model", "submit", {"answer": replies[replies.index("Answer: ") :]})

    reader = react(name="reader", description="Reads the archive.", tools=[SampleTools()], submit=False)
    first = react(tools=[handoff(reader)], submit=None if submit else False, model=says(reply))
    log = run(agent_bench_mini(n=2), "reference/bayesian", solver=run_agent(first), message_limit=40)
    assert metrics(log, 0)["answer"] == 1
    assert metrics(log, 0)["process"] == 1
    for sample in samples(log):
        assert any(isinstance(one, ChatMessageTool) and one.function == "transfer_to_reader" for one in sample.messages)
        answer = recorded_answer(Store(sample.store))
        assert answer
        assert submit or "[reader]" not in answer
        # Inspect wrote the reader's calls as text, which training must not imitate.
        rewritten = {one.id for one in sample.messages if one.role == "assistant" and "[reader]" in one.text}
        steps = recorded_steps(Store(sample.store))
        assert rewritten
        assert not any(step.trainable for step in steps if step.message_id in rewritten)


def test_an_unknown_agent_or_ledger_is_refused() -> None:
    with pytest.raises(BadInput, match="agent='truthgym/oracle' .*cannot be used"):
        run_agent("truthgym/oracle")
    with pytest.raises(BadInput, match="ledger"):
        run_agent("truthgym/workers", {"ledger": "lost"})
