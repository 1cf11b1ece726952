"""Judge score: the number that a progress judge of your own gives to its result.

inspect eval truthgym/progress_follow -T judge=mine.py:MyJudge --model reference/values
"""

import numpy as np
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, scorer
from inspect_ai.solver import TaskState

from truthgym.datasets.errors import validate_call
from truthgym.scorers.declaration import Figures, ScorerDeclaration, figures_metric, requested
from truthgym.scorers.progress.framework import JudgeBase
from truthgym.scorers.progress.judges import JUDGES, load_class
from truthgym.scorers.progress.record import Record, figure_table
from truthgym.scorers.statistics.interval import mean_estimate


def summarise_scores(scores: list[SampleScore]) -> dict[str, float]:
    """All figures of the scorer from its scores, the estimate first."""
    values, cluster, share = figure_table(scores, ("judge_score",))
    mean = mean_estimate(values["judge_score"], cluster)
    return {**mean.main_metrics("judge_score", share), **mean.cluster_metrics()}


judge_verdict = figures_metric("judge_verdict", summarise_scores)


@scorer(metrics=[judge_verdict()])
@validate_call
def judge_score(figures: Figures = "headline", judge: str = "") -> Scorer:
    """What the judge's `interpret_result` says of its result. Higher is better, by the contract of a judge.

    For judges of your own (`-T judge=FILE.py:CLASS`). It means what the judge makes it mean; the result's own `score`
    is not read. The metric is the mean with its companions (`scorers.declaration`), clustered by timeline. Makes no
    model call.

    Args:
        judge: The judge, as in `-T judge=`: it interprets the result when it is scored again. "": the number that was
            computed in the run is taken.

    Raises:
        BadInput: There is no such judge.
    """
    judge_class = load_class("judge", judge, JUDGES, JudgeBase) if judge else None  # type: ignore[type-abstract]

    async def score(state: TaskState, target: Target) -> Score:
        record = Record.of(state)
        interpreted = record.result.get("interpreted")
        if interpreted is not None and judge_class is not None:
            interpreted = judge_class.interpret_result(record.result)
        absent = {} if interpreted is not None else {"fault": "setting"}
        if absent:
            record.reason = (
                "The sample has no result of a progress judge; run truthgym/progress_follow, or score this log with "
                "graded or rubric."
            )
        value = np.nan if interpreted is None else float(interpreted)
        return Score(
            value={"judge_score": value},
            explanation=record.reason or f"{value:.4f}",
            metadata=record.facts(state) | requested(figures) | absent,
        )

    return score


DECLARATION = ScorerDeclaration(
    scorer=judge_score,
    question="What does a progress judge of your own say?",
    better="higher is better",
    needs="a timeline: a progress task",
    columns={"judge_score": "Judge"},
    figures=summarise_scores,
)
