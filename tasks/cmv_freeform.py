"""ChangeMyView, free: what does the model make of a contested view?

    inspect eval truthgym/cmv_freeform --model reference/bayesian -M noise=0.1

No truth is known: whether its updates can be predicted from where it stood is all that is measured.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import cmv_freeform as data
from truthgym.tasks.paradigms import Paradigms, domain_task


@task
def cmv_freeform(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: Paradigms | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask what to make of a view that people hold and contest. Default paradigm: martingale.

    Args:
        source: "bundled", a real source (see `datasets/cmv_freeform.md`), or the path of a .jsonl or .parquet file.
        split: "train", "validation", "test" or "all".
        known_after: Keep views posted after this day; those without a day are left out.
        n: At most so many questions, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file given as `source` must have as its SHA-256. The log holds it also where it was not given.
        paradigms: How to score: one name, several with commas, or {name: {argument: value}}.
        system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. Kept whatever
            the solver.
    """
    dataset = data.cmv_freeform(source, split, known_after, n, seed, sha256)
    return domain_task(dataset, paradigms, ["martingale"], system_prompt, version="2-A")
