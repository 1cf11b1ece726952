"""Context ablation: an agent that sees the last few results of its tools alone."""

from collections.abc import Sequence

from inspect_ai.agent import Agent, AgentState, agent, react
from inspect_ai.model import ChatMessage, ChatMessageTool, get_model
from inspect_ai.tool import Tool

from truthgym.solvers.agent_tools.tools import SampleTools

REMOVED = "(This result is no longer shown.)"


def forgetful(results: int) -> Agent:
    """Inspect's `react` with the question's tools, whose model sees the last results of tools alone.

    All that the model wrote itself stays: what it noted, it keeps. The log has the whole conversation.
    """

    @agent(name="forgetful")
    def generator() -> Agent:
        async def execute(state: AgentState, tools: list[Tool]) -> AgentState:
            """Generate a reply."""
            state.output = await get_model().generate(last_results(state.messages, results), tools)
            state.messages.append(state.output.message)
            return state

        return execute

    return react(tools=[SampleTools()], submit=False, model=generator())


def last_results(messages: Sequence[ChatMessage], results: int) -> list[ChatMessage]:
    """The messages of a conversation, with the text of all but the last results of tools removed."""
    tools = [i for i, message in enumerate(messages) if isinstance(message, ChatMessageTool)]
    removed = set(tools[: max(len(tools) - results, 0)])
    return [
        message.model_copy(update={"content": REMOVED, "error": None}) if i in removed else message
        for i, message in enumerate(messages)
    ]
