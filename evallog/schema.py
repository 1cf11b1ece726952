"""Typed views of the parts of a log sample that training needs (Inspect log format 2). Other fields are skipped."""

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
Value = str | int | float | bool | list[Any] | dict[str, Any] | None


class Part(msgspec.Struct, gc=False):
    """A part of a message's content. Its type decides which fields it has."""

    type: str
    """`text`, `reasoning`, `image`, `audio`, `video`, `document`, `tool_use` or `data`."""
    text: str | None = None
    refusal: bool | None = None
    reasoning: str | None = None
    summary: str | None = None
    redacted: bool = False
    image: str | None = None
    """A data URI or a URL, as are `audio`, `video` and `document`."""
    audio: str | None = None
    video: str | None = None
    document: str | None = None
    format: str | None = None
    mime_type: str | None = None
    data: dict[str, Any] | None = None
    name: str | None = None
    """Name of a tool that the provider runs itself; its arguments, result and error follow."""
    arguments: str | None = None
    result: str | None = None
    error: str | None = None


class ToolError(msgspec.Struct, gc=False):
    type: str
    message: str


class Message(msgspec.Struct, gc=False):
    role: str
    content: str | list[Part]
    id: str | None = None
    source: str | None = None
    """`generate` if the evaluated model wrote it, `input` if it was part of the sample."""
    model: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    """Each with `id`, `function` and `arguments`."""
    tool_call_id: str | list[str] | None = None
    function: str | None = None
    """The tool that returned this message."""
    error: ToolError | None = None
    metadata: dict[str, Any] | None = None


class LoggedStep(msgspec.Struct, gc=False):
    """A step of a Trajectory (`solvers.trajectory.Step`) without its text, which is in the message."""

    role: str
    kind: str
    trainable: bool
    message_id: str | None = None
    redacted: bool = False
    speaker: str | None = None


class LoggedScore(msgspec.Struct, gc=False):
    value: Value = None
    """NaN if the sample is unscored."""
    answer: str | None = None
    explanation: str | None = None
    reason: str | None = None
    metadata: dict[str, Any] | None = None


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
    base_rate: float | None = None


class Outcome(msgspec.Struct, kw_only=True, gc=False):
    """The result of a sample, without its messages."""

    id: str
    epoch: int
    uuid: str | None
    """Identifies the sample in every log that holds it. None if Inspect before 0.3.70 wrote the log."""
    target: str | list[str]
    facts: QuestionFacts | None
    """None if the sample is not a Truthgym question."""
    scores: dict[str, LoggedScore]
    """By scorer. Empty if the sample was never scored."""
    error: str | None
    limit: str | None
    """The type of limit that ended the sample."""
    invalidated: bool
    stop_reason: str | None
    """Stop reason of the model's last reply."""
    ended: str | None
    """Why the reasoning ended before an answer, if a solver recorded it."""


class LoggedSample(Outcome, kw_only=True, gc=False):
    """A sample with its messages, attachments resolved."""

    input: str | list[Message]
    messages: list[Message]
    steps: list[LoggedStep]
    """Empty if the solver is not a Truthgym solver."""
    metadata: dict[str, Any]
    tools: list[dict[str, Any]] | None
    """Tools of the evaluated model, as JSON schemas of functions. None if it called none."""


class EndStore(msgspec.Struct, rename={"ended": "Trajectory:ended"}, gc=False):
    """The part of a sample's store that says why its reasoning ended early."""

    ended: str | None = None


class TrajectoryStore(EndStore, rename={"steps": "Trajectory:steps", "ended": "Trajectory:ended"}, gc=False):
    """The part of a sample's store that holds its Trajectory."""

    steps: list[LoggedStep] = []


class Choice(msgspec.Struct, gc=False):
    stop_reason: str | None = None


class Output(msgspec.Struct, gc=False):
    choices: list[Choice] = []


class Failure(msgspec.Struct, gc=False):
    message: str = ""


class Limit(msgspec.Struct, gc=False):
    type: str


