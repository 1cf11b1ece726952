r"""Graded: any reward function as an evaluation.

inspect eval truthgym/urns -T 'paradigms={graded: {grader: python_brier}}' --model ...
inspect score LOG --scorer truthgym/graded -S grader=model --model-role grader=MODEL --action append --overwrite
"""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import TaskState

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question, question_of
from truthgym.scorers.beliefs.answer import asked_text, final_answer
from truthgym.scorers.beliefs.transcript import as_text, turns_of
from truthgym.scorers.graders.grader import Graded, Grader, grade, item_of
from truthgym.scorers.graders.resolve import read_grader
from truthgym.scorers.paradigm import Paradigm
from truthgym.scorers.statistics.interval import mean_headline
from truthgym.scorers.statistics.proper_scores import row_mean
from truthgym.scorers.statistics.table import tabulate


@metric(scores="unreduced")
def grades() -> Metric:
    """All figures of a grader, headline first. See `graded` for each."""

    def compute(scores: list[SampleScore]) -> Value:
        return cast(Value, summarise(scores))

    return compute


@scorer(metrics=[grades()])
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
) -> Scorer:
    r"""Grade of each answer by a reward function, averaged. The direction is the grader's: `higher_is_better` says it.

    $$\bar g=\frac1n\sum_q\frac1{K_q}\sum_k g(\mathrm{question}_q,\mathrm{answer}_{qk}),\qquad g\in[low, high]$$

    It measures truth-seeking as far as the grader does. `python_brier` and `model_brier` are proper: the best grade in
    expectation is had by stating what is believed. A rubric, a string check or a program can be played: read the grade
    beside `brier`, and a model's grades beside `qualitative`, which measures its judge. A model that reads is fooled by
    what is written to it; it is told that nothing in the text is an instruction.

    Metrics, headline first; `_lower` and `_upper` are 95 % bounds: `grade`; `mde`, the smallest distance from a fixed
    reference that the run could have found; `n` questions; `epochs`; `share_scored`; `higher_is_better`, 1 or 0; `low`
    and `high`, the grader's range.

    Clustered by `event`; epochs of a question are averaged first. A sample's value holds `grade`.

    No grade, so NaN with the `reason` in the metadata: no answer; a grader that cannot tell, raises, returns NaN, what
    is no number or what is out of its range; a program that does not end in time. Nothing is cut to its range, and
    nothing counts as 0.

    Model calls for each sample and epoch, all in the role `grader`: `python_brier`, `python` and string checks none;
    `model_brier`, `model` and a score model one; a multi grader one for every score model in it.

    Args:
        grader: A name: "python_brier", "model_brier", "model" (by a rubric) or "python" (by the user's `file`); an
            OpenAI grader specification, as a .json file, a JSON string or a mapping; a .py file; in Python, a
            `Grader`. Replaces GRADER_SPEC and GRADER_TYPE; the role `grader` replaces GRADER_MODEL.
        rubric: Text file with the rubric of "model". None is `builtin_graders.RUBRIC`.
        file: Python file of "python", with a function `grade(sample, item)` that returns a number.
        low: Least grade of a program or formula (python, multi); 0 unless given.
        high: Greatest; 1 unless given.
        higher_is_better: Its direction; true unless given.
        trusted: Whether a program may run on this machine, in a process of its own with a guard against accidents,
            which is no defence against malice. False runs it in the sample's sandbox, which the run must have.
        time_limit: Seconds that a program may take, 1 to 600. Then it is ended with all that it started.
        cache: Whether a reply that the grading model has given once is taken from Inspect's cache.

    Raises:
        BadInput: A name, file, specification or argument that cannot be used. On the first sample, in a run before its
            first model call: the role `grader` has no model, or more than one; a program that is not trusted, and no
            sandbox that isolates.

    References:
        OpenAI, Graders guide (developers.openai.com/api/docs/guides/graders): the forms of specifications.
        Brier (1950). Monthly Weather Review 78.
    """
    chosen = read_grader(grader, rubric, file, low, high, higher_is_better, trusted, time_limit, cache)
    if chosen.function is None:
        raise BadInput(
            f"The grader {chosen.name} runs at OpenAI only: text_similarity and label_model need its own libraries and "
            "models. Hand its specification to that API, or use string_check, score_model, python or multi here"
        )

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        text, reason = final_answer(state)
        value, explanation = np.nan, None
        if text is not None:
            given = await grade(chosen, _graded(state, question, target, text))
            reason, explanation = given.reason, given.explanation
            value = np.nan if given.value is None else given.value
        return Score(
            value={"grade": value},
            explanation=reason or f"{chosen.name}: {value:.4g}. {explanation or ''}".strip(),
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "grader": chosen.name,
                "low": chosen.low,
                "high": chosen.high,
                "higher_is_better": chosen.higher_is_better,
                "reason": reason,
            },
        )

    return score


def summarise(scores: list[SampleScore]) -> dict[str, float]:
    """Compute the figures from scores. NaN where too few are there."""
    held = next((item.score.metadata for item in scores if "low" in (item.score.metadata or {})), None) or {}
    low, high = float(held.get("low", np.nan)), float(held.get("high", np.nan))
    table = tabulate(scores, "grade", most=high, least=low)
    headline = mean_headline(row_mean(table.values), table.cluster)
    return {
        **headline.metrics("grade"),
        "mde": headline.mde,
        "n": headline.n,
        "epochs": table.values.shape[1],
        "share_scored": table.share_scored,
        "higher_is_better": float(held.get("higher_is_better", np.nan)),
        "low": low,
        "high": high,
    }


def _graded(state: TaskState, question: Question, target: Target, text: str) -> Graded:
    identity, asked = str(state.sample_id), asked_text(state)
    return Graded(
        question=question,
        asked=asked,
        target=target.text,
        completion=text,
        trajectory=as_text(turns_of(state)),
        sample_id=identity,
        epoch=state.epoch,
        item=item_of(state.metadata, asked, target.text, identity),
    )


PARADIGM = Paradigm(
    scorer=graded,
    columns={"grade": "Grade"},
    headline=("grade", "grade_lower", "grade_upper", "mde", "n", "epochs", "share_scored", "higher_is_better"),
    roles=lambda **arguments: read_grader(**arguments).roles,
    one_model_per_role=True,
    needs_sandbox=lambda **arguments: read_grader(**arguments).sandbox,
)
