"""GAIA mini: questions at three levels that need records, attached tables and a calculation.

    inspect eval truthgym/gaia_mini --model reference/oracle

The real GAIA: `pip install "truthgym[evals]"`, then `inspect eval inspect_evals/gaia --model ...` (docs/agents.md).
"""

from collections.abc import Sequence

from inspect_ai import Task, task

from truthgym.datasets import gaia_mini as data
from truthgym.solvers.run_agent import run_agent
from truthgym.tasks.agent_bench_mini import prepare_tools
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def gaia_mini(
    n: int = 30,
    seed: int = 0,
    split: str = "test",
    level: int | Sequence[int] = (1, 2, 3),
    python: bool = False,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask questions that need records, attached tables and a calculation. Defaults: agent_answer and brier.

    `n` questions are generated from `seed`, of the levels 1 to 3 in turn. The solver is `run_agent` with Inspect's
    `react` and the tools search, retrieve and attachment; with `python` also a Python that runs in the sandbox of the
    eval. Calls, tokens and time are limited by Inspect's own options.
    """
    questions = data.gaia_mini(n, seed, split, level, python)
    return domain_task(
        questions, paradigms, ["agent_answer", "brier"], system_prompt, version="3-A", epochs=1,
        setup=prepare_tools(), solver=run_agent(),
    )  # fmt: skip
