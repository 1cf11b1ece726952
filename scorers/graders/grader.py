"""Graders: any reward function, with the range and direction that it declares.

One definition of right. The scorer `graded` and a trainer's reward call the same object, so that what is trained for is
what is measured.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from math import isfinite, isnan
from numbers import Real
from typing import Any, cast

from inspect_ai.util import LimitExceededError

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.datasets.question import Question


@dataclass(frozen=True)
class Graded:
    """What a grader is given: a question, and what somebody made of it."""

    question: Question
    asked: str
    """The question as it was asked."""
    target: str
    """The truth: "yes" or "no"; empty where none is known."""
    completion: str
    """The answer."""
    trajectory: str
    """All that was told and written on the way to it, as a reader sees it, with the answer."""
    sample_id: str
    epoch: int
    item: Mapping[str, Any]
    """The fields of the question by name, for templates and users' graders: see `item_of`."""


@dataclass(frozen=True)
class Grade:
    """What a grader said."""

    value: float | None
    """None where it gave no grade that can be used."""
    reason: str | None = None
    """Why there is none."""
    explanation: str | None = None
    """The grader's own words on a grade that it gave."""


class Ungraded(Exception):
    """A grader raises it with the reason where it cannot grade."""


Function = Callable[[Graded], Grade | float | Awaitable[Grade | float]]
"""A grader's function, plain or async. It returns a number, or a `Grade` to explain one. It holds nothing of a run."""


@dataclass(frozen=True)
class Grader:
    """A reward function as it is declared.

    Raises:
        BadInput: The range is none.
    """

    name: str
    function: Function | None
    """None for a grader that runs at OpenAI only."""
    low: float = 0.0
    high: float = 1.0
    """The least and the greatest grade. What is outside of them is no grade."""
    higher_is_better: bool = True
    roles: tuple[str, ...] = ()
    """Model roles that must be bound."""
    sandbox: bool = False
    """Whether it must run in an isolated sandbox."""
    spec: str | None = None
    """The OpenAI grader specification that it was read from, unchanged to the byte: JSON, to be handed to that API."""

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            held = getattr(self, name)
            if isinstance(held, bool) or not isinstance(held, int | float) or not isfinite(held):
                hint = " (the command line reads 1e3 as text: write 1000)" if isinstance(held, str) else ""
                raise BadInput(f"grader {self.name}: {name}={held!r} cannot be used; give a finite number{hint}")
        if not self.low < self.high:
            raise BadInput(
                f"grader {self.name}: low={self.low:g} is not below high={self.high:g}; give the least and the "
                "greatest grade that it can return"
            )
        if not isinstance(self.higher_is_better, bool):
            raise BadInput(
                f"grader {self.name}: higher_is_better={self.higher_is_better!r} cannot be used; write true or false"
            )


async def grade(grader: Grader, graded: Graded) -> Grade:
    """Grade, and check what comes of it. Never fails because of what a grader does.

    Returns:
        A grade within the grader's range; or none, with the reason, where the grader could not tell, raised, or
        returned NaN, what is no number (true and false are none), or a number out of range.

    Raises:
        BadInput: Something that the grader needs is not there: a model in its role, a sandbox, a place where it runs.
    """
    if grader.function is None:
        raise BadInput(f"The grader {grader.name} runs at OpenAI only; use another kind here")
    who = f"The grader {grader.name}"
    try:
        found = grader.function(graded)
        return _checked(grader, await found if isawaitable(found) else found)
    except (PrerequisiteError, LimitExceededError):
        raise
    except Ungraded as error:
        return Grade(None, str(error))
    except (Exception, SystemExit) as error:
        if grader.roles:  # its model could not be asked: no fault of the answer, which a reward has to know
            return Grade(None, f"{who} failed ({type(error).__name__}: {_words(error)})")
        return Grade(None, f"{who} raised {type(error).__name__}: {_words(error)}")


def _checked(grader: Grader, found: object) -> Grade:
    """What a grader returned, where it is a grade."""
    who = f"The grader {grader.name}"
    given = found if isinstance(found, Grade) else Grade(cast("float", found))
    if given.value is None and given.reason:
        return given
    value: object = given.value
    if isinstance(value, bool) or not isinstance(value, Real):
        return Grade(None, f"{who} returned {_short(value)}, which is no number.", given.explanation)
    number = float(value)
    if isnan(number):
        return Grade(None, f"{who} returned NaN.", given.explanation)
    if not grader.low <= number <= grader.high:
        reach = f"{grader.low:g} to {grader.high:g}"
        return Grade(None, f"{who} returned {number:g}, which is outside its range, {reach}.", given.explanation)
    return Grade(number, None, given.explanation)


def item_of(fields: Mapping[str, Any], asked: str, target: str, sample_id: str) -> dict[str, Any]:
    """The fields of a question, under the names that templates and users' graders know.

    Args:
        fields: The sample's metadata: `proposition`, `options`, `evidence`, `event` and the domain's own.
        asked: Becomes `question` and `input`.
        target: Becomes `target` and `reference_answer`. Where it is empty there are neither: every answer holds an
            empty text, and no grader may take that for a hit.
        sample_id: Becomes `id`.
    """
    known = {"target": target, "reference_answer": target} if target else {}
    return {**fields, "id": sample_id, "question": asked, "input": asked, **known}


def sample_of(graded: Graded) -> dict[str, Any]:
    """The answer in the shape in which OpenAI hands it to graders: `output_text`, `output_json` where that parses, ...

    `trajectory` is ours besides: the whole of it as text.
    """
    message = {"role": "assistant", "content": graded.completion}
    held: dict[str, Any] = {
        "output_text": graded.completion,
        "output_tools": [],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "trajectory": graded.trajectory,
    }
    try:
        return held | {"output_json": json.loads(graded.completion)}
    except (ValueError, RecursionError):
        return held


def _words(error: BaseException) -> str:
    """What an error says, as far as it can be said: its text may be of any length, or raise itself."""
    try:
        shown = str(error)
    except Exception:
        return "no reason can be read"
    return shown if len(shown) <= 300 else f"{shown[:299]}…"


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
