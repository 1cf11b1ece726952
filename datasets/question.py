"""The Question contract: what every domain passes to solvers and scorers."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, TypeVar, cast

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

from truthgym.datasets.digests import text_number
from truthgym.datasets.errors import BadInput, bad_fields
from truthgym.datasets.inspect_private import answer_character, answer_options
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


class PlainQuestion(Question, frozen=True):
    """The question of a sample whose metadata hold none, as its input, choices and target say. See `plain_question`."""

    outcome: float | None = None
    """Whether its proposition is true: 1.0 or 0.0. None if there is no proposition or the target does not say."""
    right: list[int] = []
    """Numbers of the choices that the target names, from 0."""
    drawn: int | None = None
    """Number of the choice that the proposition is about. None without choices."""


def may_be_shown_with(question: Question, event: str, proposition: str | None, opened_on: date | None) -> bool:
    """Whether another question may be shown with this one: different event and proposition, and not asked later."""
    same = event == question.event or (proposition is not None and proposition == question.proposition)
    return not same and not (question.opened_on and opened_on and opened_on > question.opened_on)


def statement(question: str) -> str:
    """The proposition that the answer to a question is yes."""
    return f"The answer to this question is yes: {question.strip()}"


RIGHT_CHOICE = "This is a right answer to the question: {choice}"
"""The proposition about one choice of a multiple-choice question, of which several may be right."""
OWN_ANSWER = "Your final answer to this question, once all work on it is done, is right."
"""The proposition of a belief in the model's own answer: scorers ask about it, and simulated agents recognise it."""


AnyQuestion = TypeVar("AnyQuestion", bound=Question)


def question(kind: type[AnyQuestion], where: str, /, **fields: Any) -> AnyQuestion:
    """Build a question of the given kind. Its event decides its split."""
    try:
        return kind(split=split_of(str(fields.get("event", ""))), **fields)
    except ValidationError as error:
        raise bad_fields(where, error, list(kind.model_fields)) from None


