"""What belongs to a logged sample, but stands elsewhere in the log: attachments, tools, and samples in chunks."""

import json
from typing import Any, TypeVar

import msgspec

from truthgym.evallog.archive import EvalMembers

AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)


class Attached(msgspec.Struct):
    """The rest of a sample that some samples need: what its texts refer to."""

    attachments: dict[str, str] = {}


class Event(msgspec.Struct, gc=False):
    event: str = ""
    role: str | None = None
    """Of a model call: the role of the model, None of the evaluated one."""
    tools: Any = None


class Tooled(Attached):
    """And which tools it had, which only its events tell."""

    events: list[Event] = []

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        """Tools that the evaluated model was given in any call, as JSON schemas of functions."""
        given: dict[str, dict[str, Any]] = {}
        for event in self.events:
            if event.event == "model" and event.role is None:
                for tool in event.tools or []:
                    function = {key: tool[key] for key in ("name", "description", "parameters") if key in tool}
                    given.setdefault(tool["name"], {"type": "function", "function": function})
        return list(given.values()) or None


def resolved(value: Any, attachments: dict[str, str]) -> Any:  # noqa: ANN401
    """A value with what was attached to its sample in place of the references. A reference to nothing stays."""
    if isinstance(value, str):
        # `tc://` is what Inspect wrote before `attachment://`.
        scheme, found, key = value.partition("://")
        return attachments.get(key, value) if found and scheme in ("attachment", "tc") else value
    if isinstance(value, list):
        return [resolved(item, attachments) for item in value]
    if isinstance(value, dict):
        return {key: resolved(item, attachments) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            setattr(value, name, resolved(getattr(value, name), attachments))
    return value


def decoded_as(kind: type[AnyStruct], content: bytes) -> AnyStruct:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(content), kind)


def joined(members: EvalMembers, folder: str, in_full: bool) -> bytes:
    """A sample in chunks, as one: Inspect writes those of very large samples, and has no public reader of them.

    `sample.json` has all that is small, and which of the sequence of messages the conversation consists of.
    """

    def sequence(kind: str) -> list[Any]:
        items: list[Any] = []
        # A chunk is called by the place of its first item in the sequence.
        while (name := f"{folder}{kind}/{len(items)}.json") in members:
            items += json.loads(members.read(name)) or [None]
        return items

    whole: dict[str, Any] = json.loads(members.read(f"{folder}sample.json"))
    if (name := f"{folder}metadata.json") in members:
        whole["metadata"] = json.loads(members.read(name))
    spans = whole.pop("message_refs", [])
    if in_full:
        messages = sequence("messages")
        whole["messages"] = [message for start, end in spans for message in messages[start:end]]
        whole["attachments"] = {str(i): text for i, text in enumerate(sequence("attachments"))}
        whole["events"] = sequence("events")
    return json.dumps(whole).encode()
