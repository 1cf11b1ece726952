"""What agents that are made of several turns share: to ask, to let the model act once, and to ask for the answer."""

from collections.abc import Sequence
from typing import Literal

from inspect_ai.agent import Agent, AgentState, agent, react
from inspect_ai.model import ChatMessage, ChatMessageTool, execute_tools, get_model
from inspect_ai.tool import Tool

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import ASKED
from truthgym.solvers.agent_tools.tools import SampleTools
from truthgym.solvers.direct import answer_instruction
from truthgym.solvers.local_model import in_turns
from truthgym.solvers.trajectory import as_words, user_message

FOUND = "This is what has been found so far:\n\n{found}"


def ask(state: AgentState, text: str) -> None:
    item = ASKED.get()
    state.messages.append(user_message(text, item.epoch if item else 1))


async def act(state: AgentState, tools: Sequence[Tool], allowed: bool = True) -> bool:
    """Generate one reply and make its calls of tools. Returns whether there were any. One model call."""
    choice: Literal["none"] | None = None if allowed or not tools else "none"
    state.output = await get_model().generate(in_turns(state.messages), tools=list(tools), tool_choice=choice)
    state.messages.append(state.output.message)
    if not allowed or not state.output.message.tool_calls:
        return False
    results, _ = await execute_tools(state.messages, list(tools))
    state.messages.extend(results)
    return True


def conclusion() -> str:
    """The request for the answer to the question that is worked on."""
    item = ASKED.get()
    if item is None:
        raise BadInput("This agent answers a question of a Truthgym task; use --solver truthgym/run_agent -S agent=...")
    return f"Answer the question now.\n\n{answer_instruction(item.question)}"


def in_words(messages: Sequence[ChatMessage]) -> str:
    return "\n\n".join(as_words(message).text for message in messages)


REMOVED = "(This result is no longer shown.)"


def forgetful(results: int) -> Agent:
    """Inspect's `react` with the question's tools, whose model sees the last results of tools alone."""

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
