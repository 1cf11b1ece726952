"""Typed views of the parts of a log sample that training needs (Inspect log format 2). Other fields are skipped.

A `msgspec.Raw` is JSON that is decoded when it is needed. Most texts never are: they are copied into rows as they are.
"""

import hashlib
import json
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")


class Part(msgspec.Struct, gc=False):
    """A part of a message's content. Its type decides which fields it has."""

    type: str
    """`text`, `reasoning`, `image`, `audio`, or a type that no row can hold."""
    text: str | None = None
    reasoning: str | None = None
    redacted: bool = False
    image: str | None = None
    """A data URI or a URL, as is `audio`."""
    audio: str | None = None


PART_FIELDS = ("type", "text", "reasoning", "image", "audio", "video", "document", "data")
"""Fields of a part of a content that are what was written."""
CONTENT = msgspec.json.Decoder(str | list[Part])


class Message(msgspec.Struct, gc=False):
    role: str
    content: Raw
    """A text, or a list of `Part`."""
    id: str | None = None
    source: str | None = None
    """`generate` if the evaluated model wrote it, `input` if it was part of the sample."""
    tool_calls: list[dict[str, Any]] | None = None
    """Each with `id`, `function` and `arguments`."""
    tool_call_id: str | list[str] | None = None
    function: str | None = None
    """The tool that returned this message."""

    @property
    def is_text(self) -> bool:
        return memoryview(self.content)[0] == ord('"') and not self.tool_calls

    @property
    def parts(self) -> list[Part]:
        """The parts of the content. A text is one part."""
        content = CONTENT.decode(self.content)
        return [Part("text", content)] if isinstance(content, str) else content


class LoggedStep(msgspec.Struct, gc=False):
    """A step of a Trajectory (`solvers.trajectory.Step`) without its text, which is in the message."""

    role: str
    kind: str
    trainable: bool
    message_id: str | None = None
    redacted: bool = False


OF_TRUTHGYM: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("beliefs", "judges", "trials"), list),
    **dict.fromkeys(("settings", "forecasts"), dict),
    **dict.fromkeys(("outcome", "base_rate"), (int, float)),
}
"""Fields in the metadata of Truthgym's scores, with their types. The lists are of mappings."""


class LoggedScore(msgspec.Struct, gc=False):
    value: Any = None
    """A number, a text, or a dict of them. None for NaN: the sample is unscored."""
    metadata: Raw = Raw(b"{}")
    reason: str | None = None
    """Why Inspect left it unscored. Truthgym's scorers say it in the metadata."""

    @property
    def details(self) -> dict[str, Any]:
        """The metadata, decoded. A field of another type than Truthgym writes means something else, and is left out."""
        details: dict[str, Any] = msgspec.json.decode(self.metadata) or {}
        for name in OF_TRUTHGYM.keys() & details.keys():
            if isinstance(details[name], list):
                details[name] = [entry for entry in details[name] if isinstance(entry, dict)]
            if not isinstance(details[name], OF_TRUTHGYM[name]):
                details[name] = None
        return details

    @property
    def repaired(self) -> bool:
        """Whether a belief behind it could be read only after the model was asked again."""
        if b'"repaired"' not in bytes(self.metadata):
            return False
        details = self.details
        stated = isinstance(self.value, dict) and self.value.get("belief") is not None and details.get("repaired")
        return bool(stated) or any(
            belief.get("value") is not None and bool(belief.get("repaired")) and belief.get("read_by") is None
            for belief in details.get("beliefs") or []
        )


class QuestionFacts(msgspec.Struct, gc=False):
    """Metadata of a Truthgym question (`datasets.question.Question`)."""

    domain: str
    event: str
    split: str
    question: str | None = None
    """The id of the question, if several samples ask it in different ways."""
    arm: str | None = None
    proposition: str | None = None
    opened_on: str | None = None
    selected_by_outcome: bool = False


FACTS = msgspec.json.Decoder(QuestionFacts)


class Store(msgspec.Struct, rename={"ended": "Trajectory:ended"}, gc=False):
    """The part of a sample's store that says why its reasoning ended early."""

    ended: str | None = None


class TrajectoryStore(Store, rename={"steps": "Trajectory:steps", "ended": "Trajectory:ended"}, gc=False):
    """The part of a sample's store that holds its Trajectory."""

    steps: list[LoggedStep] = []


class Reply(msgspec.Struct, gc=False):
    content: Raw = Raw(b'""')
    """A text, or a list of `Part`."""


class Choice(msgspec.Struct, gc=False):
    stop_reason: str | None = None
    message: Reply = msgspec.field(default_factory=Reply)


class Output(msgspec.Struct, gc=False):
    model: str = ""
    """The model that the provider served, such as a dated snapshot of the one that was asked for."""
    choices: list[Choice] = []


