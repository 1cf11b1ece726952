"""WildChat: how well does the model answer the messages that people send to an assistant?

    inspect eval truthgym/wildchat --model reference/bayesian -M care=0.5 --model-role judge=reference/judge

There is no statement to believe: a judge rates the answers. Real messages: `-T source=wildchat_1m -T n=200`.
"""

from collections.abc import Sequence
from datetime import date

from inspect_ai import Task, task

from truthgym.datasets import wildchat as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


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
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Answer messages of people to an assistant. Default paradigm: qualitative, which needs the role `judge`.

    `source` is "bundled", "wildchat_1m" (3.4 GB, downloaded once: give `n`), or the path of a .jsonl, .csv or .parquet
    file. `language` keeps messages in one or several languages, such as French; `min_words` and `max_words` limit the
    words of a message, `min_turns` and `max_turns` the person's messages in the conversation. More options of the
    source are those of `truthgym fetch wildchat`. docs/domains.md describes all other arguments.
    """
    questions = data.wildchat(
        source, split, known_after, n, seed, sha256,
        language=language, min_words=min_words, max_words=max_words, min_turns=min_turns, max_turns=max_turns,
    )  # fmt: skip
    return domain_task(questions, paradigms, ["qualitative"], system_prompt, version="3-A")