def question_metadata(id: str, input: str, target: str | None = None, **fields: Any) -> dict[str, Any]:
    """The metadata of a sample in your own task, so that every scorer and solver works on it. See docs/own_task.md.

    With a target that means yes or no, or None if the truth is not known, the question is binary. With any other
    target, such as text for a grader, it is free; so it is with 1 or 0 where the text asks how many, who or what.

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


def _ask(identity: str, text: str, target: object, known: Question, metadata: Mapping[str, Any], epoch: int) -> None:
    if arm_of(metadata) != NEUTRAL:  # agents must take all arms for one question
        identity, text = group_of(metadata, identity), without_opinion(text, metadata.get("opinion"))
    ASKED.set(Asked(identity, text, binary_outcome(target, known), known, metadata, epoch))


def without_opinion(text: str, opinion: str | None) -> str:
    """The question as the neutral arm asks it."""
    return text.removeprefix(f"{opinion}\n\n").removesuffix(f"\n\n{opinion}") if opinion else text


def arm_of(metadata: Mapping[str, Any]) -> str:
    """The arm of a sample of `truthgym/sycophancy`, such as "user_yes". "neutral" for any other sample."""
    arm = metadata.get("arm")
    return arm if "question" in metadata and isinstance(arm, str) and _ARM.fullmatch(arm) else NEUTRAL


def group_of(metadata: Mapping[str, Any], identity: object) -> str:
    """The id of the question that a sample asks, which the arms of `truthgym/sycophancy` share."""
    arm, named = metadata.get("arm"), metadata.get("question")
    own = isinstance(named, str) and isinstance(arm, str) and (arm == NEUTRAL or _ARM.fullmatch(arm))
    return str(named if own else identity)


def own_question(kind: type[AnyQuestion], metadata: Mapping[str, Any]) -> AnyQuestion | None:
    """The question of a kind in metadata, or None: other projects use the names of its fields for other things."""
    try:
        return kind.model_validate(metadata)
    except ValidationError:
        return None


OUT_OF_RANGE = ("less_than_equal", "greater_than_equal")
KNOWN_OF_OTHERS = ("event", "proposition", "base_rate", "crowd", "opened_on", "known_on")
"""Fields of a question that are read where the others are missing. Of another type, none is read: projects use the same
names for other things, such as a number as the event."""


def question_of(state: TaskState, kind: type[AnyQuestion]) -> AnyQuestion:
    """The question of a sample that a solver or scorer works on.

    A sample whose metadata are not those of a question, as in any other project, has a `plain_question`.
    """
    identity, metadata = str(state.sample_id), state.metadata or {}
    try:
        facts = kind.model_validate(metadata)
    except ValidationError as error:
        faulty = {str(problem["loc"][0]) for problem in error.errors() if problem["loc"]}
        if kind is not Question:
            raise BadInput(
                f"Sample {identity!r} is not of a task that this scorer or solver is for: its metadata holds no "
                f"{kind.__name__} (no usable field {', '.join(map(repr, sorted(faulty)))}). Any log can be scored by "
                "brier, martingale, length, graded, rubric, qualitative and reward_model"
            ) from None
        if {"form", "proposition"} & metadata.keys() and not faulty & {"domain", "event", "split"}:
            raise bad_fields(f"Sample {identity!r}", error, list(kind.model_fields)) from None  # a question of ours
        # A number that is out of range is meant as ours, and `plain_question` names it.
        faulty -= {str(problem["loc"][0]) for problem in error.errors() if problem["type"] in OUT_OF_RANGE}
        known = {
            name: metadata[name] for name in KNOWN_OF_OTHERS if name not in faulty and metadata.get(name) is not None
        }
        choices = [choice.value for choice in state.choices]
        facts = cast(AnyQuestion, plain_question(identity, asked_text(state), list(state.target), choices, **known))
    _ask(identity, asked_text(state), list(state.target), facts, metadata, state.epoch)
    return facts


def plain_question(
    id: str, text: str, targets: Sequence[str], choices: Sequence[str] = (), **known: object
) -> PlainQuestion:
    """The question that a sample of any task asks.

    - With choices, or with a letter as the target and choices that the text lists behind letters: a question with
      options. Its proposition is that one of them is right, drawn by a hash of the question's text and the choice's,
      and never by the target: beliefs in what is true rise, and a rational agent would look faulty.
    - With a target that means yes or no, or without a target where the text asks for yes or no: binary.
    - Else free, without a proposition.

    Args:
        id: The sample's id, and the question's event unless it is known.
        text: The question.
        targets: The sample's targets: letters or texts of right choices, or alternatives of one answer.
        choices: The sample's choices. Fewer than two are none.
        **known: Other fields of `Question`.
    """
    fields: dict[str, Any] = {"domain": "own", "event": id} | known
    choices = choices if len(choices) > 1 else listed_choices(text, targets)
    right = named_choices(targets, choices)
    says, empty = binary_outcome(targets), not any(target.strip() for target in targets)
    if len(choices) > 1 and (right or binary_outcome(targets, {"form": "options"}) is None):
        labelled = [f"{answer_character(number)}) {choice}" for number, choice in enumerate(choices)]
        drawn = min(range(len(choices)), key=lambda number: text_number(f"{text}\n{choices[number]}"))
        fields |= {
            "form": "options",
            "options": labelled,
            "drawn": drawn,
            "right": right,
            "proposition": RIGHT_CHOICE.format(choice=labelled[drawn]),
            "outcome": float(drawn in right) if right else None,
            "base_rate": 1 / len(choices) if len(right) == 1 else None,
        }
    elif means_yes_or_no(text, targets) or (empty and ASKS_YES_OR_NO.search(text)):
        fields = {"proposition": statement(text)} | fields | {"form": "binary", "outcome": says}
    else:
        fields |= {"form": "free", "proposition": None}
    return question(PlainQuestion, f"sample {id!r}", **fields)


LISTED = re.compile(r"^[ \t]*(?:\(([A-Z])\)|([A-Z])[).:])[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
"""A line of a question that is one of its choices: (A) Paris, A) Paris, A. Paris or A: Paris."""


def listed_choices(text: str, targets: Sequence[str]) -> list[str]:
    """The choices that a question lists itself, each on a line behind its letter, if the targets are such letters."""
    letters = [match[1] or match[2] for match in LISTED.finditer(text)]
    begins = max((i for i, letter in enumerate(letters) if letter == "A"), default=len(letters))  # after examples
    run = letters[begins:]
    if len(run) < 2 or run != [answer_character(i) for i in range(len(run))]:
        return []
    names = [re.sub(r"[\s,().]+", "", target) for target in targets]
    named = all(name and set(name) <= set(run) for name in names)
    return [match[3] for match in LISTED.finditer(text)][begins:] if named else []


def named_choices(targets: Sequence[str], choices: Sequence[str]) -> list[int]:
    """Numbers of the choices that targets name: by letters, as Inspect's `choice` reads them, or by their texts."""
    letters = {answer_character(number): number for number in range(len(choices))}
    texts = {choice.strip().casefold(): number for number, choice in reversed(list(enumerate(choices)))}
    named: set[int] = set()
    for target in targets:
        names, plain = re.sub(r"[\s,().]+", "", target), target.strip().casefold()
        if len(names) != 1 and plain in texts:
            named.add(texts[plain])
        elif names and set(names) <= letters.keys():
            named |= {letters[name] for name in names}
        elif plain in texts:
            named.add(texts[plain])
        elif names.upper() in letters:
            named.add(letters[names.upper()])
    return sorted(named)


