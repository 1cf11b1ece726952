"""Base: the reasoning mode round which another one wraps itself."""

from collections.abc import Mapping
from typing import Any

from inspect_ai.solver import Solver
from inspect_ai.util import registry_create

from truthgym.datasets.errors import BadInput

SolverSpec = str | Mapping[str, Mapping[str, Any] | None] | Solver
"""A solver by its name, by its name with its arguments as {name: {argument: value}}, or as it is."""


def wrapped_solver(where: str, base: SolverSpec) -> Solver:
    """Make the solver that is wrapped.

    Args:
        where: The solver that wraps it, for the error.
        base: A name as in `--solver`, in which "truthgym/" may be left out; the same with arguments; or a solver.

    Raises:
        BadInput: It is not known, or does not take these arguments.
    """
    if callable(base):
        return base
    named: Mapping[Any, Any] = base if isinstance(base, Mapping) else dict.fromkeys(_listed(base))
    if len(named) != 1:
        raise BadInput(f"{where}: base={base!r} names {len(named)} solvers; give one, as in base=chain_of_thought")
    name, arguments = next(iter(named.items()))
    if not isinstance(name, str) or not isinstance(arguments, Mapping | None):
        raise BadInput(f"{where}: base={base!r} cannot be used; write NAME or {{NAME: {{argument: value}}}}")
    try:
        return registry_create("solver", name if "/" in name else f"truthgym/{name}", **(arguments or {}))
    except LookupError:
        raise BadInput(
            f"{where}: there is no solver {name!r}; give one as in --solver, such as chain_of_thought"
        ) from None
    except TypeError as error:
        raise BadInput(f"{where}: base={base!r} cannot be used: {error}") from None


def _listed(base: object) -> list[object]:
    return list(base) if isinstance(base, list | tuple) else [base]  # the command line makes a list of A,B
