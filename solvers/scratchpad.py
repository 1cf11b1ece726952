"""Scratchpad: an agent that sees, at every step, the question and notes of bounded length, and nothing else."""

import re
from typing import Annotated

from inspect_ai.agent import Agent, AgentState, agent
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.solvers.agent_tools.tools import SampleTools
from truthgym.solvers.agent_tools.turns import FOUND, act, ask, conclusion

REWRITE = (
    "Write your notes anew, with all that you need to go on: you will see nothing else of this. At most {words} words; "
    "what is longer is cut off. Call no tool yet."
)


@agent
@validate_call
def scratchpad(words: Annotated[int, Field(ge=1)] = 150, steps: Annotated[int, Field(ge=1)] = 30) -> Agent:
    """Make a call, write the notes anew, forget all else. Model calls: 2 for each step, and 2.

    The log has the calls, their results and the notes of all steps in order, whose steps are those of the trajectory,
    and then the last notes with the answer.

    Args:
        words: Most words of the notes.
        steps: Most steps.
    """

    async def execute(state: AgentState) -> AgentState:
        tools, notes = await SampleTools().tools(), ""
        question = list(state.messages)
        for _ in range(steps):
            step = AgentState(messages=list(question))
            if notes:
                ask(step, FOUND.format(found=notes))
            start = len(step.messages)
            called = await act(step, tools)
            if called:
                ask(step, REWRITE.format(words=words))
                await act(step, tools, allowed=False)
                notes = first_words(step.output.completion, words)
            state.messages += step.messages[start:]
            if not called:
                break
        answer = AgentState(messages=question)
        ask(answer, "\n\n".join([FOUND.format(found=notes or "nothing"), conclusion()]))
        start = len(answer.messages) - 1
        await act(answer, [])
        state.messages += answer.messages[start:]
        state.output = answer.output
        return state

    return execute


def first_words(text: str, number: int) -> str:
    """The first words of a text, with its lines as they are."""
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    return text if len(ends) <= number else text[: ends[number - 1]]
