"""Run an agent: any Inspect agent works on the question with its tools, and its trajectory is recorded."""

from collections.abc import Mapping
from typing import Annotated, Any

from inspect_ai.agent import Agent, as_solver
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import registry_create
from pydantic import SkipValidation

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.agent_tools.tools import SampleTools
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import answer_instruction, evidence


@solver
@validate_call
def run_agent(
    agent: Annotated[str | Agent, SkipValidation] = "react", arguments: Mapping[str, Any] | None = None
) -> Solver:
    """Let an agent work on the question until it answers. It decides how many model calls it makes: set a limit.

    The agent gets the question, all its evidence and the form of the answer, as `direct` asks for it. What it writes on
    the way is reasoning, tool results are input, and its last message is the answer.

        inspect eval truthgym/forecasting --solver truthgym/run_agent -S agent=inspect_swe/claude_code \
            --sandbox docker --message-limit 60 --model anthropic/claude-sonnet-5

    Args:
        agent: Name of a registered agent, "PACKAGE/NAME" for one of another package, or an agent. "react" is Inspect's
            own, which also gets the tools of an agent task's question.
        arguments: The agent's arguments, if it is given by name. Those of "react" default to {submit: false}: its first
            message without a tool call is its answer. With the `submit` tool it is asked to continue until it submits.

    Raises:
        BadInput: There is no such agent, or it does not take these arguments.
    """
    options = ({"submit": False} if agent == "react" else {}) if arguments is None else arguments
    without_tools = _agent_solver(agent, options)
    with_tools = _agent_solver(agent, {"tools": [SampleTools()], **options}) if agent == "react" else without_tools

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        agent_solver = with_tools if (state.metadata or {}).get("tools") else without_tools
        with conversation(state, generate) as talk:
            talk.ask_question(evidence(question.evidence), answer_instruction(question))
            await talk.run_agent(agent_solver)
        return talk.state

    return solve


def _agent_solver(agent: str | Agent, arguments: Mapping[str, Any]) -> Solver:
    try:
        if arguments and not isinstance(agent, str):
            raise TypeError("arguments belong to an agent that is given by name")
        return as_solver(registry_create("agent", agent, **arguments) if isinstance(agent, str) else agent)
    # Inspect raises these for unknown names, bad arguments and objects that are not agents.
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise BadInput(
            f"run_agent: agent={agent!r} with arguments={dict(arguments)!r} cannot be used ({error}); give it as "
            'PACKAGE/NAME, and install its package (for inspect_swe/claude_code: pip install -e ".[agents]")'
        ) from None
