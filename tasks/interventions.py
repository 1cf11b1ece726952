"""Interventions: does the model tell a part that was set from one that is seen? Generated, with exact posteriors.

inspect eval truthgym/interventions --model reference/naive
inspect eval truthgym/interventions -T kind=counterfactual -T learned=0 --solver truthgym/chain_of_thought --model ...
"""

from inspect_ai import Task, task

from truthgym.datasets import interventions as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def interventions(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    parts: int = 5,
    readings: int = 3,
    kind: data.Kinds = "all",
    learned: float = 0.4,
    cases: int = 200,
    paradigms: ScorerNames | None = None,
    system_prompt: str | None = None,
) -> Task:
    """Ask what a device does if a part is set, is seen, or had been set. Default paradigms: brier and martingale.

    `n` questions are generated from `seed`. The mechanism of the `parts` is stated and `readings` gauges are read; or,
    with the probability `learned`, diagrams are given and `cases` past runs. `kind` is "set", "see", "counterfactual"
    or "all". docs/domains.md describes the other arguments.
    """
    questions = data.interventions(n, seed, split, parts, readings, kind, learned, cases)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="1-A")
