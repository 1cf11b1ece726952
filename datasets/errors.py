"""Errors in user input: one message that names the value, the place and the remedy."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from functools import cache, wraps
from inspect import getmodule, signature
from itertools import chain, repeat
from math import inf
from typing import ParamSpec, TypeVar, get_args, get_origin, get_type_hints

import pydantic
import yaml
from pydantic import ConfigDict, ValidationError
from pydantic_core import ErrorDetails
from rich.markup import escape

from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.datasets.redaction import redact, redacted

P = ParamSpec("P")
R = TypeVar("R")

MAX_SHOWN = 80
"""Characters of a value that an error shows."""


class BadInput(PrerequisiteError):
    """A value from the user cannot be used. Inspect prints the message without a traceback.

    It is not a ValueError: `inspect score` reads a ValueError from a scorer's arguments as "no such scorer". Keys in
    the message are hidden.
    """

    def __init__(self, message: str) -> None:
        without_keys = redact(message)
        super().__init__(escape(without_keys))  # Inspect prints with rich, which reads brackets as markup
        self.args = (without_keys,)


def one_of(what: str, value: str, known: Sequence[str]) -> None:
    """Check that a name is known, and suggest the nearest one if it is not."""
    if value not in known:
        raise BadInput(f"Unknown {what} {value!r}; {did_you_mean(str(value), known)}known: {', '.join(known)}")


def names_in(value: object) -> list[str]:
    """The names in a list, or in a text that separates them by commas, without spaces around them."""
    names = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple | set) else [value]
    return [text for name in names if (text := str(name).strip())]


def positive(name: str, value: float | str, remedy: str) -> float:
    """A finite number above 0, from a number or a text."""
    try:
        number = float(value)
    except ValueError:
        number = inf
    if not 0 < number < inf:
        raise BadInput(f"{name}={value!r} is not a number above 0; give {remedy}")
    return number


def refuse_secrets(where: str, value: object) -> None:
    """Refuse settings with what looks like a key, by its name or its form, where they would be written to files."""
    for name, item in value.items() if isinstance(value, Mapping) else []:
        refuse_secrets(f"{where}, {name}", item)
        if redacted({name: item}) != {name: item}:
            raise BadInput(
                f"{where}: {name} looks like a key, which would be written to files; set the environment variable of "
                "the model's provider instead"
            )
    for item in value if isinstance(value, list | tuple) else []:
        refuse_secrets(where, item)


def not_on_windows(what: str) -> None:
    """Check that this system has process groups and signals, as Linux and macOS do."""
    if not hasattr(os, "killpg"):
        raise BadInput(
            f"{what} needs Linux or macOS, whose signals end a run with all its processes; use WSL on Windows"
        )


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A suggestion such as "did you mean 'brier'? ", or an empty string if nothing is near."""
    folded = {candidate.lower(): candidate for candidate in known}
    near = get_close_matches(name.lower(), folded, n=1)
    return f"did you mean {folded[near[0]]!r}? " if near else ""


def shown(value: object) -> str:
    """A value as an error shows it: long ones are cut."""
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def bad_fields(where: str, error: ValidationError, known: Sequence[str]) -> BadInput:
    """All that is wrong with the fields of a row, in one message: each field once, with its value and the remedy."""
    problems: dict[str, str] = {}
    for detail in error.errors():
        name = ".".join(str(part) for part in detail["loc"] if not isinstance(part, str) or "[" not in part)
        problems.setdefault(name.partition(".")[0], _field_problem(name, detail, known))
    return BadInput(f"{where}: {'; '.join(problems.values())}")


def _field_problem(name: str, error: ErrorDetails, known: Sequence[str]) -> str:
    value, kind, field = error["input"], error["type"], f"the field `{name}`"
    if not name:
        return _remedy(name, error)
    if kind == "missing":
        return f"{field} is missing; add it"
    if kind == "extra_forbidden":
        return f"there is no field {name!r}; {did_you_mean(name, known)}known: {', '.join(known)}"
    if kind in ("string_type", "string_pattern_mismatch"):
        return f"{field} must be text in quotes, got {shown(value)}"
    if kind == "float_type" or error.get("ctx", {}).get("le") == 1 or error.get("ctx", {}).get("ge") == 0.0:
        percent = isinstance(value, int | float) and 2 <= value <= 100
        remedy = f"{value / 100:.10g}" if percent else "a number from 0 to 1"
        return f"{field}: {shown(value)} is not a probability; write {remedy}"
    if kind == "list_type":
        return f'{field}: {shown(value)} cannot be used; give a JSON list such as ["It rains."]'
    return f"{field}: {shown(value)} cannot be used; {_remedy(name, error)}"


