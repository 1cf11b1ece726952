"""Run an agent: any Inspect agent reasons with its tools, and its trajectory is recorded."""

from collections.abc import Mapping
from typing import Any

from inspect_ai.agent import Agent, as_solver
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import registry_create

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import answer_instruction, evidence


@solver
def run_agent(agent: str | Agent = "react", arguments: Mapping[str, Any] | None = None) -> Solver:
    """Let an agent work on the question until it answers. As many model calls as it makes: limit them in the run.

    The question, all its evidence and the form of the answer are given as with `direct`. What the agent writes on the
    way is reasoning, what its tools return is told to it, and its last message is the answer.

        inspect eval truthgym/forecasting --solver truthgym/run_agent -S agent=inspect_swe/claude_code \
            --sandbox docker --message-limit 60 --model anthropic/claude-sonnet-5

    Args:
        agent: Name of a registered agent, "PACKAGE/NAME" for one of another package, or an agent. "react" is Inspect's
            own.
        arguments: The agent's arguments, where it is given by name. Those of "react" are {submit: false} where none are
            given: its first message without a tool call is its answer. With its `submit` tool it is asked to go on
            until it uses that.

    Raises:
        BadInput: There is no such agent, or it does not take these arguments.
    """
    working = _working(agent, ({"submit": False} if agent == "react" else {}) if arguments is None else arguments)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        with conversation(state, generate) as talk:
            talk.ask_question(evidence(question.evidence), answer_instruction(question))
            await talk.run_agent(working)
        return talk.state

    return solve


def _working(agent: object, arguments: Mapping[str, Any]) -> Solver:
    if not isinstance(agent, str) and (not callable(agent) or arguments):
        raise BadInput(f"run_agent: agent={agent!r} cannot be used; give a name, or an agent with its arguments in it")
    if not isinstance(arguments, Mapping):
        raise BadInput(f"run_agent: arguments={arguments!r} cannot be used; give {{argument: value}}")
    try:
        return as_solver(registry_create("agent", agent, **arguments) if isinstance(agent, str) else agent)
    except LookupError:
        raise BadInput(
            f"run_agent: there is no agent {agent!r}; install its package (for inspect_swe/claude_code: "
            'pip install -e ".[agents]") and give it as PACKAGE/NAME'
        ) from None
    except (TypeError, ValueError, RuntimeError) as error:  # what Inspect raises over arguments, and over no agent
        raise BadInput(
            f"run_agent: agent={agent!r} with arguments={dict(arguments)!r} cannot be used: {error}; give others, or "
            "another agent"
        ) from None
