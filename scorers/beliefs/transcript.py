"""A trajectory as a reader sees it: turns of something told and something written."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageTool, ChatMessageUser
from inspect_ai.solver import TaskState

from truthgym.solvers.trajectory import Step, from_question, recorded_steps


@dataclass(frozen=True)
class Turn:
    """What a reasoner wrote, with what it was told since it last wrote."""

    told: str
    wrote: str
    message: int
    """Place in the sample's conversation of the message that holds it."""
    closes: bool
    """Whether nothing more of this message follows."""


def turns_of(state: TaskState) -> list[Turn]:
    """The turns of a finished sample, from the trajectory that a solver recorded, or else from its messages.

    Reasoning that a provider shows and the reply after it are two turns of one message. Reasoning that it withholds is
    none, and so is what was said before the question was asked: examples, an interview.
    """
    place = {message.id: i for i, message in enumerate(state.messages)}
    steps = [step for step in recorded_steps(state.store) if step.message_id in place] or _steps(state)
    steps = from_question(steps)
    turns: list[Turn] = []
    told: list[str] = []
    for i, step in enumerate(steps):
        if step.role != "assistant":
            told += [step.text] if step.role != "system" else []
        elif step.text.strip():
            closes = not any(s.message_id == step.message_id and s.text.strip() for s in steps[i + 1 :])
            turns.append(Turn("\n\n".join(told), step.text, place[step.message_id], closes))
            told = []
    return turns


def as_text(turns: Sequence[Turn]) -> str:
    """Turns as one text, for a reader."""
    return "\n\n".join(f"Told: {turn.told}\n\nWrote: {turn.wrote}" if turn.told else turn.wrote for turn in turns)


def as_json(turns: Sequence[Turn]) -> str:
    """Turns as a list in JSON, for a reader who is to say something of each."""
    held = [{"step": i, "told": turn.told, "wrote": turn.wrote} for i, turn in enumerate(turns, start=1)]
    return json.dumps(held, ensure_ascii=False, indent=1)


def branch(messages: Sequence[ChatMessage], last: int) -> list[ChatMessage]:
    """A conversation up to one of its messages, ready for another question.

    Tool calls and their results are put in words: providers refuse a call without its result, and either without the
    definition of the tool, which a finished log does not hold.

    Args:
        messages: The whole conversation.
        last: Place of the last message wanted. Where it calls tools, their results come along.
    """
    end = last + 1
    while end < len(messages) and isinstance(messages[end], ChatMessageTool):
        end += 1
    return [_in_words(message) for message in messages[:end]]


def _in_words(message: ChatMessage) -> ChatMessage:
    if isinstance(message, ChatMessageAssistant) and message.tool_calls:
        calls = [f"(I call {call.function} with {json.dumps(call.arguments)}.)" for call in message.tool_calls]
        return ChatMessageAssistant(content="\n\n".join([*([message.text] if message.text else []), *calls]))
    if isinstance(message, ChatMessageTool):
        failed = f" failed: {message.error.message}" if message.error else ""
        return ChatMessageUser(content=f"{message.function or 'The tool'}{failed} answers:\n\n{message.text}")
    return message


def _steps(state: TaskState) -> list[Step]:
    return [Step(role=m.role, text=m.text, kind="reasoning", trainable=False, message_id=m.id) for m in state.messages]
