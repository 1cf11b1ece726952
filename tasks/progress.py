"""ProgressGym's tasks: can a model follow, foresee, and not steer the moral change of the people it talks to?

inspect eval truthgym/progress_follow --model reference/values
inspect eval truthgym/progress_follow -T proxies=personas --model-role human_proxy=openai/gpt-5.4-mini --model ...
inspect eval truthgym/progress_predict -T timesteps_ahead=2 -T examinee=in_context --model ...
inspect eval truthgym/progress_coevolve -T examinee=frozen --model reference/values -M policy=pusher
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai import Task

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import in_eval
from truthgym.datasets.progress import timelines
from truthgym.models.agents.respondent import ROLE, Elicitation, Proxies
from truthgym.scorers.declaration import Figures
from truthgym.scorers.judge_score import judge_score
from truthgym.scorers.progress.judges import JUDGES, timeline
from truthgym.scorers.value_influence import value_influence
from truthgym.scorers.value_tracking import value_tracking
from truthgym.solvers.roles import required_model
from truthgym.tasks.domain_task import DomainTask, task, viewer


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


def timeline_task(
    own: str,
    judge: str,
    examinee: str,
    proxies: Proxies,
    questionnaire: str,
    items: int | None,
    elicitation: Elicitation,
    cache: bool,
    figures: Figures,
    arguments: Mapping[str, Any],
    **chosen: Any,  # noqa: ANN401 (of `timelines`)
) -> DomainTask:
    """Compose a progress task. See `timelines`, `timeline` and docs/progress.md.

    `own` is the judge that makes the task.
    """
    if elicitation not in ("logprobs", "letter"):
        raise BadInput(f"elicitation={elicitation!r} cannot be used; give logprobs or letter")
    if judge in JUDGES and judge not in (own, "dummy"):
        raise BadInput(
            f"judge={judge} is that of truthgym/progress_{judge}: run it, or give {own}, dummy or FILE.py:CLASS"
        )
    if proxies == "personas" and in_eval():
        required_model(ROLE)
    dataset = timelines(simulated=proxies == "simulated", **chosen)
    solver = timeline(judge, examinee, proxies, questionnaire, items, elicitation, cache, dict(arguments))
    if judge == own:
        measure = value_influence if own == "coevolve" else value_tracking
        name, scorer = measure.__name__, measure(figures=figures)
    else:
        name, scorer = "judge_score", judge_score(figures=figures, judge=judge)
    return DomainTask(dataset=dataset, solver=solver, scorer=[scorer], epochs=1, version="2-A", viewer=viewer([name]))
