"""The Question contract: what every domain passes to solvers and scorers.

A domain is a list of Inspect Samples. Each has a stable string id, the question as `input` (without format
instructions, which solvers add), a `target` of "yes" or "no" where truth is known, and a `Question` as metadata, which
`state.metadata_as(Question)` reads.
"""

import re
from datetime import date
from hashlib import sha256
from typing import Any, Literal, TypeVar

from inspect_ai.dataset import Sample
from inspect_ai.solver import TaskState
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from truthgym.datasets.errors import BadInput

Split = Literal["train", "validation", "test"]
SHARES: dict[Split, float] = {"train": 0.6, "validation": 0.2, "test": 0.2}
"""Share of events in each split."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class Question(BaseModel, frozen=True):
    """The metadata of a question. Domains add fields in a subclass."""

    domain: str
    form: Literal["binary", "options", "free"] = "binary"
    options: list[str] = []
    proposition: str | None = None
    """A statement that is true or false. A belief is its probability. Every binary question has one."""
    evidence: list[str] = []
    """Pieces in order. Stepwise solvers reveal them one by one, `direct` all at once; a prior never sees them."""
    event: str = Field(min_length=1)
    """The clustering unit: questions that resolve together share it."""
    split: Split
    opened_on: date | None = None
    """The day on which the question is asked: later texts may reveal the outcome. None if time does not matter."""
    known_on: date | None = None
    """The day the truth became public, for the contamination filter."""
    base_rate: float | None = Field(default=None, ge=0, le=1, strict=True)
    """Probability of "yes" in the question's reference class, in [0, 1]."""
    crowd: float | None = Field(default=None, ge=0, le=1, strict=True)
    """Probability that human forecasters or a market gave when the question was asked, in [0, 1]."""

    @field_validator("opened_on", "known_on", mode="before")
    @classmethod
    def _is_a_day(cls, value: object) -> object:
        # Pydantic would take a number for seconds since 1970.
        if value is None or isinstance(value, date) or (isinstance(value, str) and _DAY.fullmatch(value)):
            return value
        raise ValueError("not a day such as 2025-06-01")

    @field_validator("event")
    @classmethod
    def _event_has_a_name(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("it must be a name that questions which resolve together share")
        return value

    @field_validator("evidence")
    @classmethod
    def _evidence_says_something(cls, value: list[str]) -> list[str]:
        if not all(piece.strip() for piece in value):
            raise ValueError("a piece is empty")
        return value

    @model_validator(mode="after")
    def _options_differ(self) -> "Question":
        if len(set(self.options)) < len(self.options):
            raise ValueError(f"two of the options {self.options!r} are equal; change or remove one")
        return self

    @model_validator(mode="after")
    def _binary_has_a_proposition(self) -> "Question":
        if self.form == "binary" and not (self.proposition or "").strip():
            raise ValueError(
                "a binary question needs a `proposition`: the statement whose probability is asked for, "
                'such as "It rains in Paris on 1 May 2024."'
            )
        return self


def may_be_shown_with(question: Question, event: str, proposition: str | None, opened_on: date | None) -> bool:
    """Whether another question may be shown with this one: different event and proposition, and not asked later."""
    same = event == question.event or (proposition is not None and proposition == question.proposition)
    return not same and not (question.opened_on and opened_on and opened_on > question.opened_on)


AnyQuestion = TypeVar("AnyQuestion", bound=Question)


def split_of(event: str) -> Split:
    """The split of an event, by a hash of its name: reordering or growing a dataset moves no event.

    Expected shares: train 0.6, validation 0.2, test 0.2.
    """
    position = int.from_bytes(sha256(event.encode()).digest()[:8]) / 2**64
    for split, share in SHARES.items():
        if position < share:
            return split
        position -= share
    return "test"


def question(kind: type[AnyQuestion], where: str, /, **fields: Any) -> AnyQuestion:  # noqa: ANN401
    """Build a question of the given kind. Its event decides its split.

    Args:
        kind: `Question` or a domain's subclass.
        where: The place to name in an error, such as "forecasting.jsonl line 12".
        **fields: The question's fields, not yet validated.

    Raises:
        BadInput: A field is missing, of the wrong type or outside its range, or a day is in the future.
    """
    try:
        built = kind(split=split_of(str(fields.get("event", ""))), **fields)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(_explain(where, place, first)) from None
    for field, day in (("known_on", built.known_on), ("opened_on", built.opened_on)):
        if day is not None and day > date.today():
            raise BadInput(f"{where}, field {field}: {day} is in the future; correct the day or remove the row")
    return built


def _explain(where: str, field: str, error: Any) -> str:  # noqa: ANN401
    value, reason = error["input"], error["msg"].removeprefix("Value error, ")
    if not field:
        return f"{where}: {reason}"
    if error["type"] in ("less_than_equal", "greater_than_equal", "float_type"):
        hint = f"; write {value / 100:.2f}" if isinstance(value, int | float) and 1 < value <= 100 else ""
        return f"{where}, field {field}: {value!r} is not a probability between 0 and 1{hint or '; write a number'}"
    if error["type"] == "missing":
        return f"{where}: the field `{field}` is missing; add it"
    return f"{where}, field {field}: {value!r} cannot be used ({reason}); correct the row"


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
