"""Dialogue: the model talks a question over with another model, or a person, before it answers."""

from collections.abc import Sequence

from inspect_ai.model import ChatMessage, ChatMessageAssistant
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.errors import whole_number
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import answer_instruction, evidence
from truthgym.solvers.roles import required_model
from truthgym.solvers.trajectory import user_message

ROLE = "interlocutor"
OPEN = (
    "You will talk this over with someone before you answer. Begin: say where you stand and why, without a final "
    "answer."
)
MET = (
    "{question}\n\nSomeone has been asked this question, and you talk it over with them before they answer. Ask, "
    "object, add what you know: help to find out what is true, not to win. Reply to them in a few sentences.\n\n"
    "They say:\n\n{text}"
)
CONCLUDE = "The talk is over. Say what you think now."


@solver
def dialogue(turns: int = 3) -> Solver:
    """Talk with another before answering. `turns` + 2 model calls a sample, and `turns` of the other.

    The other is the model in the role `interlocutor`. Either may be a person: `--model human/terminal`, or
    `--model-role interlocutor=human/terminal`. The other's words reach the model as something told, and training leaves
    them out. All evidence is given at once, to both.

    Args:
        turns: Times that the other speaks, and the model after it, 1 or more.

    Raises:
        BadInput: `turns` is not a whole number from 1 up. On the first sample, before its first model call: no model is
            bound to the role.
    """
    whole_number("dialogue", "turns", turns, 1)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        other = required_model(ROLE, "dialogue")
        asked = "\n\n".join(part for part in (state.input_text, evidence(question.evidence)) if part)
        with conversation(state, generate) as talk:
            talk.ask_question(evidence(question.evidence), OPEN)
            said = [await talk.generate("reasoning", "opening")]
            for turn in range(1, turns + 1):
                heard = interlocutor_view(asked, said, state.epoch)
                said.append(await talk.ask_role(ROLE, other, heard, f"{ROLE} {turn}"))
                talk.send(said[-1], speaker=ROLE)
                said.append(await talk.generate("reasoning", f"turn {turn}"))
            talk.send(CONCLUDE, answer_instruction(question))
            await talk.generate("answer", "answer")
        return talk.state

    return solve


def interlocutor_view(asked: str, said: Sequence[str], epoch: int) -> list[ChatMessage]:
    """The dialogue as the other sees it: its own turns as its replies, the model's as told to it.

    Args:
        asked: The question with its evidence.
        said: What was said, by turns, the model first and last.
        epoch: The epoch.
    """
    messages: list[ChatMessage] = [user_message(MET.format(question=asked, text=said[0]), epoch)]
    for own, told in zip(said[1::2], said[2::2], strict=True):
        messages += [ChatMessageAssistant(content=own), user_message(told, epoch)]
    return messages
