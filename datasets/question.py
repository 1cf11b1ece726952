"""The Question contract: what every domain passes to solvers and scorers.

A domain is a list of Inspect Samples. Each has a stable string id, the question as `input` (without format
instructions, which solvers add), a `target` of "yes" or "no" where truth is known, and a `Question` as metadata, which
`state.metadata_as(Question)` reads.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, TypeVar

from inspect_ai.dataset import Sample
from inspect_ai.solver import TaskState
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from truthgym.datasets.errors import BadInput, bad_fields
from truthgym.datasets.splits import Split as Split
from truthgym.datasets.splits import split_of as split_of

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def _is_day(value: object) -> object:
    # Pydantic would take a number for seconds since 1970.
    if isinstance(value, str) and _DAY.fullmatch(value):
        with suppress(ValueError):  # a 13th month
            value = date.fromisoformat(value)
    if not isinstance(value, date):
        raise ValueError("it is not a day of the calendar; write a day such as 2025-06-01")
    if str(value) > str(date.today()):
        raise ValueError("it is in the future; correct the day or remove the row")
    return value


Day = Annotated[date, BeforeValidator(_is_day)]
"""A day that has passed, as a date or as text such as "2025-06-01"."""
Text = Annotated[str, StringConstraints(strict=True, pattern=r"\S")]
"""Text that is not empty."""


def _number(value: object, info: ValidationInfo) -> object:
    # Text is refused, except in a csv file, where all cells are text.
    if isinstance(value, str) and info.context == CSV:
        try:
            return float(value)
        except ValueError:
            return value
    return value


CSV = "csv"
"""Context in which rows of a csv file are validated."""
Probability = Annotated[float, Field(strict=True, ge=0, le=1), BeforeValidator(_number)]


Outcome = Annotated[Literal["yes", "no"], BeforeValidator(lambda value: yes_or_no(value))]
"""However it is written: see `binary_outcome`."""


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
    posterior: list[Probability] = []
    """Exact probability of the proposition before any evidence and after each piece, where it is known."""
    selected_by_outcome: bool = False
    """Whether outcomes influenced which questions were asked, as with events chosen because they surprised."""

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


def statement(question: str) -> str:
    """The proposition that the answer to a question is yes."""
    return f"The answer to this question is yes: {question.strip()}"


OWN_ANSWER = "Your final answer to this question, once all work on it is done, is right."
"""The proposition of a belief in the model's own answer: scorers ask about it, and simulated agents recognise it."""


AnyQuestion = TypeVar("AnyQuestion", bound=Question)


def question(kind: type[AnyQuestion], where: str, /, **fields: Any) -> AnyQuestion:  # noqa: ANN401
    """Build a question of the given kind. Its event decides its split."""
    try:
        return kind(split=split_of(str(fields.get("event", ""))), **fields)
    except ValidationError as error:
        raise bad_fields(where, error, list(kind.model_fields)) from None


