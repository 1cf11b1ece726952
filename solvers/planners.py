"""Agents that plan: one that revises its plan after each result, and a team of planner, executor and synthesiser."""

from typing import Annotated

from inspect_ai.agent import Agent, AgentState, agent, as_tool, react
from inspect_ai.model import ChatMessageTool
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.solvers.agent_tools.tools import SampleTools
from truthgym.solvers.agent_tools.turns import FOUND, act, ask, conclusion

PLANNER = (
    "You plan, and have no tools but an executor, who has. Give it one step at a time in words that it understands "
    "without having read the question. After each report decide on the next step. When you know enough, or know that "
    "there is no answer, say so and call it no more."
)
EXECUTOR = "Carries out one step with tools and reports what it found, word by word, and what failed."


@agent
@validate_call
def planner_team(steps: Annotated[int, Field(ge=1)] = 30) -> Agent:
    """Planner, executor (Inspect's `react`, through `as_tool`) and synthesiser, each with a context of its own.

    Model calls: one of the planner and the executor's for each step, then one each. The log has the planner's
    conversation, whose steps are those of the trajectory, and then the synthesiser's, who saw only the question and the
    reports.

    Args:
        steps: Most steps.
    """

    async def execute(state: AgentState) -> AgentState:
        question = list(state.messages)
        worker = react(name="executor", description=EXECUTOR, tools=[SampleTools()], submit=False)
        tools = [as_tool(worker)]
        ask(state, PLANNER)
        for _ in range(steps):
            if not await act(state, tools):
                break
        reports = [message.text for message in state.messages if isinstance(message, ChatMessageTool)]
        synthesis = AgentState(messages=question)
        ask(synthesis, "\n\n".join([FOUND.format(found="\n\n".join(reports) or "nothing"), conclusion()]))
        await act(synthesis, [])
        state.messages += synthesis.messages[len(question) :]
        state.output = synthesis.output
        return state

    return execute


PLAN = "First write a plan: the steps that lead to the answer, each with the tool that it needs. Call no tool yet."
STEP = "Carry out the next step of your plan with one call of a tool. If no step is left, say so and call none."
REVISE = "Given this result, write the plan anew: what is known, and the steps that are left. Call no tool yet."


@agent
@validate_call
def plan_and_execute(steps: Annotated[int, Field(ge=1)] = 30) -> Agent:
    """Write a plan, then carry out step after step and revise the plan after each. Model calls: 3 + 2 x steps made.

        inspect eval truthgym/agent_bench_mini --solver truthgym/run_agent -S agent=truthgym/plan_and_execute

    Args:
        steps: Most steps.
    """

    async def execute(state: AgentState) -> AgentState:
        tools = await SampleTools().tools()
        ask(state, PLAN)
        await act(state, tools, allowed=False)
        for _ in range(steps):
            ask(state, STEP)
            if not await act(state, tools):
                break
            ask(state, REVISE)
            await act(state, tools, allowed=False)
        ask(state, conclusion())
        await act(state, tools, allowed=False)
        return state

    return execute
