"""Agent bench mini: does the process seek the truth when it has tools? Questions about invented countries.

inspect eval truthgym/agent_bench_mini --model reference/oracle
inspect eval truthgym/agent_bench_mini -T paradigms=agent_answer,brier,martingale --message-limit 60 --model ...
"""

from collections.abc import Sequence
from typing import Literal

from inspect_ai import Task, task
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets import agent_bench_mini as data
from truthgym.datasets.agent_worlds.question import AgentQuestion
from truthgym.datasets.question import question_of
from truthgym.solvers.agent_tools.tools import check_tools
from truthgym.solvers.roles import required_sandbox
from truthgym.solvers.run_agent import run_agent
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def agent_bench_mini(
    n: int = 36,
    seed: int = 0,
    split: str = "test",
    kind: str = "all",
    python: bool = False,
    search: Literal["archive", "web"] = "archive",
    delay: float = 0.0,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask questions that only tools can answer, some of which have no answer. Defaults: agent_answer and brier.

    `n` questions are generated from `seed` (`datasets/agent_bench_mini.py`). The solver is `run_agent` with Inspect's
    `react` and the tools search, retrieve and attachment; with `python` also a Python that runs in the sandbox of the
    eval. Calls, tokens and time are limited by Inspect's own options (`--message-limit`, `--token-limit`,
    `--time-limit`).
    """
    questions = data.agent_bench_mini(n, seed, split, kind, python, search, delay)
    return domain_task(
        questions, paradigms, ["agent_answer", "brier"], system_prompt, version="3-A", epochs=1,
        setup=prepare_tools(), solver=run_agent(),
    )  # fmt: skip


@solver
def prepare_tools() -> Solver:
    """Check before the first call that a question's tools can work. Makes no model call.

    Raises:
        BadInput: A tool or attachment that there is none of, or the tool `python` without a sandbox that isolates.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, AgentQuestion)
        check_tools(question)
        if "python" in question.tools:
            required_sandbox("The tool python", "start the run with --sandbox docker, or without -T python=true")
        return state

    return solve
