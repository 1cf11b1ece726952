"""The solver that another solver wraps: few_shot and length_control reason with any other mode."""

from collections.abc import Mapping
from typing import Any

from inspect_ai.solver import Solver
from inspect_ai.util import registry_create

from truthgym.datasets.errors import BadInput

SolverSpec = str | Mapping[str, Mapping[str, Any] | None] | Solver
"""A solver by name, by name with its arguments as {name: {argument: value}}, or as an object."""


def wrapped_solver(where: str, base: SolverSpec) -> Solver:
    """Create the solver that `where` wraps.

    Args:
        where: Name of the wrapping solver, for the error.
        base: A name as in `--solver`, where "truthgym/" may be omitted; a name with arguments; or a solver.

    Raises:
        BadInput: The name is unknown, or the solver does not take these arguments.
    """
    if callable(base):
        return base
    try:
        # The command line parses A,B as a list.
        specs = base if isinstance(base, Mapping) else dict.fromkeys(base if isinstance(base, list) else [base])
        [(name, arguments)] = specs.items()
        return registry_create("solver", name if "/" in name else f"truthgym/{name}", **(arguments or {}))
    except (LookupError, TypeError, ValueError) as error:
        raise BadInput(
            f"{where}: base={base!r} cannot be used ({error}); give one solver, NAME or {{NAME: {{argument: value}}}}"
        ) from None
