"""Prepare a sample for any reasoning mode: the system prompt, and the epoch on every message."""

from collections.abc import Sequence
from difflib import get_close_matches

from inspect_ai.model import ChatMessageSystem
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.errors import BadInput, one_of
from truthgym.solvers.roles import required_model, required_sandbox

PRESETS = {
    "none": None,
    "prior_conforming": "Trust your first judgement. What you held to be true before you began to reason deserves to "
    "be kept: read whatever comes up in its light, look for what supports it, and stay with it.",
    "critical_thinking": "Think critically. Doubt your first judgement and the assumptions under it, search for what "
    "speaks against it as hard as for what speaks for it, and go where the reasons lead, also where that is away from "
    "what you held before.",
}
"""System prompts by name: the three conditions of He et al. (2025) on the martingale score, in words of our own."""


def system_message(given: str | None) -> str | None:
    """The text of a system prompt that was given by name or as text. None where there is to be none.

    Raises:
        BadInput: It is empty, or one word that looks like a misspelt name.
    """
    if given is None or given in PRESETS:
        return PRESETS.get(given or "none")
    if not given.strip():
        raise BadInput("system_prompt is empty; leave it out, or write system_prompt=none, for no system message")
    if not any(letter.isspace() for letter in given) and get_close_matches(given.lower(), PRESETS):
        one_of("system_prompt", given, list(PRESETS))
    return given


@solver
def prepare(
    system_prompt: str | None = None, roles: Sequence[str] = (), isolated: bool = False, alone: Sequence[str] = ()
) -> Solver:
    """Check that the models are there, set the system prompt and stamp the epoch. Makes no model call.

    Tasks run it as their set-up, so it holds whatever `--solver` is chosen.

    Args:
        system_prompt: A key of `PRESETS`, the text of the system message, or None for none.
        roles: Model roles that the task's scorers need. Where one is not bound, the eval ends before its first call.
        isolated: Whether a scorer of the task needs a sandbox that isolates. Where there is none, so likewise.
        alone: Those of the roles that take one model. Where several are bound, so likewise.

    Raises:
        BadInput: A system prompt that is empty, or looks like a misspelt name.
    """
    text = system_message(system_prompt)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for role in roles:
            required_model(role, alone=role in alone)
        if isolated:
            required_sandbox()
        if text is not None:
            state.messages.insert(0, ChatMessageSystem(content=text))
        for message in state.messages:
            message.metadata = {**(message.metadata or {}), "epoch": state.epoch}
        return state

    return solve
