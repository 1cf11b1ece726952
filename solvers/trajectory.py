"""The Trajectory contract: what a solver leaves behind for scorers, judges and training.

Steps stand in the order of the conversation: what the reasoner was told or said before the question was its business
(`auxiliary`), how it reasoned (`reasoning`) and what it concluded (`answer`). A provider's reasoning content and the
reply after it are two steps of one message.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, ContentReasoning, ModelOutput
from inspect_ai.util import Store, StoreModel
from pydantic import BaseModel, Field

Kind = Literal["auxiliary", "reasoning", "answer"]


class Step(BaseModel):
    """One thing said."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    kind: Kind
    trainable: bool
    """Whether training may imitate or reinforce it: true only of what the evaluated model wrote itself."""
    message_id: str | None
    """The message in the sample's conversation that holds the text."""
    redacted: bool = False
    """Whether a provider withheld this reasoning, or gave a summary in its place."""
    speaker: str | None = None
    """The model role that wrote this, where another model than the evaluated one did."""


class Trajectory(StoreModel):
    """A sample's steps, read with `state.store_as(Trajectory)` or `sample.store_as(Trajectory)`."""

    steps: list[Step] = Field(default_factory=list)
    ended: str | None = None
    """Why the reasoning ended before its answer, where a model refused or had no more room. None where it came to one,
    and where a limit or an error of the run cut it short: of that the sample itself tells."""


STEPS, ENDED = "Trajectory:steps", "Trajectory:ended"
"""Where Inspect keeps the fields of a Trajectory in a store. Our own code goes there directly, with plain dicts:
building the StoreModel would cost more than all else that a solver does."""


SUMMARISERS = ("gemini", "google/")
"""How the names of models begin whose providers show thoughts in summary alone, without saying so of each."""


def from_question(steps: Sequence[Step]) -> list[Step]:
    """The steps from the question on: without examples, or an interview, that stand before it."""
    before = [i for i, step in enumerate(steps) if step.role == "assistant" and step.kind == "auxiliary"]
    return list(steps[before[-1] + 1 :] if before else steps)


def recorded_steps(store: Store) -> list[Step]:
    """Steps recorded so far, in a run or in a finished log."""
    return [Step.model_validate(step) for step in store.get(STEPS) or []]


def recorded_answer(store: Store) -> str | None:
    """Text of the last answer step, or None where the reasoning never came to one."""
    return next((step.text for step in reversed(recorded_steps(store)) if step.kind == "answer"), None)


def recorded_end(store: Store) -> str | None:
    """Why the reasoning ended before its answer, where a solver has recorded it."""
    ended: str | None = store.get(ENDED)
    return ended


def user_message(text: str, epoch: int) -> ChatMessageUser:
    """Write a message that carries its epoch.

    A provider is told nothing else of the epoch, and when a finished log is scored, Inspect's cache does not know it
    either: without this, all epochs of a question would share one cached reply.
    """
    return ChatMessageUser(content=text, metadata={"epoch": epoch})


def failure_reason(output: ModelOutput, who: str = "The model") -> str | None:
    """Say why a model's output is no reply: a refusal, or a conversation too long for it. None where it is one.

    What a provider reports of these stands in the place of the reply, and must not be read as one.
    """
    if not output.choices:
        return f"{who} gave no reply{f': {output.error}' if output.error else ''}".removesuffix(".") + "."
    if output.stop_reason == "model_length":
        return f"{who} had no more room: the conversation is longer than its context."
    if output.stop_reason == "content_filter":
        details = output.choices[0].stop_details
        return (details.explanation if details else None) or f"{who} refused: its provider filtered the reply."
    return None


def input_step(message: ChatMessage, speaker: str | None = None) -> Step:
    """The step of a message that the reasoner was given."""
    return Step(
        role=message.role,
        text=message.text,
        kind="auxiliary",
        trainable=False,
        message_id=message.id,
        speaker=speaker,
    )


def steps_of_messages(
    messages: Sequence[ChatMessage], kind: Kind, trainable: bool, others: Mapping[str | None, str] | None = None
) -> list[Step]:
    """The steps of messages that a model wrote, with what its tools returned among them.

    Args:
        messages: The messages, in order.
        kind: What a reply among them is.
        trainable: Whether training may use what the evaluated model generated.
        others: Ids of messages that other models generated, with the role or name of each. What nobody generated was
            written by an agent's program.
    """
    steps: list[Step] = []
    for message in messages:
        speaker = (others or {}).get(message.id)
        own = trainable and message.source == "generate" and speaker is None
        if not isinstance(message, ChatMessageAssistant) or message.source == "input":
            steps.append(input_step(message))
            continue
        reasoning = [] if isinstance(message.content, str) else message.content
        for content in reasoning:
            if isinstance(content, ContentReasoning):
                summary = (message.model or "").startswith(SUMMARISERS)
                withheld = content.redacted or not content.reasoning or summary
                shown = content.reasoning if summary and not content.redacted else ""
                text = (content.summary or shown) if withheld else content.reasoning
                steps.append(
                    Step(
                        role="assistant",
                        text=text,
                        kind="auxiliary" if kind == "auxiliary" else "reasoning",
                        trainable=own and not withheld,
                        message_id=message.id,
                        redacted=withheld,
                        speaker=speaker,
                    )
                )
        # An assistant message that calls a tool is on the way to the reply, not the reply.
        kind_here: Kind = "reasoning" if message.tool_calls else kind
        if message.text or not message.tool_calls:
            steps.append(
                Step(
                    role="assistant",
                    text=message.text,
                    kind=kind_here,
                    trainable=own,
                    message_id=message.id,
                    speaker=speaker,
                )
            )
    return steps
