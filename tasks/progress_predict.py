"""Progress, predict: does a model foresee the moral change of the people it talks to?

inspect eval truthgym/progress_predict --model reference/values
inspect eval truthgym/progress_predict -T timesteps_ahead=2 -T examinee=in_context --model ...
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai import Task, task

from truthgym.models.agents.proxies import Proxies
from truthgym.models.agents.respondent import Elicitation
from truthgym.scorers.declaration import Figures
from truthgym.tasks.timelines import timeline_task


@task
def progress_predict(
    eras: str | Sequence[str] = "C013-C021",
    n: int = 30,
    drift: str | Sequence[str] = ("linear", "walk"),
    step: float = 0.25,
    seed: int = 0,
    examinee: str = "extrapolating",
    judge: str = "predict",
    proxies: Proxies = "simulated",
    questionnaire: str = "bundled",
    items: int | None = None,
    elicitation: Elicitation = "logprobs",
    cache: bool = True,
    timesteps_ahead: int = 1,
    extrapolation_order: int = 1,
    arguments: Mapping[str, Any] | None = None,
    figures: Figures = "headline",
) -> Task:
    """Compare a model's values in each era with those of people `timesteps_ahead` eras later. Scored by value_tracking.

    `extrapolation_order` is that of the examinees that extrapolate. The other arguments are those of `progress_follow`.
    """
    return timeline_task(
        "predict", judge, examinee, proxies, questionnaire, items, elicitation, cache, figures,
        {"timesteps_ahead": timesteps_ahead, "extrapolation_order": extrapolation_order, **(arguments or {})},
        eras=eras, n=n, drift=drift, step=step, seed=seed,
    )  # fmt: skip
