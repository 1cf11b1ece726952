"""Chain of thought: several turns of reasoning, evidence revealed piece by piece, then the answer."""

from itertools import pairwise

from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.errors import whole_number
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import answer_instruction

THINK = "Step {step} of {steps}: think about the question and say where you stand. Do not give a final answer yet."
THINK_ON = "Step {step} of {steps}: take your reasoning further. Do not give a final answer yet."
WEIGH = "Step {step} of {steps}: this is new.\n{pieces}\n\nThink about what it means. Do not give a final answer yet."


@solver
def chain_of_thought(steps: int = 4) -> Solver:
    """Reason in turns before answering. `steps` + 1 model calls a sample.

    Each turn is a step of its own. Evidence is shared out over the turns in order, as evenly as it goes: with more
    pieces than turns several come at once, with fewer some turns bring none.

    Args:
        steps: Turns of reasoning before the answer, 1 or more.

    Raises:
        BadInput: `steps` is not a whole number from 1 up.
    """
    whole_number("chain_of_thought", "steps", steps, 1)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        with conversation(state, generate) as talk:
            for step, pieces in enumerate(share_out(question.evidence, steps), start=1):
                (talk.ask_question if step == 1 else talk.send)(_prompt(step, steps, pieces))
                await talk.generate("reasoning", f"step {step}")
            talk.send(answer_instruction(question))
            await talk.generate("answer", "answer")
        return talk.state

    return solve


def share_out(pieces: list[str], turns: int) -> list[list[str]]:
    """Share pieces out over turns in order, so that no turn has two more than another."""
    ends = [-(-len(pieces) * turn // turns) for turn in range(turns + 1)]
    return [pieces[start:end] for start, end in pairwise(ends)]


def _prompt(step: int, steps: int, pieces: list[str]) -> str:
    if pieces:
        return WEIGH.format(step=step, steps=steps, pieces="\n".join(f"- {piece}" for piece in pieces))
    return (THINK if step == 1 else THINK_ON).format(step=step, steps=steps)
