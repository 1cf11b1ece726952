"""Any agent on mock models: what it is given, what is kept of its work, and how it may come to no answer."""

from typing import Any

import pytest
from inspect_ai.agent import Agent, AgentState, agent, react
from inspect_ai.log import EvalSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.tool import Tool, tool

from tests.fixtures import Solve, details, listens, number, plain, rain, reason, says
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import martingale
from truthgym.solvers.direct import direct
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.trajectory import OUT_OF_CONTEXT, Trajectory

ANSWER = r"\finalBeliefProb{0.8}"


@tool
def look() -> Tool:
    async def execute() -> str:
        """Look at the sky."""
        return "Clouds."

    return execute


def looks_and_submits(messages: list[ChatMessage]) -> ModelOutput:
    """Look at the sky first, then hand in an answer."""
    if not any(m.role == "tool" for m in messages):
        return ModelOutput.for_tool_call("mockllm/model", "look", {}, content="Let me look.")
    return ModelOutput.for_tool_call("mockllm/model", "submit", {"answer": ANSWER}, content="It will rain.")


def steps(sample: EvalSample) -> list[tuple[str, str, bool, str]]:
    return [(s.role, s.kind, s.trainable, s.text) for s in sample.store_as(Trajectory).steps]


def test_an_agent_is_given_what_direct_gives(solve: Solve) -> None:
    model, requests = listens(looks_and_submits)
    solve(model, run_agent(react(tools=[look()])), rain())
    plain, heard_directly = listens("Hm.")
    solve(plain, direct(), rain())
    assert [m.text for m in requests[0] if m.role == "user"] == [heard_directly[0][0].text]


def test_the_last_message_of_an_agent_is_its_answer(solve: Solve) -> None:
    model, requests = listens(looks_and_submits)
    sample = solve(model, run_agent(react(prompt="Use tools.", tools=[look()])), rain(), prompt="Think.")
    assert len(requests) == 2
    *earlier, last = steps(sample)
    assert [(role, kind, trainable) for role, kind, trainable, _ in earlier] == [
        ("system", "auxiliary", False),
        ("system", "auxiliary", False),
        ("user", "auxiliary", False),
        ("assistant", "reasoning", True),
        ("tool", "auxiliary", False),
    ]
    assert [text for *_, text in earlier[3:]] == ["Let me look.", "Clouds."]
    assert last == ("assistant", "answer", True, f"It will rain.\n\n{ANSWER}")
    texts = {m.id: m.text for m in sample.messages}
    assert [texts[s.message_id] for s in sample.store_as(Trajectory).steps] == [text for *_, text in steps(sample)]
    assert [m.id for m in sample.messages] == [s.message_id for s in sample.store_as(Trajectory).steps], "in order"


def test_what_an_agent_thought_is_reasoning_of_its_own(solve: Solve) -> None:
    def reply(messages: list[ChatMessage]) -> ModelOutput:
        output = looks_and_submits(messages)
        thought = ContentReasoning(reasoning=f"I thought {len(messages)}.")
        output.choices[0].message.content = [thought, ContentText(text=output.completion)]
        return output

    sample = solve(says(reply), run_agent(react(prompt=None, tools=[look()])), rain())
    wrote = [(kind, trainable, text) for role, kind, trainable, text in steps(sample) if role == "assistant"]
    # the thought before handing in is not kept: Inspect takes it out of the conversation with the tool call
    assert wrote[:2] == [("reasoning", True, "I thought 1."), ("reasoning", True, "Let me look.")]
    assert [kind for kind, *_ in wrote[2:]] == ["answer"]


def test_scorers_read_what_an_agent_leaves(solve: Solve) -> None:
    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        return plain(messages) if "whole number" in messages[-1].text else looks_and_submits(messages)

    scorers = [brier(), martingale(per="step")]
    sample = solve(says(reply), run_agent(react(tools=[look()])), rain(), scorers=scorers)
    assert number(sample, "brier", "belief") == 0.8
    beliefs = details(sample, "martingale")["beliefs"]
    assert [(b["stage"], b["value"]) for b in beliefs] == [("prior", 0.6), ("step 1", 0.6), ("posterior", 0.6)]


@agent
def adds(*messages: ChatMessage) -> Agent:
    """Add these messages, without a model, as a person or another program does."""

    async def execute(state: AgentState) -> AgentState:
        state.messages.extend(messages)
        return state

    return execute


def test_an_agent_need_not_call_a_model(solve: Solve) -> None:
    model, requests = listens()
    answers = run_agent(adds(ChatMessageAssistant(content=ANSWER)))
    assert steps(solve(model, answers, rain()))[1:] == [("assistant", "answer", False, ANSWER)]
    assert not requests


