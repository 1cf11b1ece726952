"""Graders: any reward function, with the range and direction that it declares.

The scorer `graded` and a trainer's reward call the same `Grader`, so that a model is trained on what it is measured by.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from inspect import isawaitable
from math import inf, isnan
from numbers import Real
from typing import Any, cast

from inspect_ai.scorer import Target
from inspect_ai.solver import TaskState
from inspect_ai.util import LimitExceededError

from truthgym.datasets.errors import BadInput, shown
from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.datasets.question import PlainQuestion, Question, question_text, yes_or_no
from truthgym.scorers.beliefs.transcript import as_text, turns_of
from truthgym.scorers.statistics.direction import Fault


@dataclass(frozen=True)
class GraderInput:
    """What a grader gets: a question and an answer to it."""

    question: Question
    prompt: str
    """The question as it was put to the model."""
    target: str
    """The truth: "yes" or "no"; the targets of a sample of any task that are neither; empty if unknown."""
    completion: str
    trajectory: str
    """The whole conversation up to the answer, as one text."""
    sample_id: str
    epoch: int
    item: Mapping[str, Any]
    """Fields of the question by name, for templates and user programs: see `item_fields`."""


@dataclass(frozen=True)
class Grade:
    """A grader's result."""

    value: float | None
    """None if there is no valid grade."""
    reason: str | None = None
    fault: Fault | None = None
    """Where that lies. None, from a grader's own function: with the model if it asks one, else with the answer."""
    explanation: str | None = None
    details: Mapping[str, Any] | None = None
    """What it is made of, for the score's metadata."""
    repaired: bool = False
    """Whether a model was asked twice, since its first reply was not in form."""


class CannotGrade(Exception):
    """Raised by a grader, with the reason and where it lies, if it cannot grade an answer."""

    def __init__(self, reason: str, fault: Fault | None = None) -> None:
        super().__init__(reason)
        self.fault = fault


Function = Callable[[GraderInput], Grade | float | Awaitable[Grade | float]]
"""A plain or async function that returns a number, or a `Grade` to explain one. It keeps no state between calls."""


@dataclass(frozen=True)
class Grader:
    """A reward function with its declared properties."""

    name: str
    function: Function | None
    """None for a grader that runs at OpenAI only."""
    low: float = 0.0
    high: float = 1.0
    """Lowest and highest grade. A number outside this range is not a valid grade."""
    higher_is_better: bool = True
    roles: tuple[str, ...] = ()
    sandbox: bool = False
    spec: str | None = None
    """The OpenAI grader specification that it was read from: the unchanged JSON, to be sent to that API."""

    def __post_init__(self) -> None:
        if not -inf < self.low < self.high < inf:
            raise BadInput(
                f"grader {self.name}: low={self.low:g} and high={self.high:g} are not a range; give the lowest and the "
                "highest grade that it can return"
            )


async def grade(grader: Grader, case: GraderInput) -> Grade:
    """Run a grader and validate its result. No fault of a grader makes it fail.

    Where a grader that asks no model gives no grade, as when a program raises, the fault is the answer's: otherwise
    an answer that breaks the program would escape a low grade.
    """
    if grader.function is None:
        raise BadInput(f"The grader {grader.name} runs at OpenAI only; use another kind here")
    own: Fault = "judge" if grader.roles else "answer"
    try:
        result = grader.function(case)
        validated = _validated(grader, await result if isawaitable(result) else result)
        return validated if validated.value is not None else replace(validated, fault=validated.fault or own)
    except (PrerequisiteError, LimitExceededError):
        raise
    except CannotGrade as error:
        return Grade(None, str(error), error.fault or own)
    except (Exception, SystemExit) as error:
        # With a role, the call of its model failed: not the answer's fault.
        verb, text = ("failed", "({}: {})") if grader.roles else ("raised", "{}: {}")
        reason = f"The grader {grader.name} {verb} {text.format(type(error).__name__, _error_text(error))}"
        return Grade(None, reason, "unreachable" if grader.roles else "answer")


def _validated(grader: Grader, result: object) -> Grade:
    """The grader's result if it is a valid grade; else the reason why not."""
    returned = result if isinstance(result, Grade) else Grade(cast("float", result))
    value: object = returned.value
    if value is None and returned.reason:
        return returned
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else None
    if number is None:
        problem = f"{'None' if value is None else shown(value)}, which is not a number."
    elif isnan(number):
        problem = "NaN."
    elif not grader.low <= number <= grader.high:
        problem = f"{number:g}, which is outside its range, {grader.low:g} to {grader.high:g}."
    else:
        return replace(returned, value=number)
    return replace(returned, value=None, reason=f"The grader {grader.name} returned {problem}")


def grader_input(state: TaskState, question: Question, target: Target, completion: str) -> GraderInput:
    """What a grader gets of a finished sample and its answer."""
    sample_id, prompt = str(state.sample_id), question_text(state)
    named = isinstance(question, PlainQuestion) and question.form != "binary"  # a letter or a text is the truth itself
    truth = ", ".join(target) if named else str(yes_or_no(target.text, question))
    return GraderInput(
        question=question,
        prompt=prompt,
        target=truth,
        completion=completion,
        trajectory=as_text(turns_of(state)),
        sample_id=sample_id,
        epoch=state.epoch,
        item=item_fields(state.metadata, prompt, truth, sample_id),
    )


def item_fields(metadata: Mapping[str, Any], prompt: str, target: str, sample_id: str) -> dict[str, Any]:
    """Fields of a question, under the names that templates and user programs know."""
    truth = {"target": target, "reference_answer": target} if target else {}
    return {**metadata, "id": sample_id, "question": prompt, "input": prompt, **truth}


def sample_fields(case: GraderInput) -> dict[str, Any]:
    """The answer in OpenAI's format for graders: `output_text`, `output_json` if it is valid JSON, `choices`, ...

    `trajectory`, the whole conversation as text, is an addition to OpenAI's format.
    """
    message = {"role": "assistant", "content": case.completion}
    fields: dict[str, Any] = {
        "output_text": case.completion,
        "output_tools": [],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "trajectory": case.trajectory,
    }
    try:
        return fields | {"output_json": json.loads(case.completion)}
    except (ValueError, RecursionError):
        return fields


def _error_text(error: BaseException) -> str:
    """The text of an error, shortened. Producing it may itself fail."""
    try:
        text = str(error)
    except Exception:
        return "its message cannot be read"
    return text if len(text) <= 300 else f"{text[:299]}…"
