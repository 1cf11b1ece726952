"""Critique and revise: a draft, a critique of it by the principles of a constitution, and a revised answer."""

from typing import Annotated

from inspect_ai.solver import Generate, Solver, TaskState, solver
from pydantic import Field

from truthgym.datasets import constitution as data
from truthgym.datasets.errors import validate_call
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import answer_instruction, evidence

CRITICISE = "Criticise your answer by them"
CRITIQUE = (
    f"Here are principles for a good answer:\n\n{{principles}}\n\n{CRITICISE}: name each principle that "
    "it falls short of, and quote where. Do not answer again yet."
)
REVISE = "Write the answer again so that it meets every point of that critique. Do not mention the critique."
DRAFT, CRITIQUES = "CritiqueRevise:draft", "CritiqueRevise:critiques"
"""Store keys of the first answer, and of the critiques."""


@solver
@validate_call
def critique_revise(constitution: str = "built-in", rounds: Annotated[int, Field(ge=1)] = 1) -> Solver:
    """Draft an answer, criticise it by a constitution, and revise it. 1 + 2 x `rounds` model calls a sample.

    What is scored and converted is the question and the last revision, as if the model had answered so at once:
    `truthgym convert --to sft` then teaches to answer well, not to revise. The draft and the critiques stay in the
    sample's store and transcript, and `truthgym/preferences` compares the draft with the revision.

    Args:
        constitution: "built-in", or a .jsonl, .csv or .parquet file of rows with a `name` and a `principle`.
        rounds: Times the answer is criticised and revised, 1 or more.

    Raises:
        BadInput: The file cannot be used or has no principle, or `rounds` is not an integer of at least 1.
    """
    principles = data.as_list(data.constitution(constitution))

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        with conversation(state, generate) as talk:
            talk.ask_question(evidence(question.evidence), answer_instruction(question))
            opening, steps = list(talk.state.messages), list(talk.steps)
            draft = await talk.generate("auxiliary", "draft", trainable=False)
            critiques = []
            for number in range(1, rounds + 1):
                talk.send(CRITIQUE.format(principles=principles))
                critiques.append(await talk.generate("auxiliary", f"critique {number}", trainable=False))
                talk.send(REVISE, answer_instruction(question))
                before = len(talk.steps)
                await talk.generate("answer", f"revision {number}")
            talk.state.store.set(DRAFT, draft)
            talk.state.store.set(CRITIQUES, critiques)
            talk.state.messages = [*opening, talk.state.messages[-1]]
            talk.steps = [*steps, *talk.steps[before:]]
        return talk.state

    return solve
