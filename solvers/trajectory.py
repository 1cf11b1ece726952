"""The Trajectory: the steps that a solver records for scorers, judges and training.

Steps follow the order of the conversation. `auxiliary` is input and preparation (an interview, examples), `reasoning`
leads to the answer, `answer` is the final reply. A thought and the reply after it are two steps of one message, whether
the provider returns the thought as reasoning content or the model writes it into the reply between `<think>` tags.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ContentReasoning,
    ModelOutput,
)
from inspect_ai.util import Store, StoreModel
from pydantic import BaseModel, Field

from truthgym.solvers.thoughts import split_thought

Kind = Literal["auxiliary", "reasoning", "answer"]


class Step(BaseModel):
    """One step of a trajectory: a message, or the thought of one."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    kind: Kind
    trainable: bool
    """Whether training may imitate or reinforce it: true only of text that the evaluated model generated."""
    message_id: str | None
    """Id of the message in the sample's conversation that contains the text."""
    redacted: bool = False
    """Whether the provider withheld this reasoning or returned only a summary of it."""
    speaker: str | None = None
    """The role of the model that wrote the text, if it was not the evaluated model."""


class Trajectory(StoreModel):
    """A sample's steps, read with `state.store_as(Trajectory)` or `sample.store_as(Trajectory)`."""

    steps: list[Step] = Field(default_factory=list)
    ended: str | None = None
    """Why the reasoning ended before its answer: a model refused or ran out of context. None if there is an answer, or
    if a limit or an error of the run interrupted the sample, which the sample itself records."""


STEPS, ENDED = "Trajectory:steps", "Trajectory:ended"
"""Store keys of Trajectory's fields. Truthgym reads and writes them directly, as plain dicts, since building the
StoreModel would take more time than the rest of a solver."""


OUT_OF_CONTEXT = (
    "{who} ran out of context: the conversation is longer than its context window (servers add --max-tokens)."
)

SUMMARISERS = ("gemini", "google/")
"""Name prefixes of models whose providers return only summaries of reasoning, without marking them as such."""

REFUSAL = re.compile(
    r"\W*((well|no|oh|hello|hi)\b\W*)?"
    r"((i( a|')m |i |my )?((very|so|really|truly|deeply) )?(sorry|apologi[sz]e|apologies)\b(?! for (the|any|my))"
    r"|(unfortunately|regrettably),? (but )?i\b|(as|being) an (ai|artificial|assistant)\b"
    r"|i( a|')m (afraid (that )?(i|this|it)\b|unable|not (able|allowed|permitted|comfortable|willing|going to))"
    r"|i( really| simply| just)? (can't|cannot|can not)(?! (rule|exclude|find|see|be (sure|certain)|say (for|with)))"
    r"|i (won't|will not|must decline|(have|need) to decline|decline|refuse|do not feel|don't feel)\b"
    r"|i( would|'d) (rather|prefer|like) (not|to (not|decline|refrain))\b|i prefer not\b"
    r"|it('s| is| would be) (not (possible|appropriate)|inappropriate|unethical|irresponsible) (for me )?to\b"
    r"|很?(非常)?(抱歉|对不起)|我(无法|不能|拒绝)|作为(一个|一名)?\s?(ai|人工智能))",
    re.IGNORECASE,
)
"""How a refusal in words begins, in English and Chinese."""

REPAIR = "Your last reply could not be read"
"""How a request begins to state in the expected form what the last reply stated otherwise."""


def from_question(steps: Sequence[Step]) -> list[Step]:
    """The steps from the question on, without the examples or interview before it."""
    before = [i for i, step in enumerate(steps) if step.role == "assistant" and step.kind == "auxiliary"]
    return list(steps[before[-1] + 1 :] if before else steps)


def recorded_steps(store: Store) -> list[Step]:
    """Steps recorded so far, in a run or in a finished log."""
    return [Step.model_validate(step) for step in store.get(STEPS) or []]


def recorded_answer(store: Store) -> str | None:
    """Text of the last answer step, or None if there is none."""
    return next((step.text for step in reversed(recorded_steps(store)) if step.kind == "answer"), None)


def recorded_end(store: Store) -> str | None:
    """Why the reasoning ended before its answer, or None if no solver has recorded a reason."""
    ended: str | None = store.get(ENDED)
    return ended


