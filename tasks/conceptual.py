"""Conceptual: thorny questions that need untangling before they can be answered.

    inspect eval truthgym/conceptual --model reference/bayesian -M noise=0.1

No truth is known. Each question has a statement whose probability is asked, and a judge can rate the reasoning:
`-T paradigms=martingale,qualitative --model-role judge=...`.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import conceptual as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def conceptual(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask conceptual and philosophical questions. Default paradigm: martingale.

    `source` is "bundled", or the path of a .jsonl, .csv or .parquet file in the shape of `conceptual.jsonl`.
    docs/domains.md describes all arguments.
    """
    questions = data.conceptual(source, split, known_after, n, seed, sha256)
    return domain_task(questions, paradigms, ["martingale"], system_prompt, version="3-A")
