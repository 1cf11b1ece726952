"""Chain of thought: several turns of reasoning, with evidence revealed piece by piece, then the answer."""

from itertools import pairwise
from typing import Annotated

from inspect_ai.solver import Generate, Solver, TaskState, solver
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import answer_instruction

THINK = (
    "Step {step} of {steps}: think about the question and say where you stand so far. Do not give a final answer yet."
)
THINK_ON = "Step {step} of {steps}: continue your reasoning. Do not give a final answer yet."
WEIGH = (
    "Step {step} of {steps}: here is new evidence.\n{pieces}\n\nThink about what it implies. Do not give a final "
    "answer yet."
)


@solver
@validate_call
def chain_of_thought(steps: Annotated[int, Field(ge=1)] = 4) -> Solver:
    """Reason in turns before answering. `steps` + 1 model calls a sample.

    Each turn is one step. The evidence is split over the turns in order, as evenly as possible: with more pieces than
    turns, a turn reveals several; with fewer, some turns reveal none.

    Args:
        steps: Turns of reasoning before the answer, 1 or more.

    Raises:
        BadInput: `steps` is not an integer of at least 1.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        with conversation(state, generate) as talk:
            for step, pieces in enumerate(split_evenly(question.evidence, steps), start=1):
                (talk.ask_question if step == 1 else talk.send)(_prompt(step, steps, pieces))
                await talk.generate("reasoning", f"step {step}")
            talk.send(answer_instruction(question))
            await talk.generate("answer", "answer")
        return talk.state

    return solve


def split_evenly(pieces: list[str], turns: int) -> list[list[str]]:
    """Split pieces over turns in order. The sizes of any two turns differ by at most 1."""
    ends = [-(-len(pieces) * turn // turns) for turn in range(turns + 1)]
    return [pieces[start:end] for start, end in pairwise(ends)]


def _prompt(step: int, steps: int, pieces: list[str]) -> str:
    if pieces:
        return WEIGH.format(step=step, steps=steps, pieces="\n".join(f"- {piece}" for piece in pieces))
    return (THINK if step == 1 else THINK_ON).format(step=step, steps=steps)
