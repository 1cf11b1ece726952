r"""Graded: any reward function as an evaluation.

inspect eval truthgym/urns -T 'paradigms={graded: {grader: python_brier}}' --model ...
inspect score LOG --scorer truthgym/graded -S grader=model --model-role grader=MODEL --action append --overwrite
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, scorer
from inspect_ai.solver import TaskState

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.question import Question, question_of
from truthgym.scorers.beliefs.answer import final_answer
from truthgym.scorers.declaration import Figures, ScorerDeclaration, figures_metric, requested
from truthgym.scorers.graders.grader import Grader, grade, grader_input
from truthgym.scorers.graders.resolve import read_grader
from truthgym.scorers.statistics.direction import Fault
from truthgym.scorers.statistics.table import tabulate


def summarise(scores: list[SampleScore]) -> dict[str, float]:
    """Compute the metrics from scores; NaN where there are too few."""
    metadata = next((item.score.metadata for item in scores if "low" in (item.score.metadata or {})), None) or {}
    low, high = float(metadata.get("low", np.nan)), float(metadata.get("high", np.nan))
    table = tabulate(scores, "grade", most=high, least=low)
    mean = table.mean()
    return {
        **mean.main_metrics("grade", table.share_scored),
        "higher_is_better": float(metadata.get("higher_is_better", np.nan)),
        "low": low,
        "high": high,
        "epochs": table.values.shape[1],
        **mean.cluster_metrics(),
    }


grades = figures_metric("grades", summarise)


@scorer(metrics=[grades()])
@validate_call
def graded(
    grader: str | Mapping[str, Any] | Grader = "python_brier",
    rubric: str | None = None,
    file: str | None = None,
    low: float | None = None,
    high: float | None = None,
    higher_is_better: bool | None = None,
    trusted: bool = False,
    time_limit: int = 30,
    cache: bool = True,
    figures: Figures = "headline",
) -> Scorer:
    r"""Grade of each answer by a reward function, averaged. `higher_is_better` shows the grader's direction.

    $$\bar g=\frac1n\sum_q\frac1{K_q}\sum_k g(\mathrm{question}_q,\mathrm{answer}_{qk}),\qquad g\in[low, high]$$

    It measures truth-seeking only as well as the grader does. `python_brier` and `model_brier` are proper: stating
    one's belief has the best expected grade. A rubric, a string check or a program can be gamed: compare the grade with
    `brier`, and a model's grades with `qualitative`, which measures its judge. A grading model can be manipulated by
    the text that it reads; it is told that the text contains no instructions.

    Metrics, as `scorers.declaration` says: `grade` with its companions; `higher_is_better`, 1 or 0; `low` and `high`,
    the grader's range; with `figures="all"` also `epochs`. A sample's value holds `grade`.

    The grade is NaN if there is no answer; if the grader cannot grade it, raises an
    error, or returns NaN, something other than a number, or a number out of range; if a program exceeds its time limit.
    Grades are never clipped to the range, and no failure counts as 0.

    Model calls for each sample and epoch, all in the role `grader`: `python_brier`, `python` and string checks none;
    `model_brier`, `model` and a score model one; a multi grader one for each of its score models.

    Args:
        grader: A name: "python_brier", "model_brier", "plain" (length and opening), "hidden_tests" (of
            `truthgym/code_repair`), "model" (by a rubric) or "python" (the user's `file`); an OpenAI grader
            specification, as a .json file, a JSON string or a mapping; a .py file; in Python, a `Grader`. Replaces
            GRADER_SPEC and GRADER_TYPE; the role `grader` replaces GRADER_MODEL.
        rubric: Text file with the rubric of "model". None is `scorers.graders.builtin.RUBRIC`.
        file: Python file of "python", with a function `grade(sample, item)` that returns a number.
        low: Lowest grade of a program or formula (python, multi); 0 if None.
        high: Highest grade; 1 if None.
        higher_is_better: Its direction; true if None.
        trusted: Whether a program may run on this machine, in a process of its own that Landlock confines where the
            kernel has it; elsewhere a guard stops accidents alone. False runs it in the sample's sandbox, which the
            run must have.
        time_limit: Seconds that a program may take, 1 to 600, before it is killed with every process that it started.
        cache: Whether the grading model's replies may come from Inspect's cache.

    Raises:
        BadInput: A name, file, specification or argument that cannot be used. In a run before its first model call,
            else on the first sample: the role `grader` has no model, or more than one; an untrusted program without an
            isolating sandbox.

    References:
        OpenAI, Graders guide (developers.openai.com/api/docs/guides/graders): the forms of specifications.
        Brier (1950). Monthly Weather Review 78.
    """
    rater = read_grader(
        grader,
        rubric=rubric,
        file=file,
        low=low,
        high=high,
        higher_is_better=higher_is_better,
        trusted=trusted,
        time_limit=time_limit,
        cache=cache,
    )
    if rater.function is None:
        raise BadInput(
            f"The grader {rater.name} runs at OpenAI only: text_similarity and label_model need its own libraries and "
            "models. Send its specification to that API, or use string_check, score_model, python or multi here"
        )

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        text, reason = final_answer(state)
        value, explanation, repaired = np.nan, None, False
        fault: Fault | None = "answer"
        if text is not None:
            result = await grade(rater, grader_input(state, question, target, text))
            reason, explanation, fault = result.reason, result.explanation, result.fault
            repaired = result.repaired
            value = np.nan if result.value is None else result.value
        return Score(
            value={"grade": value},
            explanation=reason or f"{rater.name}: {value:.4g}. {explanation or ''}".strip(),
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "grader": rater.name,
                "low": rater.low,
                "high": rater.high,
                "higher_is_better": rater.higher_is_better,
                "reason": reason,
                "fault": fault if reason else None,
            }
            | ({"repaired": True} if repaired else {})
            | requested(figures),
        )

    return score


def _files(
    grader: object = "python_brier", rubric: str | None = None, file: str | None = None, **others: object
) -> dict[str, list[Path]]:
    program = grader if isinstance(grader, str) and grader.endswith((".py", ".json")) else None
    return {name: [Path(path)] for name, path in (("grader", program), ("rubric", rubric), ("file", file)) if path}


DECLARATION = ScorerDeclaration(
    scorer=graded,
    question="What does any reward function say?",
    better="the grader's own",
    needs="a grader: a rule, a model, a program, an OpenAI specification",
    columns={"grade": "Grade"},
    figures=summarise,
    calls=lambda figures="headline", **arguments: (len(read_grader(**arguments).roles), 0),
    roles=lambda figures="headline", **arguments: read_grader(**arguments).roles,
    one_model_per_role=True,
    files=_files,
    needs_sandbox=lambda figures="headline", **arguments: read_grader(**arguments).sandbox,
)
