"""A trajectory as a reader sees it: turns, each of what the reasoner was told and what it wrote."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inspect_ai.log import EvalSample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageTool
from inspect_ai.solver import TaskState
from inspect_ai.util import Store

from truthgym.solvers.trajectory import Step, as_words, from_question, recorded_steps, steps_of_messages


@dataclass(frozen=True)
class Turn:
    """What the reasoner wrote, and what came before it."""

    prompt: str
    """What the reasoner was told since its previous turn."""
    text: str
    """What it wrote."""
    message: int
    """Index of its message in the sample's conversation."""
    closes: bool
    """Whether it is the last turn of that message."""


def turns_of(sample: TaskState | EvalSample) -> list[Turn]:
    """The turns of a finished sample, from the trajectory that its solver recorded, or else from its messages."""
    store = Store(sample.store) if isinstance(sample.store, dict) else sample.store
    place = {message.id: i for i, message in enumerate(sample.messages)}
    recorded = [step for step in recorded_steps(store) if step.message_id in place]
    steps = from_question(recorded or steps_of_messages(sample.messages, "reasoning", trainable=False))
    turns: list[Turn] = []
    prompts: list[str] = []
    for i, step in enumerate(steps):
        if step.role != "assistant":
            prompts += [step.text] if step.role != "system" else []
            continue
        closes = not any(s.message_id == step.message_id for s in steps[i + 1 :] if _words(s, sample.messages, place))
        if text := _words(step, sample.messages, place):
            turns.append(Turn("\n\n".join(prompts), text, place[step.message_id], closes))
            prompts = []
    return turns


def _words(step: Step, messages: Sequence[ChatMessage], place: Mapping[str | None, int]) -> str:
    """What a step says, or the calls of tools of a reply without words. "" if it is neither."""
    message = messages[place[step.message_id]]
    called = isinstance(message, ChatMessageAssistant) and message.tool_calls and not message.text.strip()
    return as_words(message).text if called and not step.text.strip() else step.text if step.text.strip() else ""


def as_text(turns: Sequence[Turn]) -> str:
    """Turns as plain text."""
    return "\n\n".join(f"Told: {turn.prompt}\n\nWrote: {turn.text}" if turn.prompt else turn.text for turn in turns)


def as_json(turns: Sequence[Turn]) -> str:
    """Turns as a numbered JSON list, for a reader who reports on each of them."""
    steps = [{"step": i, "told": turn.prompt, "wrote": turn.text} for i, turn in enumerate(turns, start=1)]
    return json.dumps(steps, ensure_ascii=False, indent=1)


def branch(messages: Sequence[ChatMessage], last: int) -> list[ChatMessage]:
    """A conversation up to one of its messages, with calls of tools as text, which need no definition."""
    end = last + 1
    while end < len(messages) and isinstance(messages[end], ChatMessageTool):
        end += 1
    return [as_words(message) for message in messages[:end]]
