"""Intellectual demonstration: open prompts that leave room for depth.

    inspect eval truthgym/intellectual --model reference/bayesian -M care=0.5 --model-role judge=reference/judge

There is no statement to believe or not: a judge rates the reasoning.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import intellectual as data
from truthgym.tasks.paradigms import Paradigms, domain_task


@task
def intellectual(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: Paradigms | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask for a demonstration of thought. Default paradigm: qualitative, which needs the model role `judge`.

    Args:
        source: "bundled", or the path of a .jsonl or .parquet file in the shape of `intellectual.jsonl`.
        split: "train", "validation", "test" or "all".
        known_after: Keep prompts known after this day; those without a day are left out.
        n: At most so many questions, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file given as `source` must have as its SHA-256. The log holds it also where it was not given.
        paradigms: How to score: one name, several with commas, or {name: {argument: value}}.
        system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. Kept whatever
            the solver.
    """
    dataset = data.intellectual(source, split, known_after, n, seed, sha256)
    return domain_task(dataset, paradigms, ["qualitative"], system_prompt, version="2-A")
