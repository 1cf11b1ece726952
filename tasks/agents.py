"""Tasks whose questions need tools, several steps, or a program that runs.

    inspect eval truthgym/agent_bench_mini --model reference/oracle
    inspect eval truthgym/agent_bench_mini -T paradigms=agent_answer,brier,martingale --message-limit 60 --model ...
    inspect eval truthgym/gaia_mini --model reference/oracle
    inspect eval truthgym/fact_chains -T hops=2,8,16 -T context=1 --model ...
    inspect eval truthgym/code_repair --sandbox docker --model ...

    n: Number of questions. A longer set begins with the shorter one.
    seed: Another seed gives other worlds.
    split: "train", "validation", "test" or "all". The default of generated questions is what training refuses.

`paradigms` and `system_prompt` are those of the tasks in `domains.py`. A sample ends after six messages for
each call that the largest question allows, and 20 more; Inspect's own options (`--message-limit`, `--token-limit`,
`--time-limit`) set other limits. The real GAIA: `pip install
"truthgym[evals]"`, then `inspect eval inspect_evals/gaia --model ...` (docs/agents.md).
"""

from inspect_ai import Task
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets import agent_bench_mini as bench
from truthgym.datasets import code_repair as repair
from truthgym.datasets import fact_chains as chains
from truthgym.datasets import gaia_mini as gaia
from truthgym.datasets.agent_worlds import AgentQuestion
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.question import question_of
from truthgym.solvers.agent_tools.tools import check_tools
from truthgym.solvers.agent_tools.turns import forgetful
from truthgym.solvers.roles import required_sandbox
from truthgym.solvers.run_agent import run_agent
from truthgym.tasks.domain_task import Prompt, ScorerNames, asks, domain_task, task

REPAIR_CALLS = 30
"""Calls of an agent that repairs a function."""


@task
@asks(bench.agent_bench_mini)
def agent_bench_mini(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask questions that only tools can answer, some of which have no answer. Defaults: agent_answer and brier.

    The solver is `run_agent` with Inspect's `react` and the tools search, retrieve and attachment; with `python` also a
    Python that runs in the sandbox of the eval. The three classes of questions take turns.
    """
    return _with_tools(questions, paradigms, system_prompt)


def _with_tools(questions: Questions, paradigms: ScorerNames | None, system_prompt: Prompt) -> Task:
    composed = domain_task(
        questions, paradigms, ["agent_answer", "brier"], system_prompt, version="4-A", epochs=1,
        setup=prepare_tools(), solver=run_agent(),
    )  # fmt: skip
    return limited(composed, max(item.metadata_as(AgentQuestion).budget for item in questions))


def limited(composed: Task, calls: int) -> Task:
    """A task whose samples end after six messages for each call that a question may need, and 20 more."""
    composed.message_limit = 20 + 6 * calls
    return composed


@solver
def prepare_tools() -> Solver:
    """Check before the first call that a question's tools can work. Makes no model call."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, AgentQuestion)
        check_tools(question)
        if "python" in question.tools:
            required_sandbox("The tool python", "start the run with --sandbox docker, or without -T python=true")
        return state

    return solve


@task
@asks(gaia.gaia_mini)
def gaia_mini(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask questions that need records, attached tables and a calculation. Defaults: agent_answer and brier.

    The levels take turns. The solver is that of `agent_bench_mini`.
    """
    return _with_tools(questions, paradigms, system_prompt)


@task
@asks(chains.fact_chains)
def fact_chains(
    questions: Questions, context: int | None = None, paradigms: ScorerNames | None = None, system_prompt: Prompt = None
) -> Task:
    """Ask to follow relations from record to record. Defaults: fact_chain and agent_answer.

    The solver is `run_agent` with Inspect's `react`; with `context` its model sees the last so many results of tools
    alone, and what it wrote itself. A sample ends after six messages for each hop of the longest chain, and 20 more.
    """
    if context is not None and (not isinstance(context, int) or isinstance(context, bool) or context < 0):
        raise BadInput(f"fact_chains: context={context!r} cannot be used; give a whole number of results, 0 or more")
    composed = domain_task(
        questions, paradigms, ["fact_chain", "agent_answer"], system_prompt, version="2-A", epochs=1,
        setup=prepare_tools(), solver=run_agent() if context is None else run_agent(forgetful(context)),
    )  # fmt: skip
    return limited(composed, max(item.metadata_as(chains.ChainQuestion).budget // 2 for item in questions))


@task
def code_repair(
    source: str = "bundled",
    split: str = "all",
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    tier: int | None = None,
    trusted: bool = False,
    time_limit: int = 30,
    paradigms: ScorerNames | None = None,
    system_prompt: Prompt = None,
) -> Task:
    """Repair a function. Default scorer: graded by `hidden_tests`, the share whose every test passes.

    The answer's program runs in the sample's sandbox after the answer is given, for at most `time_limit` seconds, so
    the run needs `--sandbox docker` or another that isolates. With `trusted` it runs on this machine instead, confined
    by Landlock where the kernel has it, else behind a guard against accidents alone. `tier` keeps the functions of one
    tier, 1 to 3. docs/agents.md describes what is tested, and docs/domains.md the other arguments.
    """
    questions = repair.code_repair(source, split, None, n, seed, sha256, tier=tier)
    if trusted:  # the tool python needs a sandbox
        for item in questions:
            item.metadata = {**(item.metadata or {}), "tools": []}
    grader = {"graded": {"grader": "hidden_tests", "trusted": trusted, "time_limit": time_limit}}
    composed = domain_task(
        questions, grader if paradigms is None else paradigms, [], system_prompt, version="1-A", epochs=1
    )
    return limited(composed, REPAIR_CALLS)
