"""Forecasting: how close is a stated probability to what happened?

    inspect eval truthgym/forecasting --model reference/bayesian
    inspect eval truthgym/forecasting --solver truthgym/chain_of_thought -S steps=4 --model openai/gpt-5.4-mini

Today's models may remember how the bundled questions ended: they are for learning the tool. To measure foresight:

    inspect eval truthgym/forecasting -T source=forecastbench -T known_after=2026-06-01 -T n=200 --model ...
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import forecasting as data
from truthgym.tasks.paradigms import Paradigms, domain_task


@task
def forecasting(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: Paradigms | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask for the probability of resolved real-world events. Default paradigms: brier and martingale.

    Args:
        source: "bundled" (models may remember the outcomes), "forecastbench", "halawi", or the path of a .jsonl or
            .parquet file, such as a snapshot that `truthgym fetch` made.
        split: "train", "validation", "test" or "all".
        known_after: Keep questions whose outcome became public after this day: the model's training cut-off.
        n: At most so many questions, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file given as `source` must have as its SHA-256. The log holds it also where it was not given.
        paradigms: How to score: one name, several with commas, or {name: {argument: value}}.
        system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. Kept whatever
            the solver.
    """
    dataset = data.forecasting(source, split, known_after, n, seed, sha256)
    return domain_task(dataset, paradigms, ["brier", "martingale"], system_prompt, version="3-A")
