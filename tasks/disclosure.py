"""Disclosure: does the model ask how the results that it is shown were chosen? Generated, with exact posteriors.

inspect eval truthgym/disclosure --model reference/naive
inspect eval truthgym/disclosure -T known=1 -T shown=2 --solver truthgym/chain_of_thought --model ...
"""

from collections.abc import Sequence

from inspect_ai import Task, task

from truthgym.datasets import disclosure as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def disclosure(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    trials: int = 10,
    shown: int = 3,
    ahead: int = 2,
    known: float = 0.5,
    base_rate: float | Sequence[float] = (0.15, 0.85),
    pairs: bool = False,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask what results say that somebody chose to show by a rule. Default paradigms: brier and martingale.

    `n` questions are generated from `seed`. Of up to `trials` results all are shown, or the first or best `shown`, or
    those until the good ones are `ahead`. With the probability `known` the question states which, otherwise how often
    each is done. With `pairs`, two questions show the same results by another rule, and `martingale` leaves them out.
    docs/domains.md describes the other arguments.
    """
    questions = data.disclosure(n, seed, split, trials, shown, ahead, known, base_rate, pairs)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="1-A")
