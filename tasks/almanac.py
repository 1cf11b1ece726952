"""Almanac: does the model forecast from dated news as the rules require? Generated questions with exact posteriors.

inspect eval truthgym/almanac --model reference/naive
inspect eval truthgym/almanac -T kind=outbreak -T ahead=1 --solver truthgym/chain_of_thought --model ...
"""

from collections.abc import Sequence
from typing import Literal

from inspect_ai import Task, task

from truthgym.datasets import almanac as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def almanac(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    kind: Literal["all", "polls", "reservoir", "league", "outbreak", "price"] = "all",
    history: int = 2,
    news: int = 4,
    ahead: int = 3,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask whether a small simulated world will pass a threshold on a day. Default paradigms: brier and martingale.

    `n` questions are generated from `seed`, each about a world of the given `kind`. The background has `history` weeks
    of news, `news` weeks follow as evidence, and the question resolves `ahead` weeks later. docs/domains.md describes
    the other arguments.
    """
    questions = data.almanac(n, seed, split, kind, history, news, ahead)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="1-A")
