"""ChangeMyView, binary: did the exchange change the author's view?

    inspect eval truthgym/cmv_binary --model reference/bayesian -M noise=0.1

The bundled exchanges are synthetic, a smoke test. `truthgym/cruxes` measures persuasion where the truth is exact, and
`-T source=webis` asks about real exchanges.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import cmv_binary as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def cmv_binary(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask whether an exchange changed the view of a post's author. Default paradigms: brier and martingale.

    `source` is "bundled" (synthetic), "webis", "webis_threads", "winning_args", or the path of a .jsonl, .csv or
    .parquet file. `known_after` compares with the day on which the exchange ended. docs/domains.md describes all
    arguments.
    """
    questions = data.cmv_binary(source, split, known_after, n, seed, sha256)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="3-A")
