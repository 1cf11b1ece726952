"""Testimony: does the model see which reports repeat the same person? Generated questions with exact posteriors.

inspect eval truthgym/testimony --model reference/naive
inspect eval truthgym/testimony -T witnesses=2 -T reports=10 --solver truthgym/chain_of_thought --model ...
"""

from collections.abc import Sequence

from inspect_ai import Task, task

from truthgym.datasets import testimony as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def testimony(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    witnesses: int | Sequence[int] = (2, 8),
    reports: int | Sequence[int] = (3, 12),
    named: float = 0.7,
    late: float = 0.7,
    base_rate: float | Sequence[float] = (0.15, 0.85),
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask whether an event happened that few people saw and many reports repeat. Defaults: brier and martingale.

    `n` questions are generated from `seed`. Each of the `reports` repeats one of the `witnesses`. It names the witness
    with the probability `named`; if not, the last piece of evidence does so with the probability `late`. `base_rate` is
    the probability of the proposition before evidence. `witnesses`, `reports` and `base_rate` are one number, or the
    two ends of a range with a comma.
    docs/domains.md describes the other arguments.
    """
    questions = data.testimony(n, seed, split, witnesses, reports, named, late, base_rate)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="1-A")
