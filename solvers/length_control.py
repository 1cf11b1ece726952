"""Length control: the answer has a length to keep, and is revised while it does not."""

import re
from typing import Literal, get_args

from inspect_ai.model import get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import StoreModel

from truthgym.datasets.errors import BadInput, one_of, whole_number
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import answer_instruction
from truthgym.solvers.trajectory import STEPS, recorded_answer, recorded_end
from truthgym.solvers.wrapped_solver import SolverSpec, wrapped_solver

ASKED = "Your final answer is to have about {target} {unit}: at least {least} and at most {most}."
REVISE = (
    "Your answer has {length} {unit}. Write it again with about {target} {unit}, at least {least} and at most {most}; "
    "keep to what you think."
)

Unit = Literal["words", "characters", "sentences", "tokens"]


class LengthControl(StoreModel):
    """What was asked for and what came of it, read with `state.store_as(LengthControl)`."""

    target: int = 0
    """Length asked for."""
    unit: Unit = "words"
    tolerance: float = 0.0
    """Greatest distance from the target that counts as kept, as a share of it."""
    achieved: int | None = None
    """Length of the last answer, or None where there is none."""
    attempts: int = 0
    """Revisions asked for."""


@solver
def length_control(
    target: int = 100, unit: Unit = "words", tolerance: float = 0.1, attempts: int = 2, base: SolverSpec = "direct"
) -> Solver:
    """Ask for an answer of a given length. The calls of `base`, and at most `attempts` more.

    The length is stated with the question, before the base reasons. Its answer is measured, and while it is outside the
    tolerance, the model is told its length and asked to write it again; earlier answers stay in the trajectory as
    reasoning. The length of the answer alone is controlled, not that of the reasoning before it. What was asked for,
    achieved and tried is in the store as `LengthControl`, and the scorer `length` shows its distribution.

    Args:
        target: Length of the answer, 1 or more.
        unit: "words" (what stands between spaces), "characters", "sentences", or "tokens" (as Inspect counts them for
            the model: an estimate for most, and for some a request to the provider's counting service).
        tolerance: Greatest distance from the target that is accepted, as a share of it, 0 to 1.
        attempts: Revisions at most, 0 or more.
        base: The solver whose answer is measured: its name, or {name: {argument: value}}.

    Raises:
        BadInput: An argument outside its range, an unknown unit, or a base that is unknown or not of Truthgym's kind.
    """
    whole_number("length_control", "target", target, 1)
    whole_number("length_control", "attempts", attempts, 0)
    if not isinstance(tolerance, int | float) or not 0 <= tolerance <= 1:
        raise BadInput(f"length_control: tolerance={tolerance!r} cannot be used; give a share from 0 to 1")
    one_of("unit", unit, get_args(Unit))
    reason = wrapped_solver("length_control", base)
    least, most = bounds(target, tolerance)
    asked = {"target": target, "unit": unit, "least": least, "most": most}

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        if f"{LengthControl.__name__}:target" in state.store:
            raise BadInput("length_control: it stands within another length_control; give one target")
        kept = state.store_as(LengthControl)
        kept.target, kept.unit, kept.tolerance = target, unit, tolerance
        told = next(message for message in reversed(state.messages) if message.role == "user")
        told.text = f"{told.text}\n\n{ASKED.format(**asked)}"
        earlier = state.store.get(STEPS)
        state = await reason(state, generate)
        if state.store.get(STEPS) == earlier:
            raise BadInput(f"length_control: base={base!r} leaves no trajectory; give one of Truthgym's solvers")
        answer = None if recorded_end(state.store) else recorded_answer(state.store)
        with conversation(state, generate) as talk:
            while answer is not None:
                kept.achieved = await length_of(answer, unit)
                if least <= kept.achieved <= most or kept.attempts == attempts:
                    break
                kept.attempts += 1
                for step in talk.steps:
                    step.kind = "reasoning" if step.kind == "answer" else step.kind
                talk.send(REVISE.format(**asked, length=kept.achieved), answer_instruction(question))
                kept.achieved = None  # until there is another answer
                answer = await talk.generate("answer", f"revision {kept.attempts}")
        return talk.state

    return solve


def bounds(target: int, tolerance: float) -> tuple[int, int]:
    """The least and the greatest length that are accepted."""
    slack = int(target * tolerance + 1e-9)
    return max(target - slack, 1), target + slack


async def length_of(text: str, unit: Unit) -> int:
    """Length of a text. Words are what stands between spaces; a sentence ends with ., ! or ? and is not empty."""
    if unit == "words":
        return len(text.split())
    if unit == "characters":
        return len(text)
    if unit == "sentences":
        return len([part for part in re.split(r"(?<=[.!?])\s+|\n+", text) if re.search(r"\w", part)])
    return await get_model().count_tokens(text)
