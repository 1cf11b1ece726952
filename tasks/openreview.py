"""OpenReview: was the paper accepted?

    inspect eval truthgym/openreview --model reference/bayesian -M noise=0.1

The bundled papers are famous, and remembered: they are for smoke tests. To measure judgement, fetch reviews of a venue
whose decisions came after the model's training:

    truthgym fetch openreview --source api -T venue=ICLR.cc/2026/Conference --out iclr2026.jsonl
    inspect eval truthgym/openreview -T source=iclr2026.jsonl -T n=200 --model ...
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import openreview as data
from truthgym.tasks.paradigms import Paradigms, domain_task


@task
def openreview(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: Paradigms | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask whether a paper was accepted at its venue. Default paradigms: brier and martingale.

    Args:
        source: "bundled" (for smoke tests: models remember these papers), a real source (see `datasets/openreview.md`),
            or the path of a .jsonl or .parquet file.
        split: "train", "validation", "test" or "all".
        known_after: Keep papers whose decision came after this day: the model's training cut-off.
        n: At most so many questions, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file given as `source` must have as its SHA-256. The log holds it also where it was not given.
        paradigms: How to score: one name, several with commas, or {name: {argument: value}}.
        system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. Kept whatever
            the solver.
    """
    dataset = data.openreview(source, split, known_after, n, seed, sha256)
    return domain_task(dataset, paradigms, ["brier", "martingale"], system_prompt, version="2-A")