class Failure(msgspec.Struct, gc=False):
    message: str = ""


class Limit(msgspec.Struct, gc=False):
    type: str


class Outcome(msgspec.Struct, kw_only=True, gc=False):
    """The result of a sample, without its messages. Inspect omits fields that are None."""

    id: str | int
    epoch: int
    uuid: str | None = None
    """Identifies the sample in every log that holds it. None if Inspect before 0.3.70 wrote the log."""
    input: Raw = Raw(b'""')
    """A text, or a list of `Message`."""
    choices: Raw = Raw(b"null")
    target: str | list[str] = ""
    metadata: Raw = Raw(b"{}")
    scores: dict[str, LoggedScore] | None = None
    """By scorer. None if the sample was never scored."""
    store: Store = msgspec.field(default_factory=Store)
    output: Output = msgspec.field(default_factory=Output)
    error: Failure | None = None
    limit: Limit | None = None
    """The limit that ended the sample."""
    invalidation: Any = None

    @property
    def facts(self) -> QuestionFacts | None:
        """The question's metadata. None if the sample is not a Truthgym question."""
        try:
            return FACTS.decode(self.metadata)
        except msgspec.ValidationError:
            return None

    @property
    def asked(self) -> str:
        """A digest of the input and the choices: the same for the same question, whatever its id."""
        asked = msgspec.json.decode(self.input)
        if isinstance(asked, list):
            asked = [[message.get("role"), _written(message.get("content"))] for message in asked]
        parts = msgspec.json.encode([asked, msgspec.json.decode(self.choices) or []], order="sorted")
        return hashlib.sha256(parts).hexdigest()[:12]

    @property
    def stop_reason(self) -> str | None:
        return self.output.choices[0].stop_reason if self.output.choices else None

    @property
    def reply(self) -> str:
        """The text of the model's last reply, without its reasoning. "" if there is none."""
        if not self.output.choices:
            return ""
        content = CONTENT.decode(self.output.choices[0].message.content)
        return content if isinstance(content, str) else "".join(part.text or "" for part in content)


class LoggedSample(Outcome, kw_only=True, gc=False):
    """A sample with its messages, attachments resolved."""

    store: TrajectoryStore = msgspec.field(default_factory=TrajectoryStore)
    """Without steps if the solver is not a Truthgym solver."""
    messages: list[Message] = []
    tools: list[dict[str, Any]] | None = None
    """Tools of the evaluated model, as JSON schemas of functions. None if it called none."""
    plain: bool = False
    """Whether the content of every message is a text, and none calls a tool."""


class SampleName(msgspec.Struct, gc=False):
    id: str | int
    epoch: int


class SampleList(msgspec.Struct):
    """The samples of a .json log."""

    samples: list[Raw] = []


class Event(msgspec.Struct, gc=False):
    event: str = ""
    role: str | None = None
    """The model role of a model call. None for the evaluated model."""
    tools: Any = None


class Attachments(msgspec.Struct):
    """The texts that a sample refers to, by key."""

    attachments: dict[str, str] = {}


class RawAttachments(msgspec.Struct):
    """The same, each as JSON that is copied and not decoded."""

    attachments: dict[str, Raw] = {}


class Events(Attachments):
    """Attachments and events of a sample. Only the events record its tools."""

    events: list[Event] = []

    @property
    def tools(self) -> list[dict[str, Any]] | None:
        """Tools that the evaluated model had in any call, as JSON schemas of functions."""
        tools: dict[str, dict[str, Any]] = {}
        for event in self.events:
            if event.event == "model" and event.role is None:
                for tool in event.tools or []:
                    function = {key: tool[key] for key in ("name", "description", "parameters") if key in tool}
                    tools.setdefault(tool["name"], {"type": "function", "function": function})
        return list(tools.values()) or None


def _written(content: Any) -> Any:  # noqa: ANN401
    """What a message's content says: its text, or its parts without what Inspect adds to them."""
    if not isinstance(content, list):
        return content
    parts = [{name: part[name] for name in PART_FIELDS if part.get(name) is not None} for part in content]
    return parts[0].get("text") if len(parts) == 1 and parts[0].get("type") == "text" else parts


def decode_json(content: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode JSON. NaN and Infinity, which Inspect writes but JSON does not have, become None."""
    try:
        return decoder.decode(content)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return decoder.decode(msgspec.json.encode(replace_surrogates(json.loads(content))))


def replace_surrogates(value: Any) -> Any:  # noqa: ANN401
    """A value without unpaired surrogates, which models sometimes write and UTF-8 cannot encode."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(item) for key, item in value.items()}
    return [replace_surrogates(item) for item in value] if isinstance(value, list) else value
