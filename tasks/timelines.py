"""What the progress tasks share: timelines, the judge as solver, and its scorer."""

from collections.abc import Mapping
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import in_eval
from truthgym.datasets.progress.timelines import timelines
from truthgym.models.agents.proxies import ROLE, Proxies
from truthgym.models.agents.respondent import Elicitation
from truthgym.scorers.declaration import Figures
from truthgym.scorers.judge_score import judge_score
from truthgym.scorers.progress.timeline import JUDGES, timeline
from truthgym.scorers.value_influence import value_influence
from truthgym.scorers.value_tracking import value_tracking
from truthgym.solvers.roles import required_model
from truthgym.tasks.domain_task import DomainTask, viewer


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

    Raises:
        BadInput: Another task's judge, an argument cannot be used, or proxies=personas without the role `human_proxy`.
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
