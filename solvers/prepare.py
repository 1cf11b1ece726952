"""The setup of every task: checks model, roles and sandbox, sets the system prompt, marks messages by epoch."""

from collections.abc import Sequence
from contextlib import suppress

from inspect_ai.model import ChatMessageSystem, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.errors import BadInput, did_you_mean, one_of, validate_call
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.local_model import check_local_model
from truthgym.solvers.roles import required_model, required_python, required_sandbox, required_server

PRESETS = {
    "none": None,
    "prior_conforming": "Trust your initial judgement. Treat what you believed before you started reasoning as the "
    "default: interpret whatever comes up in its light, look for support for it, and stick with it.",
    "critical_thinking": "Think critically. Question your initial judgement and the assumptions behind it, look for "
    "evidence against it as hard as for evidence in its favour, and follow the reasons wherever they lead, even if "
    "that is away from what you believed at first.",
}
"""System prompts by name: the three conditions of He et al. (2025) on the martingale score, reworded."""


def system_message(system_prompt: str | None) -> str | None:
    """The text of a system prompt given by name or as text, or None for no system message."""
    if system_prompt is None or system_prompt in PRESETS:
        return PRESETS.get(system_prompt or "none")
    if not system_prompt.strip():
        raise BadInput("system_prompt is empty; omit it, or write system_prompt=none, for no system message")
    if len(system_prompt.split()) == 1 and did_you_mean(system_prompt.lower(), list(PRESETS)):
        one_of("system_prompt", system_prompt, list(PRESETS))
    return system_prompt


@solver
@validate_call
def prepare(
    system_prompt: str | None = None, roles: Sequence[str] = (), isolated: bool = False, alone: Sequence[str] = ()
) -> Solver:
    """Check that the required models exist, set the system prompt and record the epoch. Makes no model call.

    Tasks use it as their setup, so it runs whatever `--solver` is chosen.

    Args:
        system_prompt: A key of `PRESETS`, the text of the system message, or None for none.
        roles: Model roles that the task's scorers need. If one has no model, the eval ends before its first call.
        isolated: Whether a scorer of the task needs an isolating sandbox. Without one, the eval ends likewise.
        alone: Those of the roles that take exactly one model. With several, the eval ends likewise.

    Raises:
        BadInput: The system prompt is empty or looks like a misspelt name.
    """
    text = system_message(system_prompt)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        check_local_model(get_model())
        for model in (get_model(), *(required_model(role, alone=role in alone) for role in roles)):
            required_server(model)
        if isolated:
            required_sandbox()
            await required_python()
        if text is not None:
            state.messages.insert(0, ChatMessageSystem(content=text))
        for message in state.messages:
            message.metadata = {**(message.metadata or {}), "epoch": state.epoch}
        with suppress(BadInput):  # a sample that is no question: a solver or scorer that needs one says so
            question_of(state, Question)  # simulated agents then know it in a plain Inspect solver too
        return state

    return solve
