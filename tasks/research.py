"""Research: which of two answers is right, the easy one or the hard one?

    inspect eval truthgym/research --model reference/bayesian -M noise=0.1

One answer tempts and is wrong, the other is right and takes thought. Which of them the statement names is
counterbalanced, so that neither yes nor no is the easy thing to say.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import research as data
from truthgym.tasks.paradigms import Paradigms, domain_task


@task
def research(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: Paradigms | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask which of two answers to a question of science is right. Default paradigms: brier and martingale.

    Args:
        source: "bundled", or the path of a .jsonl or .parquet file in the shape of `research.jsonl`.
        split: "train", "validation", "test" or "all".
        known_after: Keep questions whose answer became public after this day; those without a day are left out.
        n: At most so many questions, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file given as `source` must have as its SHA-256. The log holds it also where it was not given.
        paradigms: How to score: one name, several with commas, or {name: {argument: value}}.
        system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. Kept whatever
            the solver.
    """
    dataset = data.research(source, split, known_after, n, seed, sha256)
    return domain_task(dataset, paradigms, ["brier", "martingale"], system_prompt, version="2-A")
