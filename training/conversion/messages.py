"""Converts the messages of a logged trajectory to TRL's format and marks the trainable replies."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from truthgym.evallog.schema import LoggedSample, Message
from truthgym.solvers.thoughts import split_thought

Reasoning = Literal["keep", "drop", "only"]
TrlMessage = dict[str, Any]
"""`role` and `content`; with tools `tool_calls`, `name`, `tool_call_id`. The content is a text as JSON (`msgspec.Raw`),
which is copied into the row as it is, a text, or blocks if there are images."""
THOUGHT_START = "<think>\n"
THOUGHT = THOUGHT_START + "{thought}\n</think>\n\n{text}"
"""How reasoning models' chat templates write reasoning before the reply."""
SUPPORTED_PARTS = ("text", "reasoning", "image", "audio")
"""Parts of a message that a row can hold. TRL's trainers support no others, such as videos."""
EMPTY = msgspec.Raw(b'""')


class Turn(NamedTuple):
    """A message of a trajectory."""

    message: TrlMessage
    """Without separate reasoning, as the model sees it later. A thought between `<think>` tags in its text stays: the
    chat template then drops or keeps it, as when the conversation was sampled."""
    trainable: bool
    """Whether a model may be trained on it."""
    kind: str
    """`auxiliary`, `reasoning` or `answer`."""
    thought: str = ""
    """The provider's separate reasoning, or the thought in the text. Empty if there is none, only a summary of it, or a
    thought without an end."""
    without_thought: TrlMessage | None = None
    """The message without the thought in its text. None if its text has none."""

    @property
    def reply(self) -> TrlMessage:
        """The message without any thought."""
        return self.without_thought or self.message


def turns_of(sample: LoggedSample) -> list[Turn]:
    """A sample's messages, marked by whether they are trainable.

    The steps of the solver's Trajectory decide. In a sample without a Trajectory, of another project's task, everything
    that the evaluated model wrote is trainable.
    """
    # Plain loops for speed: this runs for every sample of a log.
    kinds: dict[str | None, str] = {}
    trainable: set[str | None] = set()
    redacted: set[str | None] = set()
    for step in sample.store.steps:
        kinds[step.message_id] = step.kind
        if step.trainable:
            trainable.add(step.message_id)
        if step.redacted:
            redacted.add(step.message_id)
    if not sample.store.steps:
        replies = [message for message in sample.messages if message.role == "assistant"]
        trainable = {message.id for message in replies if message.source == "generate"}
        kinds = {message.id: "answer" if message is replies[-1] else "reasoning" for message in replies}
    turns = []
    for message in sample.messages:
        may_train = message.role == "assistant" and message.id in trainable
        kind = kinds.get(message.id, "auxiliary")
        if sample.plain:
            turn = Turn({"role": message.role, "content": message.content}, may_train, kind)
        else:
            thought = "" if message.id in redacted else _thought(message)
            turn = Turn(trl_message(message), may_train, kind, thought)
        if message.role == "assistant" and b"think>" in bytes(message.content):
            turn = _with_thought_split_off(turn)
        turns.append(turn)
    return turns


def _with_thought_split_off(turn: Turn) -> Turn:
    text = text_of(turn.message)
    thought, reply = split_thought(text)
    if reply == text or isinstance(turn.message["content"], list):
        return turn
    thought = "" if reply is None else thought
    return turn._replace(thought=turn.thought or thought, without_thought=turn.message | {"content": reply or ""})


def replies(turns: Sequence[Turn], reasoning: Reasoning) -> Iterator[tuple[list[TrlMessage], TrlMessage]]:
    """The trainable replies of a trajectory, each after the messages before it."""
    messages = [turn.message for turn in turns]
    for i, turn in enumerate(turns):
        if turn.trainable and i and (completion := reply_message(turn, reasoning)):
            yield messages[:i], completion


def reply_message(turn: Turn, reasoning: Reasoning) -> TrlMessage | None:
    """A reply as training uses it. None if nothing of it is left."""
    if reasoning == "only":
        return {"role": "assistant", "content": turn.thought} if turn.thought else None
    if reasoning == "keep" and turn.thought:
        text = text_of(turn.reply)
        return turn.reply | {"content": THOUGHT.format(thought=turn.thought, text=text).rstrip()}
    content = turn.reply["content"]
    return turn.reply if (content and content != EMPTY) or "tool_calls" in turn.reply else None


def trl_message(message: Message) -> TrlMessage:
    """A message of a log in the format of TRL and chat templates. No value is None."""
    converted: TrlMessage = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        converted["tool_calls"] = [
            {
                "type": "function",
                "id": call["id"],
                "function": {"name": call["function"], "arguments": call.get("arguments") or {}},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        if message.function:
            converted["name"] = message.function
        if message.tool_call_id:
            call_id = message.tool_call_id
            converted["tool_call_id"] = call_id if isinstance(call_id, str) else call_id[0]
    return converted


def text_of(message: TrlMessage) -> str:
    """The text of a message, without its images and other parts."""
    content = message["content"]
    if isinstance(content, msgspec.Raw):
        content = msgspec.json.decode(content)
    if isinstance(content, list):
        content = "\n".join(block["text"] for block in content if block["type"] == "text")
    return str(content)


def separate_images(messages: Sequence[TrlMessage]) -> tuple[list[TrlMessage], list[str]]:
    """Messages with placeholders for images, and the images in their order, as data URIs."""
    images: list[str] = []
    with_placeholders: list[TrlMessage] = []
    for message in messages:
        if isinstance(message["content"], list):
            images += [block["image"] for block in message["content"] if "image" in block]
            blocks = [{k: v for k, v in block.items() if k != "image"} for block in message["content"]]
            message = message | {"content": blocks}
        with_placeholders.append(message)
    return with_placeholders, images


def unsupported_part(sample: LoggedSample) -> str | None:
    """The first part of a sample's messages that no row can hold, such as "video". None if there is none."""
    for message in () if sample.plain else sample.messages:
        for part in message.parts:
            if part.type not in SUPPORTED_PARTS:
                return part.type
            if part.type in ("image", "audio") and not str(getattr(part, part.type)).startswith("data:"):
                return f"{part.type} outside the log"
    return None


def _content(message: Message) -> object:
    if message.is_text:
        return message.content
    parts = message.parts
    if all(part.type in ("text", "reasoning") for part in parts):
        return "\n".join(part.text or "" for part in parts if part.type == "text")
    return [{"type": part.type, part.type: getattr(part, part.type)} for part in parts if part.type != "reasoning"]


def _thought(message: Message) -> str:
    thoughts = [part for part in message.parts if part.type == "reasoning"]
    if any(part.redacted or not part.reasoning for part in thoughts):
        return ""
    return "\n\n".join(part.reasoning or "" for part in thoughts)
