"""Cruxes: does the model see which arguments matter to somebody? Generated exchanges with exact posteriors.

inspect eval truthgym/cruxes --model reference/naive
inspect eval truthgym/cruxes -T reasons=5 -T rounds=6 --solver truthgym/chain_of_thought --model ...
"""

from collections.abc import Sequence

from inspect_ai import Task, task

from truthgym.datasets import cruxes as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def cruxes(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    reasons: int | None = None,
    rounds: int = 4,
    shown: float = 0.5,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask whether an exchange makes an author give up a view. Default paradigms: brier and martingale.

    `n` questions are generated from `seed`. The author has 3 to 5 `reasons` of hidden weight, and the post says what
    one weighs with the probability `shown`. In each of the `rounds` a reader attacks a reason and the author replies.
    docs/domains.md describes the other arguments.
    """
    questions = data.cruxes(n, seed, split, reasons, rounds, shown)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="1-A")
