"""Grades an answer by a rubric reward: asks the judges, and makes one number of their votes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Annotated, Any, Literal, cast

import numpy as np
from inspect_ai.model import Model
from inspect_ai.util import collect
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, create_model

from truthgym.scorers.beliefs.escaping import material
from truthgym.scorers.graders.grader import CannotGrade, Grade, Grader, GraderInput
from truthgym.scorers.judges.asking import Form, ask, form_instruction, judge_failure, models_in
from truthgym.scorers.rubrics.extraction import extract
from truthgym.scorers.rubrics.reward import PROMPTS, Prompts, RubricReward, fill, grade_description, rubric_text
from truthgym.scorers.rubrics.rubric import RESERVED, Rubric, applicable

NA = "na"
"""The grade of a criterion that does not apply."""
Role = Literal["judge", "grader"]


def by_criteria(reward: RubricReward, role: Role = "judge", cache: bool = True, judges: Sequence[Model] = ()) -> Grader:
    """A grader by a rubric reward: 0 to 1, higher is better; `Grade.details` holds every vote that could be read."""
    forms = {rubric.digest: reply_form(rubric, PROMPTS[reward.protocol.language]) for rubric in reward.rubrics}

    async def function(given: GraderInput) -> Grade:
        rubric = applicable(reward.rubrics, given.prompt, given.question.domain)
        if rubric is None:
            raise CannotGrade("There is no rubric for this prompt, for its domain, or for all of them.", "setting")
        protocol = reward.protocol
        form = forms[rubric.digest]
        text, missed = extract(getattr(given, SOURCE[protocol.judged]), protocol.extraction)
        request = judge_request(reward, rubric, form, given.prompt, text)

        async def vote(judge: Model, draw: int) -> list[float] | str:
            try:
                answer = await ask(
                    judge, request, form, epoch=given.epoch, name="rubric", draw=draw, cache=cache,
                    instruction=PROMPTS[protocol.language].form,
                )  # fmt: skip
            except Exception as error:
                failures.append(judge_failure(judge, error))
                return failures[-1]
            repaired.append(answer.repaired)
            return _grades(answer.form, rubric) if answer.form else str(answer.reason)

        failures: list[str] = []
        repaired: list[bool] = []
        asked = judges or models_in(role)
        replies = await collect(*(vote(judge, draw) for judge in asked for draw in range(protocol.votes)))
        read = [reply for reply in replies if isinstance(reply, list)]
        unread = [reply for reply in replies if isinstance(reply, str)]
        if failures:  # the mean of the other votes would pass for the whole
            raise CannotGrade(failures[0], "unreachable")
        if not read:
            raise CannotGrade(unread[0], "judge")
        result = rubric_score(read, rubric.weights)
        details = {
            "rubric": rubric.digest,
            "criteria": _named(rubric, result.criteria),
            "votes": [None if isnan(vote) else round(vote, 6) for vote in result.votes],
            "grades": [[None if isnan(grade) else grade for grade in vote] for vote in read],
            "unread": unread,
            "repaired": sum(repaired),
            "missed": missed,
        }
        if isnan(result.score):
            return Grade(None, "The judge says of every criterion that it does not apply.", "judge", details=details)
        return Grade(result.score, explanation=_explain(rubric, result.criteria), details=details)

    return Grader("rubric", function, roles=() if judges else (role,))


SOURCE = {"answer": "completion", "trajectory": "trajectory"}
"""Field of `GraderInput` by `Protocol.judged`."""


def reply_form(rubric: Rubric, prompts: Prompts) -> type[Form]:
    """The form that a judge fills in: reasons, then a grade for each criterion."""
    whole = rubric.scale in ("binary", "ordinal")
    # As a list of values: servers of small models keep to a list in a schema, and not to a highest number.
    grade: Any = Literal[tuple(range(rubric.top + 1))] if whole else Annotated[float, Field(ge=0, le=rubric.top)]
    if rubric.allow_na:
        grade = grade | Literal["na"]
    described = Field(description=grade_description(rubric, prompts))
    fields: dict[str, Any] = {RESERVED: (str, Field(description=prompts.reasons))}
    fields |= {criterion.id: (grade, described) for criterion in rubric.criteria}
    return create_model("Grades", __base__=Form, **fields)


def judge_request(reward: RubricReward, rubric: Rubric, form: type[Form], prompt: str, answer: str) -> str:
    """The request to a judge, by the protocol's template."""
    prompts = PROMPTS[reward.protocol.language]
    parts = {
        "rubric": material("rubric", rubric_text(rubric, prompts)),
        "question": material("question", prompt),
        "answer": material("answer", answer),
        "form": form_instruction(form, prompts.form),
    }
    return fill(reward.protocol.template, parts)


def _grades(form: Form, rubric: Rubric) -> list[float]:
    """The grades of a form on the scale from 0 to 1, by the scale that the rubric declares; NaN for "na"."""
    answers = [getattr(form, criterion.id) for criterion in rubric.criteria]
    return [np.nan if grade == NA else float(cast(float, grade)) / rubric.top for grade in answers]


def _named(rubric: Rubric, grades: Sequence[float] | np.ndarray) -> dict[str, float | None]:
    return {
        criterion.id: None if isnan(grade) else round(float(grade), 6)
        for criterion, grade in zip(rubric.criteria, grades, strict=True)
    }


def _explain(rubric: Rubric, grades: np.ndarray) -> str:
    named = _named(rubric, grades)
    return ", ".join(f"{name} {'does not apply' if grade is None else f'{grade:.2g}'}" for name, grade in named.items())


@dataclass(frozen=True)
class RubricScore:
    """An answer's score. NaN if no criterion was graded."""

    score: float
    """Weighted mean of the criteria's grades, in [0, 1]; higher is better."""
    criteria: NDArray[np.float64]
    """Mean grade of each criterion over votes, in [0, 1]; NaN if every vote says that it does not apply."""
    votes: NDArray[np.float64]
    """Score of each vote by itself; NaN if it graded nothing."""


def rubric_score(grades: ArrayLike, weights: Sequence[float]) -> RubricScore:
    """The mean of the grades by the weights of the criteria; a criterion that does not apply leaves both sums."""
    table = np.atleast_2d(np.asarray(grades, dtype=float))
    weight = np.asarray(weights, dtype=float)
    graded = np.isfinite(table)
    sums = np.where(graded, table, 0).sum(axis=0)
    criteria = np.divide(sums, graded.sum(axis=0), out=np.full(weight.size, np.nan), where=graded.any(axis=0))
    votes = np.array([_weighted(row, weight) for row in table])
    return RubricScore(_weighted(criteria, weight), criteria, votes)


def _weighted(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    graded = np.isfinite(values)
    if not graded.any():
        return np.nan
    kept = weights[graded]
    return float(np.average(values[graded], weights=kept if kept.sum() > 0 else None))


def repeat_sd(votes: Sequence[Sequence[float | None]]) -> float:
    """Standard deviation of one vote's score about the answer's own mean; 0 is a judge that repeats itself."""
    groups = [[vote for vote in group if vote is not None] for group in votes]
    variances = [np.var(group, ddof=1) for group in groups if len(group) > 1]
    return float(np.sqrt(np.mean(variances))) if variances else np.nan
