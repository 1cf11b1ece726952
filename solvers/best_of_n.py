"""Best of n: several answers to each question, of which a scorer keeps the best.

inspect eval truthgym/urns --solver truthgym/best_of_n -S n=8 -S 'scorer={reward_model: {folder: FOLDER}}' --model M
"""

from collections.abc import Mapping
from copy import deepcopy
from math import inf, isfinite, nan
from typing import Annotated, Any, Literal

from inspect_ai.scorer import Score, Target
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import StoreModel, collect
from pydantic import Field, SkipValidation

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.inspect_private import hide_target
from truthgym.solvers.wrapped_solver import SolverSpec, create_by_name, wrapped_solver

NO_TRUTH = Target("")
"""What the selecting scorer is shown in place of the outcome: with it, selection would be by the truth."""


class BestOfN(StoreModel):
    """What was selected, read with `state.store_as(BestOfN)`."""

    scores: list[float | None] = Field(default_factory=list)
    """The number that the scorer gave each answer; None if it had none to give."""
    answers: list[str] = Field(default_factory=list)
    chosen: int | None = None
    """Index of the one that was kept: the best, the first of equals; the first if none has a number."""


@solver
@validate_call
def best_of_n(
    n: Annotated[int, Field(ge=2)] = 4,
    scorer: Annotated[str | Mapping[str, Mapping[str, Any] | None], SkipValidation] = "reward_model",
    key: str | None = None,
    best: Literal["highest", "lowest"] = "highest",
    base: Annotated[SolverSpec, SkipValidation] = "direct",
) -> Solver:
    """Answer each question `n` times, and keep the answer that a scorer puts first. Makes the calls of `base`, n times.

    The scorer is not shown the target: by one that needs it no answer can be selected, and the first is kept. The
    metadata are the sample's own; a scorer that reads the truth there (`posterior` of `urns`) selects by it. What it
    prefers is what best-of-n maximises, so the kept answers say little about the scorer's own quality: score them by
    another one (`truthgym.analysis.over_optimisation` compares the two). The answers must differ: give the model a
    temperature above 0. Inspect's cache is not used, since it would return one answer n times.

    The kept answer's conversation is the sample's; all answers and their numbers are in the store as `BestOfN`.

    Args:
        n: Answers to each question, 2 or more.
        scorer: Name of the scorer, where "truthgym/" may be omitted, or {name: {argument: value}}.
        key: Key of the scorer's value by which to select. None: its first number.
        best: Which end is better.
        base: The solver that answers: its name, or {name: {argument: value}}.

    Raises:
        BadInput: An argument is out of range, the scorer or the base is unknown; or, on the first sample, the scorer's
            value has no such key.
    """
    answer, select = wrapped_solver("best_of_n", base), create_by_name("scorer", "best_of_n: scorer", scorer)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        async def uncached(state: TaskState, *args: Any, **kwargs: Any) -> TaskState:
            return await generate(state, *args, **{**kwargs, "cache": False})

        states = await collect(*(answer(deepcopy(state), uncached) for _ in range(n)))
        for candidate in states:
            hide_target(candidate)
        values = [
            _number(score, key) for score in await collect(*(select(candidate, NO_TRUTH) for candidate in states))
        ]
        sign = 1 if best == "highest" else -1
        order = [sign * value if isfinite(value) else -inf for value in values]
        winner = order.index(max(order))
        for name, value in states[winner].store.items():
            state.store.set(name, value)
        state.messages, state.output = states[winner].messages, states[winner].output
        state.choices = states[winner].choices
        record = state.store_as(BestOfN)
        record.scores = [value if isfinite(value) else None for value in values]
        record.answers = [candidate.output.completion for candidate in states]
        record.chosen = winner
        return state

    return solve


def _number(score: Score | None, key: str | None) -> float:
    value: Any = score.value if score else nan
    if isinstance(value, Mapping):
        if key is not None and key not in value:
            raise BadInput(f"best_of_n: key={key!r} is no number of the scorer; give one of {', '.join(value)}")
        value = value[key] if key is not None else next(iter(value.values()), nan)
    return float(value) if isinstance(value, int | float) else nan
