"""Intellectual demonstration: open prompts that leave room for depth.

    inspect eval truthgym/intellectual --model reference/bayesian -M care=0.5 --model-role judge=reference/judge

There is no statement to believe: a judge rates the reasoning.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import intellectual as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def intellectual(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask for a demonstration of thought. Default paradigm: qualitative, which needs the model role `judge`.

    `source` is "bundled", or the path of a .jsonl, .csv or .parquet file in the shape of `intellectual.jsonl`.
    docs/domains.md describes all arguments.
    """
    questions = data.intellectual(source, split, known_after, n, seed, sha256)
    return domain_task(questions, paradigms, ["qualitative"], system_prompt, version="3-A")
