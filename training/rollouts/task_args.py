"""Arguments of several tasks, given together: those of all, and those of one under its name."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from truthgym.evallog.errors import bad_input


def shared_out(
    taken: Mapping[str, Collection[str]],
    *given: Mapping[str, Any],
    nearest: Callable[[str, Collection[str]], str] = lambda name, known: "",
) -> dict[str, dict[str, Any]]:
    """Give each task its arguments. What comes later replaces what came before.

    Those of all tasks stand as {argument: value}, those of one as {task: {argument: value}}, where the task's name may
    do without its package. An argument goes to the tasks that take it.

    Args:
        taken: By task, the names of the arguments that it takes.
        given: Arguments.
        nearest: Names the argument that a wrong one may have meant, for the error.

    Raises:
        BadInput: An argument that no task takes, or that the task under whose name it stands does not take.
    """
    short = {short_name(name): name for name in taken}
    shared: dict[str, dict[str, Any]] = {name: {} for name in taken}
    for key, value in (entry for some in given for entry in some.items()):
        if (of := short.get(key, key)) in taken and isinstance(value, Mapping):
            for wrong in value.keys() - set(taken[of]):
                raise bad_input(f"The task {of} takes no argument {wrong!r}{nearest(wrong, taken[of])}")
            shared[of] |= value
            continue
        takers = [name for name in taken if key in taken[name]]
        if not takers:
            known = {known for parameters in taken.values() for known in parameters}
            raise bad_input(f"The task {', '.join(taken)} takes no argument {key!r}{nearest(key, known)}")
        for name in takers:
            shared[name][key] = value
    return shared


def short_name(task: str) -> str:
    """A task's name without its package or file."""
    return task.rpartition("@")[2].rpartition("/")[2].removesuffix(".py")