class Record(msgspec.Struct, kw_only=True, gc=False):
    """A sample as a log stores it. Inspect omits fields that are None."""

    id: str | int
    epoch: int
    target: str | list[str] = ""
    output: Output = msgspec.field(default_factory=Output)
    scores: dict[str, LoggedScore] | None = None
    store: EndStore = msgspec.field(default_factory=EndStore)
    uuid: str | None = None
    invalidation: Any = None
    error: Failure | None = None
    limit: Limit | None = None


class MetadataRecord(msgspec.Struct, gc=False):
    """Metadata fields of any type: another project may use the same names for other values."""

    domain: Any = None
    event: Any = None
    split: Any = None
    question: Any = None
    arm: Any = None
    proposition: Any = None
    opened_on: Any = None
    base_rate: Any = None


class OutcomeRecord(Record, kw_only=True, gc=False):
    metadata: MetadataRecord = msgspec.field(default_factory=MetadataRecord)


class SampleRecord(Record, kw_only=True, gc=False):
    store: TrajectoryStore = msgspec.field(default_factory=TrajectoryStore)
    input: str | list[Message] = ""
    messages: list[Message] = []
    metadata: dict[str, Any] = {}


class AttachmentsRecord(msgspec.Struct):
    """The texts that a sample's messages refer to, by key."""

    attachments: dict[str, str] = {}


class Event(msgspec.Struct, gc=False):
    event: str = ""
    role: str | None = None
    """The model role of a model call. None for the evaluated model."""
    tools: Any = None


class EventsRecord(AttachmentsRecord):
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


def decode_json(content: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode JSON. NaN and Infinity are allowed: Inspect writes them, but msgspec alone rejects them.

    Raises:
        ValueError: The content is not JSON.
        msgspec.ValidationError: It does not have the decoder's schema.
    """
    try:
        return decoder.decode(content)
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(content), decoder.type)


def outcome(record: OutcomeRecord) -> Outcome:
    """Make the outcome of a decoded sample."""
    fields = record.metadata
    texts = (fields.question, fields.arm, fields.proposition, fields.opened_on)
    return Outcome(facts=_facts(fields.domain, fields.event, fields.split, texts, fields.base_rate), **_common(record))


def sample(record: SampleRecord, tools: list[dict[str, Any]] | None) -> LoggedSample:
    """Make the full sample of a decoded one."""
    get = record.metadata.get
    texts = (get("question"), get("arm"), get("proposition"), get("opened_on"))
    return LoggedSample(
        facts=_facts(get("domain"), get("event"), get("split"), texts, get("base_rate")),
        input=record.input,
        messages=record.messages,
        steps=record.store.steps,
        metadata=record.metadata,
        tools=tools,
        **_common(record),
    )


def _common(record: Record) -> dict[str, Any]:
    choices = record.output.choices
    for score in (record.scores or {}).values():
        if score.reason is None and score.metadata and score.metadata.get("unscored_reason") is not None:
            score.reason = str(score.metadata["unscored_reason"])  # Inspect before 0.3.285
    return {
        "id": str(record.id),
        "epoch": record.epoch,
        "uuid": record.uuid,
        "target": record.target,
        "scores": record.scores or {},
        "error": record.error.message if record.error else None,
        "limit": record.limit.type if record.limit else None,
        "invalidated": record.invalidation is not None,
        "stop_reason": choices[0].stop_reason if choices else None,
        "ended": record.store.ended,
    }


def _facts(domain: Any, event: Any, split: Any, texts: tuple[Any, ...], base_rate: Any) -> QuestionFacts | None:  # noqa: ANN401
    if not (isinstance(domain, str) and isinstance(event, str) and isinstance(split, str)):
        return None
    question, arm, proposition, opened_on = (text if isinstance(text, str) else None for text in texts)
    number = float(base_rate) if isinstance(base_rate, int | float) else None
    return QuestionFacts(domain, event, split, question, arm, proposition, opened_on, number)
