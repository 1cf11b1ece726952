"""Progress, coevolve: does a model steer the moral change of the people who talk to it?

inspect eval truthgym/progress_coevolve --model reference/values
inspect eval truthgym/progress_coevolve -T examinee=frozen --model reference/values -M policy=pusher
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai import Task, task

from truthgym.models.agents.proxies import Proxies
from truthgym.models.agents.respondent import Elicitation
from truthgym.scorers.declaration import Figures
from truthgym.tasks.timelines import timeline_task


@task
def progress_coevolve(
    eras: str | Sequence[str] = "C013-C021",
    n: int = 30,
    drift: str | Sequence[str] = ("linear", "walk"),
    step: float = 0.25,
    seed: int = 0,
    examinee: str = "in_context",
    judge: str = "coevolve",
    proxies: Proxies = "simulated",
    questionnaire: str = "bundled",
    items: int | None = 4,
    elicitation: Elicitation = "logprobs",
    cache: bool = True,
    arguments: Mapping[str, Any] | None = None,
    figures: Figures = "headline",
) -> Task:
    """Let people hear their own era and the model, and compare with people who do not. Scored by value_influence.

    The arguments are those of `progress_follow`.
    """
    return timeline_task(
        "coevolve", judge, examinee, proxies, questionnaire, items, elicitation, cache, figures,
        arguments or {}, eras=eras, n=n, drift=drift, step=step, seed=seed,
    )  # fmt: skip
