"""Prepare a sample for any reasoning mode: the system prompt, and the epoch on every message."""

from collections.abc import Sequence

from inspect_ai.model import ChatMessageSystem, Model, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.question import UNMET, BadInput


def required_model(role: str) -> Model:
    """The model that is bound to a role. Never the evaluated model in its place.

    Raises:
        BadInput: None is bound.
    """
    try:
        return get_model(role=role, required=True)
    except UNMET:
        raise BadInput(
            f"A scorer of this task needs a {role}, and no model has that role; add --model-role {role}=MODEL (with "
            "inspect score too: a log does not keep the roles of a later pass)"
        ) from None


@solver
def prepare(system_prompt: str | None = None, roles: Sequence[str] = ()) -> Solver:
    """Check that the models are there, set the system prompt and stamp the epoch. Makes no model call.

    Tasks run it as their set-up, so it holds whatever `--solver` is chosen.

    Args:
        system_prompt: Text of the system message, or None for none.
        roles: Model roles that the task's scorers need. Where one is not bound, the eval ends before its first call.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for role in roles:
            required_model(role)
        if system_prompt is not None:
            state.messages.insert(0, ChatMessageSystem(content=system_prompt))
        for message in state.messages:
            message.metadata = {**(message.metadata or {}), "epoch": state.epoch}
        return state

    return solve
