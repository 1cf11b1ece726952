"""Questions: your own yes-or-no questions with known outcomes, from a file.

inspect eval truthgym/questions -T source=mine.jsonl --model reference/bayesian
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import questions as data
from truthgym.datasets.errors import validate_call
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
@validate_call
def questions(
    source: str,
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask the questions of your own file. Default paradigms: brier and martingale.

    `source` is the path of a .jsonl, .csv or .parquet file whose rows have an `id`, a `question` and an `outcome`.
    docs/own_questions.md describes the file, docs/domains.md all arguments.
    """
    asked = data.questions(source, split, known_after, n, seed, sha256)
    return domain_task(asked, paradigms, ["brier", "martingale"], system_prompt, version="1-A")
