"""Makes a grader from the arguments of `graded`: a name, an OpenAI specification, a program or a `Grader`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from truthgym.datasets.errors import BadInput, one_of, validate_call
from truthgym.scorers.graders.builtin import by_rubric, model_brier, plain, python_brier
from truthgym.scorers.graders.grader import Grader
from truthgym.scorers.graders.openai import openai_grader, parse_spec
from truthgym.scorers.graders.python import ProgramOptions, hidden_tests, python_grader
from truthgym.scorers.judges.rubric import read_text

RANGE = ("low", "high", "higher_is_better")
OPTIONS: dict[str, tuple[str, ...]] = {
    "python_brier": (),
    "model_brier": (),
    "plain": (),
    "hidden_tests": (),
    "model": ("rubric",),
    "python": ("file", *RANGE),
}
"""Graders by name, with the optional arguments of `graded` that each takes."""


@validate_call
def read_grader(
    grader: object = "python_brier",
    rubric: str | None = None,
    file: str | None = None,
    low: float | None = None,
    high: float | None = None,
    higher_is_better: bool | None = None,
    trusted: bool = False,
    time_limit: Annotated[int, Field(ge=1, le=600)] = 30,
    cache: bool = True,
) -> Grader:
    """Make a grader from the arguments of `graded`. Its `roles` and `sandbox` are what a run must provide."""
    options = {"rubric": rubric, "file": file, "low": low, "high": high, "higher_is_better": higher_is_better}
    program = ProgramOptions(
        trusted=trusted,
        time_limit=time_limit,
        low=0.0 if low is None else low,
        high=1.0 if high is None else high,
        higher_is_better=higher_is_better is not False,
    )

    def check_options(allowed: tuple[str, ...]) -> None:
        for name, value in options.items():
            if value is not None and name not in allowed:
                name_of_grader = str(grader.name if isinstance(grader, Grader) else grader)[:60]
                raise BadInput(f"grader={name_of_grader} does not take {name}; leave it out")

    if isinstance(grader, Grader):
        check_options(())
        return grader
    spec = _read_spec(grader)
    if spec is not None:
        check_options(RANGE if parse_spec(spec)["type"] in ("python", "multi") else ())
        return openai_grader(spec, program, cache)
    if not isinstance(grader, str):
        raise BadInput(f"grader={grader!r} cannot be used; give a name, a file, or a specification")
    if grader.endswith(".py"):
        check_options(RANGE)
        return python_grader(Path(grader).name, read_text("file", grader), program)
    one_of("grader", grader, tuple(OPTIONS))
    check_options(OPTIONS[grader])
    match grader:
        case "python_brier":
            return python_brier()
        case "model_brier":
            return model_brier(cache)
        case "plain":
            return plain()
        case "hidden_tests":
            return hidden_tests(program)
        case "model":
            return by_rubric(rubric, cache)
    if file is None:
        raise BadInput("grader=python needs the user's program; add file=PATH.py")
    return python_grader(Path(file).name, read_text("file", file), program)


def _read_spec(grader: object) -> str | None:
    """The JSON of an OpenAI specification; None if `grader` is not one."""
    if isinstance(grader, Mapping):
        return _to_json(grader)
    if isinstance(grader, str) and grader.lstrip().startswith("{"):
        return grader
    return read_text("grader", grader) if isinstance(grader, str) and grader.endswith(".json") else None


def _to_json(spec: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(spec), ensure_ascii=False)
    except TypeError as error:
        raise BadInput(
            f"grader: the specification holds a value that JSON does not support ({error}); the command line reads "
            "YAML, which turns 2024-01-31 into a date: put it in quotes, or give the specification in a .json file"
        ) from None
