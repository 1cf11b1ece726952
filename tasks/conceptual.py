"""Conceptual: thorny questions that want untangling before they can be answered.

    inspect eval truthgym/conceptual --model reference/bayesian -M noise=0.1

No truth is known. Each question has a statement whose probability is asked, and a judge can rate the reasoning:
`-T paradigms=martingale,qualitative --model-role judge=...`.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import conceptual as data
from truthgym.tasks.paradigms import Paradigms, domain_task


@task
def conceptual(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: Paradigms | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask conceptual and philosophical questions. Default paradigm: martingale.

    Args:
        source: "bundled", or the path of a .jsonl or .parquet file in the shape of `conceptual.jsonl`.
        split: "train", "validation", "test" or "all".
        known_after: Keep questions known after this day; those without a day are left out.
        n: At most so many questions, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file given as `source` must have as its SHA-256. The log holds it also where it was not given.
        paradigms: How to score: one name, several with commas, or {name: {argument: value}}.
        system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. Kept whatever
            the solver.
    """
    dataset = data.conceptual(source, split, known_after, n, seed, sha256)
    return domain_task(dataset, paradigms, ["martingale"], system_prompt, version="2-A")
