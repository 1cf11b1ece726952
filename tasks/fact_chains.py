"""Fact chains: how far does a model come, from record to record, without an error?

inspect eval truthgym/fact_chains --model reference/walker -M slip=0.1
inspect eval truthgym/fact_chains -T hops=2,8,16 -T context=1 --model ...
"""

from collections.abc import Sequence

from inspect_ai import Task, task

from truthgym.datasets import fact_chains as data
from truthgym.datasets.errors import BadInput
from truthgym.solvers.agent_tools.forgetful import forgetful
from truthgym.solvers.run_agent import run_agent
from truthgym.tasks.agent_bench_mini import prepare_tools
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def fact_chains(
    n: int = 70,
    seed: int = 0,
    split: str = "test",
    hops: int | Sequence[int] = data.HOPS,
    context: int | None = None,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask to follow relations from record to record. Defaults: fact_chain and agent_answer.

    `n` chains are generated from `seed`, of the lengths `hops` in turn. The solver is `run_agent` with Inspect's
    `react`; with `context` its model sees the last so many results of tools alone, and what it wrote itself. A sample
    ends after six messages for each hop of the longest chain, and 20 more: `--message-limit` sets another limit.
    """
    if context is not None and (not isinstance(context, int) or isinstance(context, bool) or context < 0):
        raise BadInput(f"fact_chains: context={context!r} cannot be used; give a whole number of results, 0 or more")
    questions = data.fact_chains(n, seed, split, hops)
    made = domain_task(
        questions, paradigms, ["fact_chain", "agent_answer"], system_prompt, version="2-A", epochs=1,
        setup=prepare_tools(), solver=run_agent() if context is None else run_agent(forgetful(context)),
    )  # fmt: skip
    made.message_limit = 20 + 6 * max(item.metadata_as(data.ChainQuestion).budget // 2 for item in questions)
    return made
