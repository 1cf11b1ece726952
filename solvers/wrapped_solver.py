"""What another solver uses by name: few_shot, length_control and best_of_n reason with any other mode."""

from collections.abc import Mapping
from typing import Any, Literal

from inspect_ai.solver import Solver
from inspect_ai.util import registry_create

from truthgym.datasets.errors import BadInput

SolverSpec = str | Mapping[str, Mapping[str, Any] | None] | Solver
"""A solver by name, by name with its arguments as {name: {argument: value}}, or as an object."""


def wrapped_solver(where: str, base: SolverSpec) -> Solver:
    """The solver that `where` wraps: an object, or one by name; a BadInput if there is none or its arguments fail."""
    if callable(base):
        return base
    solver: Solver = create_by_name("solver", f"{where}: base", base)
    return solver


def create_by_name(kind: Literal["solver", "scorer"], argument: str, spec: object) -> Any:  # noqa: ANN401
    """What is registered under a name, where "truthgym/" may be omitted, or under {name: {argument: value}}."""
    try:
        # The command line parses A,B as a list.
        specs = spec if isinstance(spec, Mapping) else dict.fromkeys(spec if isinstance(spec, list) else [spec])
        [(name, arguments)] = specs.items()
        return registry_create(kind, name if "/" in name else f"truthgym/{name}", **(arguments or {}))
    except (LookupError, TypeError, ValueError) as error:
        raise BadInput(
            f"{argument}={spec!r} cannot be used ({error}); give one {kind}, NAME or {{NAME: {{argument: value}}}}"
        ) from None