def validate_call(function: Callable[P, R]) -> Callable[P, R]:
    """Check a function's arguments against its annotations, as `pydantic.validate_call` does.

    `Literal["a", "b"]` lists the values that are allowed and `Annotated[int, Field(ge=1)]` a range. Types are strict:
    True is not an int, "1" is not an int, an int is a float. Only where an annotation has a sequence of numbers are
    they read from text, as 50,200 is text on Inspect's command line. Place it below Inspect's decorator:

        @scorer(metrics=[mean()])
        @validate_call
        def my_scorer(per: Literal["trajectory", "step"] = "trajectory") -> Scorer: ...

    Raises:
        BadInput: When called with an argument that does not fit, in one message for all of them.
    """

    @cache
    def checked() -> Callable[P, R]:  # built when first called: building costs more than loading the module
        config = ConfigDict(strict=True, arbitrary_types_allowed=True)
        return pydantic.validate_call(config=config)(function)

    @cache
    def several() -> set[str]:
        hints = get_type_hints(function).items()
        return {name for name, hint in hints for part in (hint, *get_args(hint))
                if get_origin(part) is Sequence and get_args(part)[0] in (int, float)}  # fmt: skip

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in several() & kwargs.keys():
            kwargs[name] = _numbers(kwargs[name])
        places = zip(args, chain(signature(function).parameters, repeat("")), strict=False)
        values = [_numbers(value) if name in several() else value for value, name in places]
        try:
            return checked()(*values, **kwargs)  # type: ignore[arg-type]
        except ValidationError as error:
            if error.title != function.__name__:  # raised by the function's own work
                raise
            raise BadInput(f"{function.__name__}: {_problems(error, function)}") from None

    return call


def _numbers(value: object) -> object:
    """The numbers in a text with commas or in a list of texts; another value as it is."""
    texts = value.split(",") if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return value
    try:
        numbers = [yaml.safe_load(text) for text in texts]
    except (yaml.YAMLError, ValueError, RecursionError):
        return value
    return numbers if all(isinstance(number, int | float) for number in numbers) else value


def _problems(error: ValidationError, function: Callable[..., object]) -> str:
    """What is wrong with each argument: its value, once, and the remedies, one for each member of a union."""
    names = [name for name in function.__annotations__ if name != "return"]
    problems: dict[str, str] = {}
    for detail in error.errors():
        first = detail["loc"][0]
        name = names[first] if isinstance(first, int) else first  # an argument given by position
        if detail["type"] == "unexpected_keyword_argument":
            problems[name] = f"there is no argument {name!r}; {did_you_mean(name, names)}known: {', '.join(names)}"
        elif detail["type"] == "missing_argument":
            example = re.search(rf"-[ST] {name}=\S+", str(getmodule(function).__doc__))
            problems[name] = f"the argument {name!r} is missing; add it{f', such as {example[0]}' if example else ''}"
        elif name not in problems:
            problems[name] = f"{name}={detail['input']!r} cannot be used; {_remedy(name, detail)}"
        elif (remedy := _remedy(name, detail)) not in problems[name]:
            problems[name] += f", or {remedy}"
    return "; ".join(problems.values())


def _remedy(name: str, error: ErrorDetails) -> str:
    """What to give instead."""
    if error["type"] == "literal_error":
        known = [part.strip("'") for part in re.split(r", | or ", error["ctx"]["expected"])]
        return f"{did_you_mean(str(error['input']), known)}give {error['ctx']['expected']}"
    if error["type"] == "bool_type":
        return "give true or false"
    if error["type"] == "string_type" and isinstance(error["input"], bool | int | float | date):  # YAML reads 12 so
        return f"it is not text; on the command line quote it twice, as in '{name}=\"{error['input']}\"'"
    return error["msg"].removeprefix("Value error, ").replace("Input should be", "it must be")
