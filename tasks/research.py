"""Research: which of two answers is right, the easy one or the hard one?

    inspect eval truthgym/research --model reference/bayesian -M noise=0.1

One answer tempts and is wrong, the other is right and takes thought. Which of them the statement names is
counterbalanced, so that neither yes nor no is the easy answer.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import research as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def research(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask which of two answers to a science question is right. Default paradigms: brier and martingale.

    `source` is "bundled", or the path of a .jsonl, .csv or .parquet file in the shape of `research.jsonl`.
    `known_after` leaves out all bundled questions: they have no day. docs/domains.md describes all arguments.
    """
    questions = data.research(source, split, known_after, n, seed, sha256)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="2-A")
