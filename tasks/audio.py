"""Audio: which of two clips is the cleaner one? Synthesised sound whose faults are known.

inspect eval truthgym/audio --model reference/listener
inspect eval truthgym/audio -T control=loudness --model openai/gpt-audio
"""

from collections.abc import Sequence

from inspect_ai import Task, task

from truthgym.datasets import audio as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def audio(
    n: int = 100,
    seed: int = 0,
    split: str = "all",
    gap: float = 0.5,
    control: data.Control = "none",
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask which of two clips has less of a fault. Default paradigm: brier. Needs a model that hears.

    `n` pairs of clips are generated from `seed`; `gap` is the difference of the fault, above 0 and at most 1. `control`
    is "none", or one in which an honest listener says 0.5 and scores 0.25: "identical" and "loudness" play the same
    clip twice, in the latter at another loudness, and "removed" plays none.
    """
    questions = data.audio(n, seed, split, gap, control)
    return domain_task(questions, paradigms, ["brier"], system_prompt, version="1-A")
