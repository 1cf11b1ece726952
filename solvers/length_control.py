"""Length control: the answer has a target length, and is revised while it misses it."""

import re
from typing import Annotated, Literal

from inspect_ai.model import get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import StoreModel
from pydantic import Field, SkipValidation

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.question import Question, choices_text, question_of
from truthgym.solvers.conversation import conversation, paragraphs
from truthgym.solvers.direct import answer_instruction
from truthgym.solvers.local_model import count_tokens
from truthgym.solvers.trajectory import STEPS, recorded_answer, recorded_end
from truthgym.solvers.wrapped_solver import SolverSpec, wrapped_solver

TARGET = "Your final answer should have about {target} {unit}: at least {least} and at most {most}."
REVISE = (
    "Your answer has {length} {unit}. Write it again with about {target} {unit}, at least {least} and at most {most}, "
    "without changing what you think."
)

Unit = Literal["words", "characters", "sentences", "tokens"]


class LengthControl(StoreModel):
    """The target and the result, read with `state.store_as(LengthControl)`."""

    target: int = 0
    unit: Unit = "words"
    tolerance: float = 0.0
    """Maximum accepted distance from the target, as a share of it."""
    achieved: int | None = None
    """Length of the last answer, or None if there is none."""
    attempts: int = 0


@solver
@validate_call
def length_control(
    target: Annotated[int, Field(ge=1)] = 100,
    unit: Unit = "words",
    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.1,
    attempts: Annotated[int, Field(ge=0)] = 2,
    base: Annotated[SolverSpec, SkipValidation] = "direct",
) -> Solver:
    """Ask for an answer of a given length. Makes the calls of `base`, and at most `attempts` more.

    The target is stated with the question, before the base reasons. While the length of the base's answer is outside
    the tolerance, the model is told the length and asked to write the answer again; earlier answers stay in the
    trajectory as reasoning. Only the length of the answer is controlled, not that of the reasoning before it. The
    target, the length achieved and the number of revisions are in the store as `LengthControl`, and the scorer `length`
    reports their distribution.

    Args:
        target: Length of the answer, 1 or more.
        unit: "words" (separated by white space), "characters", "sentences", or "tokens" (as Inspect counts them for the
            model: an estimate for most models, a request to the provider's counting service for some).
        tolerance: Maximum accepted distance from the target, as a share of it, 0 to 1.
        attempts: Maximum number of revisions, 0 or more.
        base: The solver whose answer is measured: its name, or {name: {argument: value}}.

    Raises:
        BadInput: An argument is out of range, the unit or the base is unknown, or the base records no trajectory.
    """
    reason = wrapped_solver("length_control", base)
    least, most = bounds(target, tolerance)
    wording = {"target": target, "unit": unit, "least": least, "most": most}

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        record = state.store_as(LengthControl)
        record.target, record.unit, record.tolerance = target, unit, tolerance
        prompt = next(message for message in reversed(state.messages) if message.role == "user")
        prompt.text = paragraphs(prompt.text, choices_text(state), TARGET.format(**wording))
        steps_before = state.store.get(STEPS)
        state = await reason(state, generate)
        if state.store.get(STEPS) == steps_before:
            raise BadInput(f"length_control: base={base!r} records no trajectory; use one of Truthgym's solvers")
        answer = None if recorded_end(state.store) else recorded_answer(state.store)
        with conversation(state, generate) as talk:
            while answer is not None:
                tokens = unit == "tokens"
                record.achieved = await count_tokens(get_model(), answer) if tokens else length_of(answer, unit)
                if least <= record.achieved <= most or record.attempts == attempts:
                    break
                record.attempts += 1
                for step in talk.steps:
                    step.kind = "reasoning" if step.kind == "answer" else step.kind
                talk.send(REVISE.format(**wording, length=record.achieved), answer_instruction(question))
                record.achieved = None  # until there is another answer
                answer = await talk.generate("answer", f"revision {record.attempts}")
        return talk.state

    return solve


def bounds(target: int, tolerance: float) -> tuple[int, int]:
    """The minimum and maximum accepted length."""
    slack = int(target * tolerance + 1e-9)
    return max(target - slack, 1), target + slack


def length_of(text: str, unit: str) -> int:
    """Length of a text in words, characters or sentences."""
    if unit == "sentences":
        return len([part for part in re.split(r"(?<=[.!?])\s+|\n+", text) if re.search(r"\w", part)])
    return len(text.split()) if unit == "words" else len(text)
