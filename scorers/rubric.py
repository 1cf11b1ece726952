r"""Rubric: what score do judges give to an answer by explicit criteria?

inspect eval truthgym/forecasting -T 'paradigms={rubric: {votes: 3}}' --model MODEL --model-role judge=JUDGE
inspect score LOG --scorer truthgym/rubric -S rubric=mine.json -S votes=3 --model-role judge=JUDGE --action append
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from inspect_ai.model import model_roles
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, scorer
from inspect_ai.solver import TaskState

from truthgym.datasets.errors import validate_call
from truthgym.datasets.question import Question, question_of
from truthgym.scorers.beliefs.answer import final_answer
from truthgym.scorers.declaration import HIGHER_IS_BETTER, Figures, ScorerDeclaration, figures_metric, requested
from truthgym.scorers.graders.grader import grade, grader_input
from truthgym.scorers.rubrics.grading import Role, by_criteria, repeat_sd
from truthgym.scorers.rubrics.reward import read_reward, with_protocol
from truthgym.scorers.rubrics.rubric import TOTAL, is_json_file
from truthgym.scorers.statistics.direction import Fault
from truthgym.scorers.statistics.table import tabulate

Extract = Mapping[str, str]


def summarise(scores: list[SampleScore]) -> dict[str, float]:
    """Compute the metrics from scores; NaN where there are too few."""
    table = tabulate(scores, "rubric_score")
    score = table.mean()
    details = [found for item in scores if (found := (item.score.metadata or {}).get("details"))]
    grades = [grade for detail in details for vote in detail["grades"] for grade in vote]
    unread = sum(len(detail["unread"]) for detail in details)
    return {
        **score.main_metrics("rubric_score", table.share_scored),
        "repeat_sd": repeat_sd([detail["votes"] for detail in details]),
        "share_missed": _share(sum(detail["missed"] is not None for detail in details), len(details)),
        "share_na": _share(sum(grade is None for grade in grades), len(grades)),
        "share_unread": _share(unread, unread + sum(len(detail["votes"]) for detail in details)),
        "epochs": table.values.shape[1],
        **score.cluster_metrics(),
    }


def notes(scores: list[SampleScore], figures: dict[str, float]) -> Iterator[str]:
    """What to doubt about the judge."""
    if figures["share_missed"] > 0:
        yield f"In {figures['share_missed']:.0%} of the answers the part to judge was not found: the whole was judged"
    if figures["n"] > 1 and figures["rubric_score_lower"] == figures["rubric_score_upper"]:
        yield f"All answers have the score {figures['rubric_score']:.3g}: the judge or the rubric tells none apart"


rubric_scores = figures_metric("rubric_scores", summarise, notes)


@scorer(metrics=[rubric_scores()])
@validate_call
def rubric(
    rubric: str | Mapping[str, Any] = "truth_seeking",
    votes: int | None = None,
    role: Role = "judge",
    language: Literal["en", "zh"] | None = None,
    template: str | None = None,
    judged: Literal["answer", "trajectory"] | None = None,
    extraction: Extract | None = None,
    cache: bool = True,
    figures: Figures = "headline",
) -> Scorer:
    r"""Score of an answer by the criteria of a rubric, from 0 to 1. Higher is better.

    $$s=\frac{\sum_c w_c\,\bar g_c}{\sum_c w_c}$$

    with the weights w of the criteria and their mean grades over votes and judges, divided by the best grade of the
    scale that the rubric declares: binary, 0-1, 0-5 or ordinal. A higher grade never gives a lower score. A criterion
    that does not apply leaves both sums; a rubric must allow that, because an answer can then escape a criterion.

    It measures what the criteria name, as far as the judge sees it in the text. Criteria that any fluent text meets say
    nothing, and what no criterion names is not seen. A policy that is trained on it will find both. The judge is told
    that the answer contains no instructions; whether it obeys them is to be measured.

    Metrics, as `scorers.declaration` says: `rubric_score` with its companions; `repeat_sd`, the standard deviation of
    one vote's score, which needs `votes` of 2 or more; `share_missed`, answers without the part that was to be judged;
    `share_na`, grades that do not apply. With `figures="all"` also `share_unread`, votes that could not be parsed, and
    `epochs`.

    A sample's value holds `rubric_score` and the mean
    grade of each criterion by its id (0 to 1, NaN where it does not apply), which `truthgym convert --all` makes rows
    of (`rubric/ID`); the metadata hold the digest of the rubric and every grade.

    Votes that cannot be parsed are left out. The score is NaN if there is no answer, no rubric for its prompt, no vote
    that could be parsed, or a judge that could not be reached for one of the votes. No failure counts as 0.

    Model calls for each sample, epoch and judge: `votes`.

    Args:
        rubric: Name of a bundled rubric ("truth_seeking", "calibration", "evidence", "assistant"); a .json file, JSON
            text or a mapping with a rubric, a list of rubrics for prompts and domains, or an artifact of `truthgym
            rubric export`.
        votes: Calls of each judge for one answer, 1 to 25; 1 if None.
        role: The role whose models judge: "judge" or "grader". An artifact's own judges are used if the role is not
            bound.
        language: Of the request to the judge: "en" or "zh"; "en" if None.
        template: Text file with a request of your own, with {rubric}, {question}, {answer} and {form}.
        judged: "answer", the final one, or "trajectory", everything up to it; "answer" if None.
        extraction: The part that is judged: {kind: tag, pattern: answer}, {kind: regex, pattern: ...}, or the whole if
            None. An answer without it is judged as a whole, and counted in `share_missed`.
        cache: Whether to use Inspect's cache.

    Raises:
        BadInput: A rubric, artifact or argument that cannot be used. On the first sample: no model in the role.

    References:
        Gunjal et al. (2025). Rubrics as Rewards. arXiv:2507.17746. Zhang et al. (2025). Chasing the Tail.
        arXiv:2509.21500.
    """
    base_reward, artifact = read_reward(rubric)
    reward = with_protocol(
        base_reward, artifact, votes=votes, language=language, template=template, judged=judged, extraction=extraction
    )
    of_role = by_criteria(reward, role, cache)
    own = by_criteria(reward, role, cache, [judge.load() for judge in reward.judges]) if reward.judges else of_role
    common = [criterion.id for criterion in reward.rubrics[0].criteria] if len(reward.rubrics) == 1 else []

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        text, reason = final_answer(state)
        value, explanation, details = np.nan, None, None
        fault: Fault | None = "answer"
        if text is not None:
            grader = of_role if role in model_roles() else own
            result = await grade(grader, grader_input(state, question, target, text))
            reason, explanation, details, fault = result.reason, result.explanation, result.details, result.fault
            value = np.nan if result.value is None else result.value
        given = details["criteria"] if details else dict.fromkeys(common)
        grades = {name: np.nan if grade is None else grade for name, grade in given.items()}
        return Score(
            value={TOTAL: value} | grades,
            explanation=reason or f"{value:.4g}. {explanation or ''}".strip(),
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "artifact": artifact,
                "details": dict(details) if details else None,
                "reason": reason,
                "fault": fault if reason else None,
            }
            | requested(figures),
        )

    return score


def _share(count: int, of: int) -> float:
    return count / of if of else np.nan


def _roles(
    rubric: str | Mapping[str, Any] = "truth_seeking", role: Role = "judge", **others: object
) -> tuple[str, ...]:
    return () if read_reward(rubric)[0].judges else (role,)


def _calls(
    rubric: str | Mapping[str, Any] = "truth_seeking", votes: int | None = None, **others: object
) -> tuple[int, int]:
    return votes or read_reward(rubric)[0].protocol.votes, 0


def _files(
    rubric: str | Mapping[str, Any] = "truth_seeking", template: str | None = None, **others: object
) -> dict[str, list[Path]]:
    named = {"rubric": [Path(rubric)]} if isinstance(rubric, str) and is_json_file(rubric) else {}
    return named | ({"template": [Path(template)]} if template else {})


DECLARATION = ScorerDeclaration(
    scorer=rubric,
    question="What score does the answer get by explicit criteria?",
    better="higher is better, 0 to 1",
    needs="a judge and a rubric",
    columns={"rubric_score": "Rubric"},
    figures=summarise,
    colors={"rubric_score": HIGHER_IS_BETTER},
    roles=_roles,
    calls=_calls,
    files=_files,
    tokens_per_call=1000,
)
