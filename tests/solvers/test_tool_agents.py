"""Agents of several turns and contexts, on a simulated agent with the tools of an invented country."""

from typing import Any

import pytest
from inspect_ai.agent import handoff, react
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import ChatMessage, ChatMessageTool, ModelOutput
from inspect_ai.util import Store

from tests.fixtures import Run, metrics, samples, says
from truthgym.datasets.errors import BadInput
from truthgym.solvers.agent_tools.tools import SampleTools
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.scratchpad import first_words
from truthgym.solvers.trajectory import recorded_answer, recorded_steps
from truthgym.solvers.workers import LABELS
from truthgym.tasks.agents import agent_bench_mini


def play(run: Run, agent: str, **arguments: Any) -> tuple[EvalLog, list[EvalSample]]:
    solver = run_agent(f"truthgym/{agent}", arguments)
    log = run(agent_bench_mini(n=2), "reference/bayesian", solver=solver, score_display=False)
    return log, samples(log)


@pytest.mark.parametrize("agent", ["plan_and_execute", "planner_team"])
def test_a_plan_leads_to_the_answer_with_no_needless_call(run: Run, agent: str) -> None:
    log, _ = play(run, agent)
    assert metrics(log, 0)["answer"] == 1
    assert metrics(log, 0)["process"] == 1


def test_the_plan_is_revised_after_each_result(run: Run) -> None:
    _, samples = play(run, "plan_and_execute")
    for sample in samples:
        results = [i for i, message in enumerate(sample.messages) if message.role == "tool"]
        assert results
        assert all("write the plan anew" in sample.messages[i + 1].text for i in results)


def test_the_synthesiser_sees_the_reports_and_has_no_tools(run: Run) -> None:
    _, samples = play(run, "planner_team")
    for sample in samples:
        assert [message.role for message in sample.messages[-2:]] == ["user", "assistant"]
        assert "answers:" in sample.messages[-2].text
        calls = [event for event in sample.events if event.event == "model"]
        assert not calls[-1].tools


def test_notes_are_cut_at_their_length(run: Run) -> None:
    log, samples = play(run, "scratchpad", words=400)
    assert metrics(log, 0)["answer"] == 1
    assert all("found so far" in sample.messages[-2].text for sample in samples)
    assert all("(I call" in sample.messages[-2].text for sample in samples)
    short, _ = play(run, "scratchpad", words=3, steps=3)
    assert metrics(short, 0)["answer"] == 0
    assert first_words("one\ntwo three", 2) == "one\ntwo"
    assert first_words("one\ntwo", 2) == "one\ntwo"


def test_workers_who_see_each_others_calls_repeat_none(run: Run) -> None:
    shared, samples = play(run, "workers")
    assert [sample.store[LABELS]["redundant"] for sample in samples] == [0, 0]
    isolated, apart = play(run, "workers", ledger="isolated")
    assert all(sample.store[LABELS]["redundant"] > 0 for sample in apart)
    assert metrics(shared, 0)["process"] == 1 > metrics(isolated, 0)["process"]
    labels = ((apart[0].scores or {})["agent_answer"].metadata or {})["labels"]
    assert labels == apart[0].store[LABELS]


def test_workers_who_answer_differently_contradict_each_other(run: Run) -> None:
    texts = iter(["Nothing to do.", "Nothing to do.", *(f"Answer: {name} \\finalBeliefProb{{0.5}}" for name in "ABA")])

    def reply(messages: list[ChatMessage]) -> ModelOutput:
        return ModelOutput.from_content("mockllm/model", next(texts))

    log = run(agent_bench_mini(n=1), says(reply), solver=run_agent("truthgym/workers"))
    assert samples(log)[0].store[LABELS] == {"redundant": 0, "contradiction": 1, "overruled": 1}


@pytest.mark.parametrize("agent", ["plan_and_execute", "planner_team", "scratchpad", "workers"])
def test_beliefs_are_asked_for_at_each_step_of_a_team(run: Run, agent: str) -> None:
    """What it believes after the last call is the exact probability, and before the first the stated chance."""
    task = agent_bench_mini(n=2, paradigms={"martingale": {"per": "step"}, "agent_answer": {}})
    log = run(task, "reference/bayesian", solver=run_agent(f"truthgym/{agent}"), score_display=False)
    for sample in samples(log):
        scores = sample.scores or {}
        path = (scores["agent_answer"].metadata or {})["exact_path"]
        elicited = (scores["martingale"].metadata or {})["beliefs"]
        stated = [one["value"] for one in elicited if one["stage"].startswith("step")]
        assert len(stated) >= len(path) - 1
        assert stated[-1] == pytest.approx(path[-1], abs=0.011)
        assert elicited[-1]["value"] == pytest.approx(path[-1], abs=0.011)
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
