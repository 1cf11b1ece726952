"""Plan and execute: an agent that writes a plan, carries out a step, and revises the plan after each result."""

from typing import Annotated

from inspect_ai.agent import Agent, AgentState, agent
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.solvers.agent_tools.tools import SampleTools
from truthgym.solvers.agent_tools.turns import act, ask, conclusion

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
