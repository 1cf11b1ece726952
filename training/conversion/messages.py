"""A logged trajectory in the form that TRL reads, with what of it may be learned from."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from truthgym.evallog.schema import LoggedSample, Message, Part

Reasoning = Literal["keep", "drop", "only"]
TrlMessage = dict[str, Any]
"""`role` and `content`, a text or blocks with images among them; `tool_calls`, `name`, `tool_call_id` where there are
tools."""
THOUGHT = "<think>\n{thought}\n</think>\n\n{text}"
"""How reasoning models' chat templates write reasoning before the reply."""
CARRIED = ("text", "reasoning", "image", "audio")
"""Parts of a message that a row can hold. Of others, such as videos, no TRL trainer knows."""


class Turn(NamedTuple):
    """A message of a trajectory."""

    message: TrlMessage
    """Without reasoning that a provider keeps apart: what the model sees of it later."""
    trainable: bool
    """Whether training may imitate or reinforce it."""
    kind: str
    """`auxiliary`, `reasoning` or `answer`."""
    thought: str
    """The reasoning that came with it. Empty where there was none, or a summary only."""


class Reply(NamedTuple):
    """A reply to learn from, with all that the model had before it."""

    prompt: list[TrlMessage]
    completion: TrlMessage
    kind: str


def turns_of(sample: LoggedSample) -> list[Turn]:
    """A sample's messages, each with whether it may be learned from.

    The solver's record decides: the trainable steps of its Trajectory. A sample without that record, of another
    project's task, is taken to teach whatever the evaluated model wrote.
    """
    if not sample.steps:
        return _unrecorded(sample.messages)
    # Plain loops over what has one step for each message: this is done for every sample of a log.
    kinds: dict[str | None, str] = {}
    trained: set[str | None] = set()
    withheld: set[str | None] = set()
    for step in sample.steps:
        kinds[step.message_id] = step.kind
        if step.trainable:
            trained.add(step.message_id)
        if step.redacted:
            withheld.add(step.message_id)
    made = []
    for message in sample.messages:
        name = message.id
        trainable = name in trained and message.role == "assistant"
        thought = "" if type(message.content) is str or name in withheld else _thought(message)
        made.append(Turn(trl_message(message), trainable, kinds.get(name, "auxiliary"), thought))
    return made


def _unrecorded(messages: Sequence[Message]) -> list[Turn]:
    last = max((i for i, message in enumerate(messages) if message.role == "assistant"), default=None)
    made = []
    for i, message in enumerate(messages):
        written = message.role == "assistant"
        kind = "auxiliary" if not written else "answer" if i == last else "reasoning"
        made.append(Turn(trl_message(message), written and message.source == "generate", kind, _thought(message)))
    return made


def replies(turns: Sequence[Turn], reasoning: Reasoning) -> Iterator[Reply]:
    """The replies that may be learned from, one by one: what the steps of a solver are to training.

    Args:
        turns: A trajectory.
        reasoning: What becomes of the reasoning that a provider keeps apart: `keep` puts it before the reply as a
            think block, `drop` leaves it out, `only` leaves out the reply, and replies without reasoning.
    """
    for i, turn in enumerate(turns):
        if turn.trainable and i:
            completion = spoken(turn, reasoning)
            if completion is not None:
                yield Reply([earlier.message for earlier in turns[:i]], completion, turn.kind)


def spoken(turn: Turn, reasoning: Reasoning) -> TrlMessage | None:
    """A reply as it is to be learned. None where nothing of it is left."""
    if reasoning == "only":
        return {"role": "assistant", "content": turn.thought} if turn.thought else None
    if reasoning == "keep" and turn.thought:
        text = turn.message["content"]
        return turn.message | {"content": THOUGHT.format(thought=turn.thought, text=text).rstrip()}
    return turn.message if turn.message["content"] or "tool_calls" in turn.message else None


def trl_message(message: Message) -> TrlMessage:
    """A message of a log as TRL and chat templates take it. Nothing in it is None."""
    content = message.content if type(message.content) is str else _content(message)
    made: TrlMessage = {"role": message.role, "content": content}
    if message.tool_calls:
        made["tool_calls"] = [
            {
                "type": "function",
                "id": call["id"],
                "function": {"name": call["function"], "arguments": call.get("arguments") or {}},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        if message.function:
            made["name"] = message.function
        if message.tool_call_id:
            held = message.tool_call_id
            made["tool_call_id"] = held if isinstance(held, str) else held[0]
    return made


def without_images(messages: Sequence[TrlMessage]) -> tuple[list[TrlMessage], list[str]]:
    """Messages whose images are places only, and the images in their order as data URIs: a column of its own."""
    images: list[str] = []
    bare: list[TrlMessage] = []
    for message in messages:
        if type(message["content"]) is list:
            images += [block["image"] for block in message["content"] if "image" in block]
            blocks = [{k: v for k, v in block.items() if k != "image"} for block in message["content"]]
            message = message | {"content": blocks}
        bare.append(message)
    return bare, images


def not_carried(sample: LoggedSample) -> str | None:
    """What a sample holds that no row can, such as "video". None where there is nothing."""
    for message in sample.messages:
        if type(message.content) is str:
            continue
        for part in _parts(message):
            if part.type not in CARRIED:
                return part.type
            if part.type in ("image", "audio") and not str(getattr(part, part.type)).startswith("data:"):
                return f"{part.type} that is not in the log"
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