def user_message(text: str, epoch: int) -> ChatMessageUser:
    """A user message with its epoch in the metadata.

    Providers do not learn the epoch in any other way, and Inspect's cache does not know it while a finished log is
    scored: without this, all epochs of a question would share one cached reply.
    """
    return ChatMessageUser(content=text, metadata={"epoch": epoch})


def failure_reason(output: ModelOutput, who: str = "The model") -> str | None:
    """Why a model's output is not a reply: a refusal, or a conversation longer than its context. None if it is one."""
    if not output.choices:
        return f"{who} gave no reply{f': {output.error}' if output.error else ''}".removesuffix(".") + "."
    if output.stop_reason == "model_length":
        return OUT_OF_CONTEXT.format(who=who)
    if output.stop_reason == "content_filter":
        details = output.choices[0].stop_details
        why = details.explanation if details and details.explanation else "its provider filtered the reply."
        return f"{who} refused: {why}"
    return None


def cut_off(output: ModelOutput) -> str | None:
    """That a model's output ended at the token limit, and the remedy, in words. None if it did not."""
    if not output.choices:
        return None
    thinking = split_thought(output.completion)[1] is None
    # Inspect 0.3.285's provider of local models does not say why a reply ended.
    if output.stop_reason != "max_tokens" and not (thinking and output.stop_reason == "unknown"):
        return None
    tokens = f" after {output.usage.output_tokens} tokens" if output.usage else ""
    return f"cut off {'within a thought ' if thinking else ''}by the token limit{tokens}; raise --max-tokens"


def reply_text(output: ModelOutput) -> str:
    """What a model replied, without a thought in the text. Empty if the thought has no end."""
    return split_thought(output.completion)[1] or ""


def opens_with_refusal(text: str) -> bool:
    """Whether a reply, without its thoughts, begins with a refusal in words: then the model is not asked again.

    >>> opens_with_refusal("I'm sorry, but I can't forecast this."), opens_with_refusal("I can't rule it out: 20 %")
    (True, False)
    """
    return bool(REFUSAL.match(text.replace("\u2019", "'")))


def input_step(message: ChatMessage, speaker: str | None = None) -> Step:
    """The step of an input message."""
    role, text = message.role, message.text
    return Step(role=role, text=text, kind="auxiliary", trainable=False, message_id=message.id, speaker=speaker)


def as_words(message: ChatMessage) -> ChatMessage:
    """A message with its tool calls as plain text, or the result of one as a user's message."""
    if isinstance(message, ChatMessageAssistant) and message.tool_calls:
        calls = [f"(I call {call.function} with {json.dumps(call.arguments)}.)" for call in message.tool_calls]
        return ChatMessageAssistant(content="\n\n".join([*([message.text] if message.text else []), *calls]))
    if isinstance(message, ChatMessageTool):
        failed = f" failed: {message.error.message}" if message.error else ""
        return ChatMessageUser(content=f"{message.function or 'The tool'}{failed} answers:\n\n{message.text}")
    return message


def steps_of_messages(
    messages: Sequence[ChatMessage], kind: Kind, trainable: bool, others: Mapping[str | None, str] | None = None
) -> list[Step]:
    """The steps of generated messages, including the tool results among them, whose replies are of one kind."""
    steps: list[Step] = []
    for message in messages:
        if not isinstance(message, ChatMessageAssistant) or message.source == "input":
            steps.append(input_step(message))
            continue
        speaker = (others or {}).get(message.id)
        own = trainable and message.source == "generate" and speaker is None
        thought, reply = split_thought(message.text)
        step = Step(
            role="assistant",
            text=reply or "",
            # An assistant message with a tool call leads to the reply, it is not the reply. It is a step without text.
            kind="reasoning" if message.tool_calls else kind,
            trainable=own,
            message_id=message.id,
            speaker=speaker,
        )
        leads = {"kind": "auxiliary" if kind == "auxiliary" else "reasoning"}
        for content in [] if isinstance(message.content, str) else message.content:
            if isinstance(content, ContentReasoning):
                summary = (message.model or "").startswith(SUMMARISERS)
                withheld = content.redacted or not content.reasoning or summary
                shown = content.reasoning if summary and not content.redacted else ""
                changes = {
                    "text": (content.summary or shown) if withheld else content.reasoning,
                    "trainable": own and not withheld,
                    "redacted": withheld,
                }
                steps.append(step.model_copy(update=leads | changes))
        if thought:
            steps.append(step.model_copy(update=leads | {"text": thought}))
        steps.append(step)
    return steps
