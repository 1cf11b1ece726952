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
    names = base if isinstance(base, list | tuple) else [base]  # the command line parses A,B as a list
    specs: Mapping[Any, Any] = base if isinstance(base, Mapping) else dict.fromkeys(names)
    if len(specs) != 1:
        raise BadInput(f"{where}: base={base!r} names {len(specs)} solvers; give one, as in base=chain_of_thought")
    name, arguments = next(iter(specs.items()))
    if not isinstance(name, str) or not isinstance(arguments, Mapping | None):
        raise BadInput(f"{where}: base={base!r} cannot be used; write NAME or {{NAME: {{argument: value}}}}")
    try:
        return registry_create("solver", name if "/" in name else f"truthgym/{name}", **(arguments or {}))
    except LookupError:
        raise BadInput(
            f"{where}: base={name!r} is not a known solver; give one as in --solver, such as chain_of_thought"
        ) from None
    except TypeError as error:
        raise BadInput(f"{where}: base={base!r} cannot be used: {error}") from None
