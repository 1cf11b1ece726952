"""The Question contract: what every domain passes to solvers and scorers.

A domain is a list of Inspect Samples. Each has a stable string id, the question as `input` (without format
instructions, which solvers add), a `target` of "yes" or "no" where truth is known, and a `Question` as metadata, which
`state.metadata_as(Question)` reads.
"""

import re
from datetime import date
from typing import Annotated, Any, Literal, TypeVar

from inspect_ai.dataset import Sample
from inspect_ai.solver import TaskState
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, ValidationError, model_validator

from truthgym.datasets.errors import BadInput, bad_fields
from truthgym.datasets.splits import Split as Split
from truthgym.datasets.splits import split_of as split_of

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def _is_day(value: object) -> object:
    # Pydantic would take a number for seconds since 1970.
    if not isinstance(value, date) and not (isinstance(value, str) and _DAY.fullmatch(value)):
        raise ValueError("write a day such as 2025-06-01")
    if str(value) > str(date.today()):
        raise ValueError("it is in the future; correct the day or remove the row")
    return value


Day = Annotated[date, BeforeValidator(_is_day)]
"""A day that has passed, as a date or as text such as "2025-06-01"."""
Text = Annotated[str, StringConstraints(strict=True, pattern=r"\S")]
"""Text that is not empty."""
Probability = Annotated[float, Field(strict=True, ge=0, le=1)]
Outcome = Literal["yes", "no"]


class Question(BaseModel, frozen=True, defer_build=True):
    """The metadata of a question. Domains add fields in a subclass."""

    domain: str
    form: Literal["binary", "options", "free"] = "binary"
    options: list[str] = []
    proposition: str | None = None
    """A statement that is true or false. A belief is its probability. Every binary question has one."""
    evidence: list[Text] = []
    """Pieces in order. Stepwise solvers reveal them one by one, `direct` all at once; a prior never sees them."""
    event: Text
    """The clustering unit: questions that resolve together share it."""
    split: Split
    opened_on: Day | None = None
    """The day on which the question is asked: later texts may reveal the outcome. None if time does not matter."""
    known_on: Day | None = None
    """The day the truth became public, for the contamination filter."""
    base_rate: Probability | None = None
    """Probability of "yes" in the question's reference class, in [0, 1]."""
    crowd: Probability | None = None
    """Probability that human forecasters or a market gave when the question was asked, in [0, 1]."""

    @model_validator(mode="after")
    def _is_consistent(self) -> "Question":
        if len(set(self.options)) < len(self.options):
            raise ValueError(f"two of the options {self.options!r} are equal; change or remove one")
        if self.form == "binary" and not (self.proposition or "").strip():
            raise ValueError(
                "a binary question needs a `proposition`: the statement whose probability is asked for, "
                'such as "It rains in Paris on 1 May 2024."'
            )
        if self.opened_on and self.known_on and self.opened_on >= self.known_on:
            raise ValueError(f"opened_on {self.opened_on} is not before known_on {self.known_on}; correct one of them")
        return self


def may_be_shown_with(question: Question, event: str, proposition: str | None, opened_on: date | None) -> bool:
    """Whether another question may be shown with this one: different event and proposition, and not asked later."""
    same = event == question.event or (proposition is not None and proposition == question.proposition)
    return not same and not (question.opened_on and opened_on and opened_on > question.opened_on)


AnyQuestion = TypeVar("AnyQuestion", bound=Question)


def question(kind: type[AnyQuestion], where: str, /, **fields: Any) -> AnyQuestion:  # noqa: ANN401
    """Build a question of the given kind. Its event decides its split.

    Args:
        kind: `Question` or a domain's subclass.
        where: The place to name in an error, such as "forecasting.jsonl line 12".
        **fields: The question's fields, not yet validated.

    Raises:
        BadInput: Fields are missing, of the wrong type or outside their range, or a day is in the future.
    """
    try:
        return kind(split=split_of(str(fields.get("event", ""))), **fields)
    except ValidationError as error:
        raise bad_fields(where, error, list(kind.model_fields)) from None


def question_of(state: TaskState, kind: type[AnyQuestion]) -> AnyQuestion:
    """The question of a sample that a solver or scorer works on.

    Raises:
        BadInput: The sample's metadata is not a Truthgym question: it is from another task or log.
    """
    try:
        return state.metadata_as(kind)
    except ValueError:
        raise BadInput(
            f"Sample {state.sample_id!r}: its metadata does not hold a question of a Truthgym domain; use this "
            "solver or scorer with Truthgym's tasks and their logs"
        ) from None


def sample(id: str, input: str, target: str | None, question: Question, where: str) -> Sample:
    """Build the Sample of a question.

    Args:
        id: Stable and unique within the dataset.
        input: The question as asked, without evidence and without format instructions.
        target: "yes", "no", or None where the truth is unknown.
        question: Its metadata.
        where: The place to name in an error.

    Raises:
        BadInput: The target is neither "yes" nor "no".
    """
    if target not in ("yes", "no", None):
        raise BadInput(f'{where}: the outcome must be "yes" or "no", got {target!r}')
    return Sample(id=id, input=input, target=target or "", metadata=question.model_dump(mode="json"))


def binary_outcome(target: object) -> float | None:
    """1.0 for the target "yes", 0.0 for "no", None for anything else."""
    return {"yes": 1.0, "no": 0.0}.get(target) if isinstance(target, str) else None
