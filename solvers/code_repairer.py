"""Code repairer: an agent that writes a repair with checks of its own, runs both in the sandbox, and tries again."""

from typing import Annotated

from inspect_ai.agent import Agent, AgentState, agent
from inspect_ai.util import OutputLimitExceededError, sandbox
from pydantic import Field

from truthgym.datasets.code_repair import RepairQuestion, code_blocks, find_program
from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.question import ASKED, own_question
from truthgym.solvers.agent_tools.programs import ProgramError, run_here
from truthgym.solvers.agent_tools.turns import act, ask
from truthgym.solvers.roles import required_sandbox

CHECKS = (
    "Write the whole corrected function in one block of Python code, and after it a second block with checks: assert "
    "statements on calls whose results follow from the description. Both are run, and you see what fails."
)
FAILED = "{what}\n\nFind out whether the function or the check is wrong. Then write both blocks anew, as before."
NO_PROGRAM = "Your reply has no block of Python code with the function {function}."
REMEDY = "start the run with --sandbox docker (or another that isolates), or set trusted=true of the agent and the task"
SHOWN = 2000
"""Most characters of what a program printed, from the end."""


@agent
@validate_call
def code_repairer(
    tries: Annotated[int, Field(ge=1)] = 3, time_limit: Annotated[int, Field(ge=1)] = 30, trusted: bool = False
) -> Agent:
    """Write a repair and checks, run them in the sandbox, read what fails, try again. Model calls: 1 to `tries`.

        inspect eval truthgym/code_repair --sandbox docker --solver truthgym/run_agent -S agent=truthgym/code_repairer
        inspect eval truthgym/code_repair -T trusted=true --solver truthgym/run_agent -S agent=truthgym/code_repairer
            -S 'arguments={trusted: true}'

    The checks are the model's own: the hidden tests are not in the sandbox, and a program that ends without an error
    is not asked for more. The last try is the answer, whether or not its checks pass.

    Args:
        tries: Most repairs. The last one is not run.
        time_limit: Seconds that a program may take.
        trusted: Run on this machine instead, confined by Landlock where the kernel has it (files, TCP, other
            processes), with limits of CPU time, memory and file size; else behind a guard against accidents alone.
    """

    async def execute(state: AgentState) -> AgentState:
        item = ASKED.get()
        question = own_question(RepairQuestion, item.metadata) if item else None
        if question is None:
            raise BadInput("code_repairer repairs the functions of truthgym/code_repair; use it with that task")
        if not trusted:
            required_sandbox("code_repairer", REMEDY)
        ask(state, CHECKS)
        for tries_left in reversed(range(tries)):
            await act(state, [])
            if not tries_left:
                break
            failure = await _failure(state.output.completion, question.function, time_limit, trusted)
            if failure is None:
                break
            ask(state, FAILED.format(what=failure))
        return state

    return execute


async def _failure(reply: str, function: str, seconds: int, trusted: bool) -> str | None:
    """What is wrong with the programs of a reply; None if they run without an error. OSError: the machine's fault."""
    if find_program(reply, function) is None:
        return NO_PROGRAM.format(function=function)
    program = "\n".join(code_blocks(reply))
    try:
        if trusted:
            text = (await run_here("The program", {"source": program}, seconds))["failure"] or None
        else:
            ran = await sandbox().exec(["python3", "-"], input=program, timeout=seconds, timeout_retry=False)
            text = None if ran.success else (ran.stderr or ran.stdout).strip()[-SHOWN:]
    except ProgramError as error:
        return str(error)
    except TimeoutError:
        return f"The program did not end within {seconds} s and was stopped."
    except (OutputLimitExceededError, UnicodeDecodeError):
        return "The program printed too much, or what is not text."
    return None if text is None else f"The program failed:\n\n{text}"
