"""ProgressGym's tasks: can a model follow, foresee, and not steer the moral change of the people it talks to?

inspect eval truthgym/progress_follow --model reference/values
inspect eval truthgym/progress_follow -T proxies=personas --model-role human_proxy=openai/gpt-5.4-mini --model ...
inspect eval truthgym/progress_predict -T timesteps_ahead=2 -T examinee=in_context --model ...
inspect eval truthgym/progress_coevolve -T examinee=frozen --model reference/values -M policy=pusher
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from inspect_ai import Task

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import in_eval
from truthgym.datasets.progress import timelines
from truthgym.models.agents.respondent import ROLE, Elicitation, Proxies, trained_people
from truthgym.scorers.declaration import Figures
from truthgym.scorers.judge_score import judge_score
from truthgym.scorers.progress.judges import JUDGES, timeline
from truthgym.scorers.value_influence import value_influence
from truthgym.scorers.value_tracking import value_tracking
from truthgym.solvers.roles import required_model
from truthgym.tasks.domain_task import DomainTask, taking, task, viewer


def timeline_task(
    own: str,
    eras: str | Sequence[str] = "C013-C021",
    n: int = 30,
    drift: str | Sequence[str] = ("linear", "walk"),
    step: float = 0.25,
    seed: int = 0,
    examinee: str = "in_context",
    judge: str = "",
    proxies: Proxies = "simulated",
    questionnaire: str = "bundled",
    items: int | None = None,
    elicitation: Elicitation = "logprobs",
    cache: bool = True,
    timesteps_ahead: int | None = 1,
    extrapolation_order: int | None = 1,
    arguments: Mapping[str, Any] | None = None,
    figures: Figures = "headline",
) -> DomainTask:
    """Compose a progress task. See `timelines`, `timeline` and docs/progress.md. `own` is the judge that makes it."""
    if elicitation not in ("logprobs", "letter"):
        raise BadInput(f"elicitation={elicitation!r} cannot be used; give logprobs or letter")
    if judge in JUDGES and judge not in (own, f"{own}_sft", "dummy"):
        raise BadInput(
            f"judge={judge} is that of truthgym/progress_{judge}: run it, or give {own}, dummy or FILE.py:CLASS"
        )
    if proxies == "personas" and in_eval():
        required_model(ROLE)
    dataset = timelines(eras, n, drift, step, seed, proxies == "simulated", [*trained_people(proxies)])
    ahead = {"timesteps_ahead": timesteps_ahead, "extrapolation_order": extrapolation_order}
    given = {**(ahead if own == "predict" else {}), **(arguments or {})}
    solver = timeline(judge, examinee, proxies, questionnaire, items, elicitation, cache, given)
    if judge.removesuffix("_sft") == own:
        measure = value_influence if own == "coevolve" else value_tracking
        name, scorer = measure.__name__, measure(figures=figures)
    else:
        name, scorer = "judge_score", judge_score(figures=figures, judge=judge)
    return DomainTask(dataset=dataset, solver=solver, scorer=[scorer], epochs=1, version="2-A", viewer=viewer([name]))


def _as_timeline(**own: object) -> Callable[[Callable[..., Task]], Callable[..., Task]]:
    """A task that takes what `timeline_task` takes, with defaults of its own; without those that are None."""
    parameters = list(signature(timeline_task).parameters.values())[1:]
    kept = [p.replace(default=own.get(p.name, p.default)) for p in parameters if own.get(p.name, "") is not None]
    return lambda function: taking(kept, function, function)


@task
@_as_timeline(judge="follow", timesteps_ahead=None, extrapolation_order=None)
def progress_follow(**given: Any) -> Task:
    """Compare a model's values, after it has learned from each era, with those of its people. Scored by value_tracking.

    `n` simulated timelines are made from `seed`, whose people change by about `step` (log-odds) an era: `drift` linear,
    walk (by steps drawn anew), turn or still. With `proxies` personas, checkpoints or {C013: MODEL, ...} there is one
    timeline; a folder that the examinee human_proxies has filled has its own. `examinee`: frozen, in_context,
    value_memo, extrapolating, lifelong_ or extrapolative_ sft, dpo, grpo or rloo, human_proxies, or FILE.py:CLASS;
    `judge` also takes dummy or a class. `questionnaire`: bundled, moralchoice, moralevals or a file; `items` of each
    dimension. `arguments` go to judge and examinee. docs/progress.md describes them all.
    """
    return timeline_task("follow", **given)


@task
@_as_timeline(judge="predict", examinee="extrapolating")
def progress_predict(**given: Any) -> Task:
    """Compare a model's values in each era with those of people `timesteps_ahead` eras later. Scored by value_tracking.

    `extrapolation_order` is that of the examinees that extrapolate. The other arguments are those of `progress_follow`.
    """
    return timeline_task("predict", **given)


@task
@_as_timeline(judge="coevolve", items=4, timesteps_ahead=None, extrapolation_order=None)
def progress_coevolve(**given: Any) -> Task:
    """Let people hear their own era and the model, and compare with people who do not. Scored by value_influence.

    With `judge` coevolve_sft people are trained on what they hear. The arguments are those of `progress_follow`.
    """
    return timeline_task("coevolve", **given)