def question_metadata(id: str, input: str, target: str | None = None, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """The metadata of a sample in your own task, so that every scorer and solver works on it. See docs/own_task.md.

    With a target that means yes or no, or None if the truth is not known, the question is binary. With any other
    target, such as text for a grader, it is free; so it is with 1 or 0 where the question asks how many, who or what.

    Args:
        id: The sample's id, and by default the question's event.
        input: The question, as the sample's input.
        target: The sample's target.
        **fields: Fields of `Question`, such as `evidence`, `proposition`, `event` or `known_on`.

    Raises:
        BadInput: A field cannot be used.
    """
    binary = target is None or means_yes_or_no(input, target)
    defaults: dict[str, Any] = {"domain": "own", "form": "binary" if binary else "free", "event": id}
    defaults["proposition"] = statement(input) if binary else None
    return question(Question, f"sample {id!r}", **(defaults | fields)).model_dump(mode="json")


@dataclass(frozen=True)
class Asked:
    """The question that is worked on, as simulated agents and the tools of agent tasks need it."""

    id: str
    input: str
    outcome: float | None
    question: Question
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """All of the sample's, as some tools need it."""
    epoch: int = 1

    @property
    def is_generated(self) -> bool:
        """Whether the exact probability is known before any evidence and after each piece."""
        return len(self.question.posterior) == len(self.question.evidence) + 1

    @property
    def naive(self) -> list[float]:
        """The path of the reader who makes the error that a generated world is about, else the exact one."""
        path, exact = self.metadata.get("naive"), self.question.posterior
        return path if isinstance(path, list) and len(path) == len(exact) else exact

    def places_of_evidence(self, text: str) -> dict[int, int]:
        """Where each piece of evidence that stands in a text, after the question if it can, ends; by its number."""
        begins, places = max(text.find(self.input), 0), {}
        for number, piece in enumerate(self.question.evidence):
            at = text.find(piece, begins)
            at = text.find(piece) if at < 0 else at
            if at >= 0:
                places[number] = at + len(piece)
        return places


def asked_text(state: TaskState) -> str:
    """The question as it was asked: the last user message if the sample's input is a list of messages."""
    if isinstance(state.input, str) or any(message.role == "user" for message in state.input):
        return state.input_text
    return state.input[-1].text if state.input else ""


ASKED: ContextVar[Asked | None] = ContextVar("asked", default=None)
"""Set by `question_of`, and by solvers that ask another question first. It is all that simulated agents know."""


NEUTRAL = "neutral"
"""The arm without an opinion."""
_ARM = re.compile(r"(user|third|memory)_(yes|no)")


def ask_about(item: Sample, epoch: int = 1) -> None:
    """Make a sample's question the one that simulated agents know."""
    text = item.input if isinstance(item.input, str) else item.input[-1].text
    _ask(str(item.id), text, str(item.target), item.metadata_as(Question), item.metadata or {}, epoch)


def _ask(identity: str, text: str, target: str, known: Question, metadata: Mapping[str, Any], epoch: int) -> None:
    if arm_of(metadata) != NEUTRAL:  # agents must take all arms for one question
        identity, opinion = str(metadata["question"]), metadata.get("opinion")
        text = text.removeprefix(f"{opinion}\n\n").removesuffix(f"\n\n{opinion}")
    ASKED.set(Asked(identity, text, binary_outcome(target, known), known, metadata, epoch))


def arm_of(metadata: Mapping[str, Any]) -> str:
    """The arm of a sample of `truthgym/sycophancy`, such as "user_yes". "neutral" for any other sample.

    Other projects have an `arm` too, such as a treatment.
    """
    arm = metadata.get("arm")
    return arm if "question" in metadata and isinstance(arm, str) and _ARM.fullmatch(arm) else NEUTRAL


COMMON_NAMES = {"domain", "event", "form", "options", "evidence", "posterior"}
"""Fields of other projects too, with another meaning, such as a number as the event. Of another type, none is read."""


def question_of(state: TaskState, kind: type[AnyQuestion]) -> AnyQuestion:
    """The question of a sample that a solver or scorer works on.

    A sample whose metadata lack fields of a question is a binary question if its target means yes or no.
    """
    identity, target = str(state.sample_id), state.target.text
    try:
        facts = kind.model_validate(state.metadata or {})
    except ValidationError as error:
        if kind is not Question or not means_yes_or_no(asked_text(state), target, len(state.choices) > 0):
            problems = bad_fields(
                f"Sample {identity!r}: its metadata does not hold a question of a Truthgym domain", error, []
            )
            raise BadInput(
                f"{problems}, and its target {target[:40]!r} is neither yes nor no; write one of them if the question "
                "asks for it. docs/own_task.md shows how to make the metadata of any question in your own task"
            ) from None
        # Another project may give a field of the same name another meaning, such as a number as the event.
        unusable = {problem["loc"][0] for problem in error.errors() if problem["loc"]} & COMMON_NAMES
        usable = (Question.model_fields.keys() & state.metadata.keys()) - unusable - {"split"}
        fields = {name: state.metadata[name] for name in usable}
        facts = kind.model_validate(question_metadata(identity, asked_text(state), target, **fields))
    _ask(identity, asked_text(state), target, facts, state.metadata or {}, state.epoch)
    return facts


def sample(id: str, input: str, target: str | None, question: Question, where: str) -> Sample:
    """Build the Sample of a question."""
    outcome = yes_or_no(target)
    if outcome not in ("yes", "no", None):
        raise BadInput(f'{where}: the outcome must be "yes" or "no", got {target!r}')
    return Sample(id=id, input=input, target=str(outcome or ""), metadata=question.model_dump(mode="json"))


MEANINGS = dict.fromkeys(("yes", "true", "1", "1.0", "y"), 1.0) | dict.fromkeys(("no", "false", "0", "0.0", "n"), 0.0)
OPEN = re.compile(r"\W*(how|what|which|who|whose|whom|when|where|why)\b", re.IGNORECASE)


def binary_outcome(target: object, about: Question | Mapping[str, Any] | None = None) -> float | None:
    """1.0 for a target that means yes (`Yes`, True, 1, y), 0.0 for one that means no, None for anything else.

    About a question that is not binary, or has options, only "yes" and "no" count: a letter or a number is another
    answer there.
    """
    fields = vars(about) if isinstance(about, Question) else about or {}
    if fields.get("form", "binary") != "binary" or fields.get("options"):
        return {"yes": 1.0, "no": 0.0}.get(str(target))
    return MEANINGS.get(str(target).strip().lower())


def yes_or_no(target: object, about: Question | Mapping[str, Any] | None = None) -> object:
    """A target as "yes" or "no"; anything else as it is. Args: as `binary_outcome`."""
    outcome = binary_outcome(target, about)
    return target if outcome is None else "yes" if outcome else "no"


def means_yes_or_no(text: str, target: str, options: bool = False) -> bool:
    """Whether a question of which no more is known is one of yes or no: 1 may be a number that was asked for."""
    other = options or (target.strip()[:1].isdigit() and OPEN.match(text))
    return binary_outcome(target, {"form": "free"} if other else None) is not None
