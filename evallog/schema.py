"""What of a logged sample training reads, in the shapes of Inspect's log format 2. All else in a log is skipped."""

from typing import Any

import msgspec

Value = str | int | float | bool | list[Any] | dict[str, Any] | None


class Part(msgspec.Struct, gc=False):
    """A part of a message's content. Which fields it has depends on its type."""

    type: str
    """`text`, `reasoning`, `image`, `audio`, `video`, `document`, `tool_use` or `data`."""
    text: str | None = None
    refusal: bool | None = None
    reasoning: str | None = None
    summary: str | None = None
    redacted: bool = False
    image: str | None = None
    """A data URI or a URL, as of audio, video and document."""
    audio: str | None = None
    video: str | None = None
    document: str | None = None
    format: str | None = None
    mime_type: str | None = None
    data: dict[str, Any] | None = None
    name: str | None = None
    """Of a tool that the provider runs itself, with its arguments, its result or its error."""
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
    """`generate` where the evaluated model wrote it, `input` where it stood in the sample."""
    model: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    """Each with `id`, `function` and `arguments`."""
    tool_call_id: str | list[str] | None = None
    function: str | None = None
    """The tool whose result this is."""
    error: ToolError | None = None
    metadata: dict[str, Any] | None = None


class LoggedStep(msgspec.Struct, gc=False):
    """A step of a Trajectory (`solvers.trajectory.Step`). Its text is in the message."""

    role: str
    kind: str
    trainable: bool
    message_id: str | None = None
    redacted: bool = False
    speaker: str | None = None


class LoggedScore(msgspec.Struct, gc=False):
    value: Value = None
    """NaN where it is unscored."""
    answer: str | None = None
    explanation: str | None = None
    reason: str | None = None
    metadata: dict[str, Any] | None = None


class Facts(msgspec.Struct, gc=False):
    """What is known of a question of Truthgym (`datasets.question.Question`)."""

    domain: str
    event: str
    split: str
    question: str | None = None
    """The id of the question, where several samples ask it in their own way."""
    arm: str | None = None
    proposition: str | None = None
    opened_on: str | None = None
    base_rate: float | None = None


class Outcome(msgspec.Struct, kw_only=True, gc=False):
    """What became of a sample, without what was said."""

    id: str
    epoch: int
    uuid: str | None
    """The same in every log that holds the sample. None of Inspect before 0.3.70."""
    target: str | list[str]
    facts: Facts | None
    """None where the sample asks no question of Truthgym."""
    scores: dict[str, LoggedScore]
    """By scorer. Empty where it was never scored."""
    error: str | None
    limit: str | None
    """The type of limit that it ran into."""
    invalidated: bool
    stop_reason: str | None
    """Why the model's last reply ended."""
    ended: str | None
    """Why the reasoning ended before its answer, where a solver recorded it."""


class LoggedSample(Outcome, kw_only=True, gc=False):
    """A sample with what was said, attachments put back in their places."""

    input: str | list[Message]
    messages: list[Message]
    steps: list[LoggedStep]
    """Empty where the solver is none of Truthgym."""
    metadata: dict[str, Any]
    tools: list[dict[str, Any]] | None
    """The tools that the evaluated model had, as JSON schemas of functions, where it called one."""


class Ended(msgspec.Struct, rename={"ended": "Trajectory:ended"}, gc=False):
    """What a solver kept in the store of how it ended."""

    ended: str | None = None


class Kept(Ended, rename={"steps": "Trajectory:steps", "ended": "Trajectory:ended"}, gc=False):
    """All that it kept."""

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
    """A sample as it stands in a log. Inspect leaves out what is None."""

    id: str | int
    epoch: int
    target: str | list[str] = ""
    output: Output = msgspec.field(default_factory=Output)
    scores: dict[str, LoggedScore] | None = None
    store: Ended = msgspec.field(default_factory=Ended)
    uuid: str | None = None
    invalidation: Any = None
    error: Failure | None = None
    limit: Limit | None = None


class FactsRecord(msgspec.Struct, gc=False):
    """Of whatever type: another project's metadata may have a field of the same name."""

    domain: Any = None
    event: Any = None
    split: Any = None
    question: Any = None
    arm: Any = None
    proposition: Any = None
    opened_on: Any = None
    base_rate: Any = None


class OutcomeRecord(Record, kw_only=True, gc=False):
    metadata: FactsRecord = msgspec.field(default_factory=FactsRecord)


class SampleRecord(Record, kw_only=True, gc=False):
    store: Kept = msgspec.field(default_factory=Kept)
    input: str | list[Message] = ""
    messages: list[Message] = []
    metadata: dict[str, Any] = {}


def outcome(record: OutcomeRecord) -> Outcome:
    held = record.metadata
    return Outcome(
        facts=_facts(
            held.domain,
            held.event,
            held.split,
            (held.question, held.arm, held.proposition, held.opened_on),
            held.base_rate,
        ),
        **_common(record),
    )


def sample(record: SampleRecord, tools: list[dict[str, Any]] | None) -> LoggedSample:
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
            score.reason = str(score.metadata["unscored_reason"])  # where Inspect kept it before 0.3.285
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


def _facts(domain: Any, event: Any, split: Any, texts: tuple[Any, ...], base_rate: Any) -> Facts | None:  # noqa: ANN401
    if not (isinstance(domain, str) and isinstance(event, str) and isinstance(split, str)):
        return None
    question, arm, proposition, opened_on = (text if isinstance(text, str) else None for text in texts)
    number = float(base_rate) if isinstance(base_rate, int | float) else None
    return Facts(domain, event, split, question, arm, proposition, opened_on, number)
