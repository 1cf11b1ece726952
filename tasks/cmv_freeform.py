"""ChangeMyView, free: how does the model update on a contested view?

    inspect eval truthgym/cmv_freeform --model reference/bayesian -M noise=0.1

No truth is known: the task only measures whether updates can be predicted from the belief before them.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import cmv_freeform as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def cmv_freeform(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask whether contested views are right; no truth is known. Default paradigm: martingale.

    `source` is "bundled", "webis", "winning_args", or the path of a .jsonl, .csv or .parquet file. `known_after`
    compares with the day of the post. docs/domains.md describes all arguments.
    """
    questions = data.cmv_freeform(source, split, known_after, n, seed, sha256)
    return domain_task(questions, paradigms, ["martingale"], system_prompt, version="3-A")
