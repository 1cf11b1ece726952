"""What the progress tasks share: timelines, the judge as solver, and its scorer."""

from collections.abc import Mapping
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import in_eval
from truthgym.datasets.progress.timelines import timelines
from truthgym.models.agents.proxies import ROLE, Proxies
from truthgym.models.agents.respondent import Elicitation
from truthgym.scorers.judge_score import judge_score
from truthgym.scorers.paradigm import Figures
from truthgym.scorers.progress.judges import CoevolveJudge
from truthgym.scorers.progress.timeline import JUDGES, timeline
from truthgym.scorers.value_influence import value_influence
from truthgym.scorers.value_tracking import value_tracking
from truthgym.solvers.roles import required_model
from truthgym.tasks.paradigms import DomainTask, viewer


def timeline_task(
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

    Raises:
        BadInput: An argument cannot be used, or proxies=personas without the role `human_proxy`.
    """
    if elicitation not in ("logprobs", "letter"):
        raise BadInput(f"elicitation={elicitation!r} cannot be used; give logprobs or letter")
    if proxies == "personas" and in_eval():
        required_model(ROLE)
    dataset = timelines(simulated=proxies == "simulated", **chosen)
    solver = timeline(judge, examinee, proxies, questionnaire, items, elicitation, cache, dict(arguments))
    measure = value_influence if JUDGES.get(judge) is CoevolveJudge else value_tracking
    scorers = [measure(figures=figures)] if judge in JUDGES else [judge_score(figures=figures)]
    name = measure.__name__ if judge in JUDGES else "judge_score"
    return DomainTask(dataset=dataset, solver=solver, scorer=scorers, epochs=1, version="1-A", viewer=viewer([name]))
