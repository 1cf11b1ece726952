"""Converts the messages of a logged trajectory to TRL's format and marks the trainable replies."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from truthgym.evallog.schema import LoggedSample, Message, Part

Reasoning = Literal["keep", "drop", "only"]
TrlMessage = dict[str, Any]
"""`role` and `content` (a text, or blocks if there are images); with tools `tool_calls`, `name`, `tool_call_id`."""
THOUGHT = "<think>\n{thought}\n</think>\n\n{text}"
"""How reasoning models' chat templates write reasoning before the reply."""
SUPPORTED_PARTS = ("text", "reasoning", "image", "audio")
"""Parts of a message that a row can hold. TRL's trainers support no others, such as videos."""


class Turn(NamedTuple):
    """A message of a trajectory."""

    message: TrlMessage
    """Without separate reasoning, as the model sees it later."""
    trainable: bool
    """Whether a model may be trained on it."""
    kind: str
    """`auxiliary`, `reasoning` or `answer`."""
    thought: str
    """The provider's separate reasoning. Empty if there is none, or only a summary of it."""


class Reply(NamedTuple):
    """A trainable reply and the messages before it."""

    prompt: list[TrlMessage]
    completion: TrlMessage
    kind: str


def turns_of(sample: LoggedSample) -> list[Turn]:
    """A sample's messages, marked by whether they are trainable.

    The steps of the solver's Trajectory decide. In a sample without a Trajectory, of another project's task, everything
    that the evaluated model wrote is trainable.
    """
    if not sample.steps:
        return _turns_without_steps(sample.messages)
    # Plain loops for speed: this runs for every sample of a log.
    kinds: dict[str | None, str] = {}
    trainable: set[str | None] = set()
    redacted: set[str | None] = set()
    for step in sample.steps:
        kinds[step.message_id] = step.kind
        if step.trainable:
            trainable.add(step.message_id)
        if step.redacted:
            redacted.add(step.message_id)
    turns = []
    for message in sample.messages:
        key = message.id
        may_train = key in trainable and message.role == "assistant"
        thought = "" if type(message.content) is str or key in redacted else _thought(message)
        turns.append(Turn(trl_message(message), may_train, kinds.get(key, "auxiliary"), thought))
    return turns


def _turns_without_steps(messages: Sequence[Message]) -> list[Turn]:
    last = max((i for i, message in enumerate(messages) if message.role == "assistant"), default=None)
    turns = []
    for i, message in enumerate(messages):
        is_reply = message.role == "assistant"
        kind = "auxiliary" if not is_reply else "answer" if i == last else "reasoning"
        turns.append(Turn(trl_message(message), is_reply and message.source == "generate", kind, _thought(message)))
    return turns


def replies(turns: Sequence[Turn], reasoning: Reasoning) -> Iterator[Reply]:
    """The trainable replies of a trajectory, one by one.

    Args:
        turns: The trajectory.
        reasoning: How to use a provider's separate reasoning: `keep` puts it before the reply as a think block, `drop`
            omits it, `only` omits the reply instead, and skips replies without reasoning.
    """
    for i, turn in enumerate(turns):
        if turn.trainable and i:
            completion = reply_message(turn, reasoning)
            if completion is not None:
                yield Reply([earlier.message for earlier in turns[:i]], completion, turn.kind)


def reply_message(turn: Turn, reasoning: Reasoning) -> TrlMessage | None:
    """A reply as training uses it. None if nothing of it is left."""
    if reasoning == "only":
        return {"role": "assistant", "content": turn.thought} if turn.thought else None
    if reasoning == "keep" and turn.thought:
        text = turn.message["content"]
        return turn.message | {"content": THOUGHT.format(thought=turn.thought, text=text).rstrip()}
    return turn.message if turn.message["content"] or "tool_calls" in turn.message else None


def trl_message(message: Message) -> TrlMessage:
    """A message of a log in the format of TRL and chat templates. No value is None."""
    content = message.content if type(message.content) is str else _content(message)
    converted: TrlMessage = {"role": message.role, "content": content}
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


def separate_images(messages: Sequence[TrlMessage]) -> tuple[list[TrlMessage], list[str]]:
    """Messages with placeholders for images, and the images in their order, as data URIs."""
    images: list[str] = []
    with_placeholders: list[TrlMessage] = []
    for message in messages:
        if type(message["content"]) is list:
            images += [block["image"] for block in message["content"] if "image" in block]
            blocks = [{k: v for k, v in block.items() if k != "image"} for block in message["content"]]
            message = message | {"content": blocks}
        with_placeholders.append(message)
    return with_placeholders, images


def unsupported_part(sample: LoggedSample) -> str | None:
    """The first part of a sample's messages that no row can hold, such as "video". None if there is none."""
    for message in sample.messages:
        if type(message.content) is str:
            continue
        for part in _parts(message):
            if part.type not in SUPPORTED_PARTS:
                return part.type
            if part.type in ("image", "audio") and not str(getattr(part, part.type)).startswith("data:"):
                return f"{part.type} outside the log"
    return None


def _content(message: Message) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    if all(part.type in ("text", "reasoning") for part in message.content):
        return "\n".join(part.text or "" for part in message.content if part.type == "text")
    blocks: list[dict[str, Any]] = []
    for part in message.content:
        if part.type == "text":
            blocks.append({"type": "text", "text": part.text})
        elif part.type in ("image", "audio"):
            blocks.append({"type": part.type, part.type: getattr(part, part.type)})
    return blocks


def _thought(message: Message) -> str:
    thoughts = [part for part in _parts(message) if part.type == "reasoning"]
    if any(part.redacted or not part.reasoning for part in thoughts):
        return ""
    return "\n\n".join(part.reasoning or "" for part in thoughts)


def _parts(message: Message) -> Sequence[Part]:
    return [] if isinstance(message.content, str) else message.content
