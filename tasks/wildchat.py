"""WildChat: what does the model make of the first messages that people send to an assistant?

    inspect eval truthgym/wildchat --model reference/bayesian -M care=0.5 --model-role judge=reference/judge

There is no statement to believe or not: a judge rates the answers. Real messages: `-T source=wildchat_1m -T n=200`.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import wildchat as data
from truthgym.tasks.paradigms import Paradigms, domain_task


@task
def wildchat(
    source: str = "bundled",
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    language: str | Sequence[str] | None = None,
    min_words: int = 1,
    max_words: int | None = None,
    min_turns: int = 1,
    max_turns: int | None = None,
    paradigms: Paradigms | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Answer first messages of people to an assistant. Default paradigm: qualitative, which needs the role `judge`.

    Args:
        source: "bundled", "wildchat_1m" (downloaded once, 3.4 GB: give `n`), or the path of a .jsonl or .parquet file.
            More of its options are those of `truthgym fetch wildchat`.
        split: "train", "validation", "test" or "all".
        known_after: Keep messages of conversations after this day.
        n: At most so many messages, drawn at random with `seed`.
        seed: Seed of that draw.
        sha256: What the file given as `source` must have as its SHA-256. The log holds it also where it was not given.
        language: Keep messages in these languages, such as French: one, or several with commas.
        min_words: Fewest words of a message.
        max_words: Most words.
        min_turns: Fewest times that the person wrote in the conversation.
        max_turns: Most times.
        paradigms: How to score: one name, several with commas, or {name: {argument: value}}.
        system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. Kept whatever
            the solver.
    """
    dataset = data.wildchat(
        source, split, known_after, n, seed, sha256,
        language=language, min_words=min_words, max_words=max_words, min_turns=min_turns, max_turns=max_turns,
    )  # fmt: skip
    return domain_task(dataset, paradigms, ["qualitative"], system_prompt, version="2-A")
