"""Forecasting: how close is a stated probability to the outcome?

    inspect eval truthgym/forecasting --model reference/bayesian
    inspect eval truthgym/forecasting --solver truthgym/chain_of_thought -S steps=4 --model openai/gpt-5.4-mini

The bundled questions are on public series that resolved from March to August 2026. Questions that resolved later:

    inspect eval truthgym/forecasting -T source=forecastbench -T known_after=2026-06-01 -T n=200 --model ...
"""

from collections.abc import Sequence
from datetime import date
from typing import Literal

from inspect_ai import Task, task

from truthgym.datasets import forecasting as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def forecasting(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    part: Literal["series", "events", "all"] | None = None,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask for the probability of resolved real-world events. Default paradigms: brier and martingale.

    `source` is "bundled", "forecastbench", "halawi", or the path of a .jsonl, .csv or .parquet file, such as a snapshot
    from `truthgym fetch`. `part` chooses bundled questions: "series" (the default), on public series that resolved from
    March to August 2026; "events", which models may remember; or "all". docs/domains.md describes all arguments.
    """
    questions = data.forecasting(source, split, known_after, n, seed, sha256, part)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="4-A")
