"""ChangeMyView, binary: did the exchange change the author's view?

    inspect eval truthgym/cmv_binary --model reference/bayesian -M noise=0.1

The bundled exchanges are synthetic. To measure on real ones: `-T source=webis`.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import cmv_binary as data
from truthgym.tasks.paradigms import Paradigms, domain_task


@task
def cmv_binary(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: Paradigms | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask whether an exchange changed the view of a post's author. Default paradigms: brier and martingale.

    Args:
        source: "bundled" (synthetic), a real source (see `datasets/cmv_binary.md`), or the path of a .jsonl or .parquet
            file.
        split: "train", "validation", "test" or "all".
        known_after: Keep exchanges that ended after this day; those without a day are left out.
        n: At most so many questions, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file given as `source` must have as its SHA-256. The log holds it also where it was not given.
        paradigms: How to score: one name, several with commas, or {name: {argument: value}}.
        system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. Kept whatever
            the solver.
    """
    dataset = data.cmv_binary(source, split, known_after, n, seed, sha256)
    return domain_task(dataset, paradigms, ["brier", "martingale"], system_prompt, version="2-A")