def test_what_other_models_say_for_an_agent_is_not_trained_on(solve: Solve) -> None:
    @agent
    def hands_over() -> Agent:
        """Ask another model, and then the evaluated one."""

        async def execute(state: AgentState) -> AgentState:
            other = get_model("mockllm/other", custom_outputs=[with_usage("Perhaps.")], memoize=False)
            state.messages.append((await other.generate(state.messages)).message)
            state.output = await get_model().generate(state.messages)
            state.messages.append(state.output.message)
            return state

        return execute

    model, _ = listens(ANSWER)
    sample = solve(model, run_agent(hands_over()), rain())
    summary = [(step.text, step.trainable, step.speaker) for step in sample.store_as(Trajectory).steps[1:]]
    assert summary == [("Perhaps.", False, "mockllm/other"), (ANSWER, True, None)]


def with_usage(text: str) -> ModelOutput:
    output = ModelOutput.from_content("mockllm/other", text)
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


@agent
def speaks(times: int = 1, instead: str = "") -> Agent:
    """Let the model speak so often, one reply after the other, of the question or of another wording of it."""

    async def execute(state: AgentState) -> AgentState:
        state.messages = [ChatMessageUser(content=instead)] if instead else state.messages
        for _ in range(times):
            state.output = await get_model().generate(state.messages)
            state.messages.append(state.output.message)
        return state

    return execute


def test_an_agent_may_rewrite_the_conversation(solve: Solve) -> None:
    """As one does that compacts its conversation."""
    sample = solve(says(ANSWER), run_agent(speaks(instead="In short: rain?")), rain())
    assert steps(sample) == [("user", "auxiliary", False, "In short: rain?"), ("assistant", "answer", True, ANSWER)]


@pytest.mark.parametrize(
    ("solver", "calls"),
    [
        (run_agent(adds()), 0),
        (run_agent(adds(ChatMessageUser(content="50%"))), 0),
        (run_agent("react", {"submit": False, "prompt": None}), 1),
    ],
    ids=["nothing", "words to it", "an empty reply"],
)
def test_an_agent_that_stops_without_an_answer_is_unscored(solve: Solve, solver: Any, calls: int) -> None:
    model, requests = listens("")
    sample = solve(model, solver, rain(), scorers=[brier(), martingale()])
    assert len(requests) == calls, "and no belief is asked for"
    assert sample.store_as(Trajectory).ended == reason(sample, "brier") == "The agent stopped without an answer."


@pytest.mark.parametrize("arguments", [{}, {"submit": False}])
@pytest.mark.parametrize(
    ("stop", "message"),
    [
        ("content_filter", "The agent refused: its provider filtered the reply."),
        ("model_length", OUT_OF_CONTEXT.format(who="The agent")),
    ],
)
def test_a_refusal_is_not_an_agents_answer(solve: Solve, stop: Any, message: str, arguments: dict[str, Any]) -> None:
    model, requests = listens(lambda _: ModelOutput.from_content("mockllm/model", "Too long.\n\n50%", stop_reason=stop))
    sample = solve(model, run_agent(react(prompt=None, **arguments)), rain(), scorers=[brier(), martingale()])
    tries = 3 if stop == "content_filter" and not arguments else 1
    assert len(requests) == tries, "react tries three times; no probe after"
    assert sample.store_as(Trajectory).ended == message
    wrote = [kind for role, kind, *_ in steps(sample) if role == "assistant"]
    assert wrote == ["reasoning"] * (len(requests) - 1), "the last refusal is no step, least of all an answer"
    assert reason(sample, "brier") == message
    assert message in reason(sample, "martingale")


def test_a_reply_before_a_refusal_is_not_made_the_answer(solve: Solve) -> None:
    def reply(messages: list[ChatMessage]) -> ModelOutput:
        return ModelOutput.from_content("m", "60%", stop_reason="stop" if len(messages) == 1 else "content_filter")

    model, requests = listens(reply)
    sample = solve(model, run_agent(speaks(2)), rain())
    assert len(requests) == 2
    assert steps(sample)[1:] == [("assistant", "reasoning", True, "60%")]
    assert (sample.store_as(Trajectory).ended or "").startswith("The agent refused")


@pytest.mark.parametrize("limit", [{"message_limit": 5}, {"token_limit": 3}])
def test_a_limit_keeps_what_the_agent_wrote_until_then(solve: Solve, limit: dict[str, int]) -> None:
    def looks_on(messages: list[ChatMessage]) -> ModelOutput:
        return ModelOutput.for_tool_call("mockllm/model", "look", {}, content="60%")

    solver = run_agent(react(prompt=None, tools=[look()]))
    sample = solve(says(looks_on), solver, rain(), scorers=[brier()], **limit)
    assert sample.limit
    assert reason(sample, "brier") == "The reasoning was cut short before an answer."
    kept = [(role, kind, text) for role, kind, _, text in steps(sample)[1:3]]
    assert kept == [("assistant", "reasoning", "60%"), ("tool", "auxiliary", "Clouds.")]
    assert "answer" not in [kind for _, kind, *_ in steps(sample)]
