"""Urns: does the model update as the evidence requires? Generated questions whose exact posterior is known.

inspect eval truthgym/urns --model reference/bayesian
inspect eval truthgym/urns -T draws=6 -T likelihood_ratio=3 --solver truthgym/chain_of_thought --model ...
"""

from collections.abc import Sequence

from inspect_ai import Task, task

from truthgym.datasets import urns as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def urns(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    draws: int = 4,
    likelihood_ratio: float = 2.0,
    base_rate: float | Sequence[float] = (0.15, 0.85),
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask which of two causes produced the observations. Default paradigms: brier and martingale.

    `n` questions are generated from `seed`, each with `draws` pieces of evidence. `likelihood_ratio` is how many times
    likelier a mark is under one cause than under the other, `base_rate` the probability of the proposition before
    evidence: a number, or the two ends of a range with a comma. docs/domains.md describes the other arguments.
    """
    questions = data.urns(n, seed, split, draws, likelihood_ratio, base_rate)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="2-C")
