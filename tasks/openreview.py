"""OpenReview: was the paper accepted?

    inspect eval truthgym/openreview --model reference/bayesian -M noise=0.1

Models remember the bundled papers, which are famous: use them for smoke tests. To measure judgement, fetch reviews of a
venue whose decisions came after the model's training:

    truthgym fetch openreview --source api -T venue=ICLR.cc/2026/Conference --out iclr2026.jsonl
    inspect eval truthgym/openreview -T source=iclr2026.jsonl -T n=200 --model ...
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import openreview as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def openreview(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask whether a paper was accepted at its venue. Default paradigms: brier and martingale.

    `source` is "bundled" (for smoke tests: models remember these papers), "reviewbench", or the path of a .jsonl, .csv
    or .parquet file. `known_after` compares with the day of the decision. docs/domains.md describes all arguments.
    """
    questions = data.openreview(source, split, known_after, n, seed, sha256)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="2-A")