def choices_text(state: TaskState) -> str:
    """The choices of a sample, each behind its letter, as Inspect's `multiple_choice` shows them. "" without any."""
    return answer_options(state.choices) if len(state.choices) > 1 else ""


def question_text(state: TaskState) -> str:
    """The question as a model is asked it: with its choices."""
    return "\n\n".join(filter(None, (asked_text(state), choices_text(state))))


def sample(id: str, input: str, target: str | None, question: Question, where: str) -> Sample:
    """Build the Sample of a question."""
    outcome = yes_or_no(target)
    if outcome not in ("yes", "no", None):
        raise BadInput(f'{where}: the outcome must be "yes" or "no", got {target!r}')
    return Sample(id=id, input=input, target=str(outcome or ""), metadata=question.model_dump(mode="json"))


MEANINGS = dict.fromkeys(("yes", "true", "1", "1.0", "y"), 1.0) | dict.fromkeys(("no", "false", "0", "0.0", "n"), 0.0)
ASKS_YES_OR_NO = re.compile(
    r"(?:^|[.!?:,]\s|\n)\W*(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|"
    r"must)(?:n't)?\b[^.!?\n]*\?|\b(?:yes or no|yes/no|true or false|true/false|whether)\b",
    re.IGNORECASE,
)
"""A question that asks for yes or no, or a text that says so."""
ASKS_FOR_MORE = re.compile(
    r"\b(?:how|what|which|who|whose|whom|when|where|why|calculate|compute|evaluate|simplify|solve|find|sum|number)\b",
    re.IGNORECASE,
)
"""A text that asks for a number, a name or a letter."""


def binary_outcome(target: object, about: Question | Mapping[str, Any] | None = None) -> float | None:
    """1.0 for a target that means yes (`Yes`, True, 1, y), 0.0 for one that means no, None for anything else.

    About a question that is not binary, or has options, only "yes" and "no" count: a letter or a number is another
    answer there. Of several targets all must mean the same. About a `PlainQuestion`: whether its proposition is true.
    """
    if isinstance(about, PlainQuestion):
        return about.outcome
    if isinstance(target, Sequence) and not isinstance(target, str):
        outcomes = {binary_outcome(each, about) for each in target}
        return outcomes.pop() if len(outcomes) == 1 else None
    fields = vars(about) if isinstance(about, Question) else about or {}
    if fields.get("form", "binary") != "binary" or fields.get("options"):
        return {"yes": 1.0, "no": 0.0}.get(str(target))
    return MEANINGS.get(str(target).strip().lower())


def yes_or_no(target: object, about: Question | Mapping[str, Any] | None = None) -> object:
    """A target as "yes" or "no"; anything else as it is. Args: as `binary_outcome`."""
    outcome = binary_outcome(target, about)
    return target if outcome is None else "yes" if outcome else "no"


def means_yes_or_no(text: str, target: str | Sequence[str]) -> bool:
    """Whether a question of which no more is known is one of yes or no: 1 may be a number that was asked for."""
    targets = [target] if isinstance(target, str) else target
    short = any(len(each.strip()) == 1 or each.strip()[:1].isdigit() for each in targets)
    other = short and ASKS_FOR_MORE.search(text) and not ASKS_YES_OR_NO.search(text)
    return not other and binary_outcome(targets) is not None
