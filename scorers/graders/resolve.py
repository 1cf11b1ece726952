"""Makes a grader from the arguments of `graded`: a name, a specification, a program or a `Grader`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput, one_of, whole_number
from truthgym.scorers.graders.builtin import by_rubric, model_brier, python_brier, read_text
from truthgym.scorers.graders.grader import Grader
from truthgym.scorers.graders.openai import openai_grader
from truthgym.scorers.graders.python import python_grader

NAMES = ("python_brier", "model_brier", "model", "python")
RANGED = {"low": 0.0, "high": 1.0, "higher_is_better": True}
"""Range and direction of graders that do not declare them: the user's programs and formulas."""


def read_grader(
    grader: object = "python_brier",
    rubric: str | None = None,
    file: str | None = None,
    low: float | None = None,
    high: float | None = None,
    higher_is_better: bool | None = None,
    trusted: bool = False,
    time_limit: int = 30,
    cache: bool = True,
) -> Grader:
    """Make a grader from the arguments of `graded`, which see. Its `roles` and `sandbox` are what a run must have.

    Raises:
        BadInput: One of them cannot be used.
    """
    for name, flag in (("trusted", trusted), ("cache", cache)):
        if not isinstance(flag, bool):
            raise BadInput(f"{name}={flag!r} cannot be used; write true or false")
    whole_number("graded", "time_limit", time_limit, 1, 600)
    given = {"low": low, "high": high, "higher_is_better": higher_is_better}
    ranged: dict[str, Any] = {name: RANGED[name] if value is None else value for name, value in given.items()}

    def only(*taken: str) -> None:
        """Refuse an argument that was given and that this grader does not take."""
        for name, value in (given | {"rubric": rubric, "file": file}).items():
            if value is not None and name not in taken:
                raise BadInput(f"grader={_named(grader)} does not take {name}; leave it out")

    if isinstance(grader, Grader):
        only()
        return grader
    if isinstance(grader, Mapping):
        spec = _json(grader)
    elif not isinstance(grader, str):
        raise BadInput(f"grader={grader!r} cannot be used; give a name, a file, or a specification")
    elif grader.lstrip().startswith("{"):
        spec = grader
    elif grader.endswith(".json"):
        spec = read_text("grader", grader)
    elif grader == "python" or grader.endswith(".py"):
        only("file", *RANGED) if grader == "python" else only(*RANGED)
        path = file if grader == "python" else grader
        if path is None:
            raise BadInput("grader=python needs the user's program; add file=PATH.py")
        source = read_text("file", path)
        return python_grader(Path(path).name, source, trusted, time_limit, **ranged)
    else:
        one_of("grader", grader, NAMES)
        only("rubric") if grader == "model" else only()
        if grader == "python_brier":
            return python_brier()
        return model_brier(cache) if grader == "model_brier" else by_rubric(rubric, cache)
    found = openai_grader(spec, ranged, trusted, time_limit, cache)
    only(*(RANGED if found.kind in ("python", "multi") else ()))
    return found.grader


def _json(spec: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(spec), ensure_ascii=False)
    except TypeError as error:
        raise BadInput(
            f"grader: the specification holds what JSON has not ({error}); the command line reads YAML, to which a day "
            "is no text: put it in quotes, or give the specification in a .json file"
        ) from None


def _named(grader: object) -> str:
    return str(grader if not isinstance(grader, Grader) else grader.name)[:60]
