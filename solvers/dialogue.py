"""Dialogue: the model discusses a question with another model, or a person, before it answers."""

from collections.abc import Sequence
from typing import Annotated

from inspect_ai.model import ChatMessage, ChatMessageAssistant
from inspect_ai.solver import Generate, Solver, TaskState, solver
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.datasets.question import Question, question_of, question_text
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import answer_instruction, evidence, with_evidence
from truthgym.solvers.roles import required_model
from truthgym.solvers.trajectory import user_message

ROLE = "interlocutor"
OPEN = (
    "You will discuss this with someone before you answer. Start by saying where you stand and why, without giving a "
    "final answer."
)
INTERLOCUTOR = (
    "{question}\n\nSomeone has been asked this question, and you are discussing it with them before they answer. Ask "
    "questions, object, and add what you know: the aim is to find out what is true, not to win. Reply to them in a few "
    "sentences.\n\nThey say:\n\n{text}"
)
CONCLUDE = "The discussion is over. Say what you think now."


@solver
@validate_call
def dialogue(turns: Annotated[int, Field(ge=1)] = 3) -> Solver:
    """Discuss the question before answering. `turns` + 2 model calls a sample, and `turns` of the interlocutor.

    The other side is the model in the role `interlocutor`. Either side may be a person: `--model human/terminal`, or
    `--model-role interlocutor=human/terminal`. The interlocutor's messages reach the model as user messages and are not
    trained on. Both sides get all the evidence at once.

    Args:
        turns: Times that the interlocutor speaks, each followed by the model, 1 or more.

    Raises:
        BadInput: `turns` is not an integer of at least 1. On the first sample, before its first model call: no model
            has the role.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        interlocutor = required_model(ROLE, "dialogue")
        full_question = with_evidence(question_text(state), question)
        with conversation(state, generate) as talk:
            talk.ask_question(evidence(question.evidence), OPEN)
            replies = [await talk.generate("reasoning", "opening")]
            for turn in range(1, turns + 1):
                messages = interlocutor_view(full_question, replies, state.epoch)
                replies.append(await talk.ask_role(ROLE, interlocutor, messages, f"{ROLE} {turn}"))
                talk.send(replies[-1], speaker=ROLE)
                replies.append(await talk.generate("reasoning", f"turn {turn}"))
            talk.send(CONCLUDE, answer_instruction(question))
            await talk.generate("answer", "answer")
        return talk.state

    return solve


def interlocutor_view(question: str, replies: Sequence[str], epoch: int) -> list[ChatMessage]:
    """The dialogue from the interlocutor's side: its own replies as the assistant, the model's as the user."""
    messages: list[ChatMessage] = [user_message(INTERLOCUTOR.format(question=question, text=replies[0]), epoch)]
    for own, model_reply in zip(replies[1::2], replies[2::2], strict=True):
        messages += [ChatMessageAssistant(content=own), user_message(model_reply, epoch)]
    return messages
