"""Progress, follow: does a model keep up with the moral change of the people it talks to?

inspect eval truthgym/progress_follow --model reference/values
inspect eval truthgym/progress_follow -T proxies=personas --model-role human_proxy=openai/gpt-5.4-mini --model ...
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai import Task, task

from truthgym.models.agents.proxies import Proxies
from truthgym.models.agents.respondent import Elicitation
from truthgym.scorers.declaration import Figures
from truthgym.tasks.timelines import timeline_task


@task
def progress_follow(
    eras: str | Sequence[str] = "C013-C021",
    n: int = 30,
    drift: str | Sequence[str] = ("linear", "walk"),
    step: float = 0.25,
    seed: int = 0,
    examinee: str = "in_context",
    judge: str = "follow",
    proxies: Proxies = "simulated",
    questionnaire: str = "bundled",
    items: int | None = None,
    elicitation: Elicitation = "logprobs",
    cache: bool = True,
    arguments: Mapping[str, Any] | None = None,
    figures: Figures = "headline",
) -> Task:
    """Compare a model's values, after it has learned from each era, with those of its people. Scored by value_tracking.

    `n` simulated timelines are made from `seed`, whose people change by about `step` (log-odds) an era: `drift` linear,
    walk (by steps drawn anew), turn or still. With `proxies` personas, checkpoints or {C013: MODEL, ...} there is one
    timeline. `examinee`: frozen, in_context, value_memo, extrapolating, lifelong_ or extrapolative_ sft, dpo, grpo or
    rloo, or FILE.py:CLASS; `judge` also takes dummy or a class. `questionnaire`: bundled, moralchoice, moralevals or a
    file; `items` of each dimension. `arguments` go to judge and examinee. docs/progress.md describes them all.
    """
    return timeline_task(
        "follow", judge, examinee, proxies, questionnaire, items, elicitation, cache, figures,
        arguments or {}, eras=eras, n=n, drift=drift, step=step, seed=seed,
    )  # fmt: skip
