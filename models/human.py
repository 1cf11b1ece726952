"""`human/terminal`: a person answers at the terminal, as the evaluated model or in any role.

    inspect eval truthgym/urns -T n=5 --epochs 1 --max-samples 1 --model human/terminal
    inspect score LOG --scorer truthgym/martingale -S elicitor=judge --model-role judge=human/terminal

The person gets one request at a time. Each reply is written to a journal as soon as it is sent, so that an interrupted
eval loses none.
"""

import json
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import platformdirs
from inspect_ai.event import ModelEvent
from inspect_ai.log import Transcript, transcript
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    ResponseSchema,
    StopDetails,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo
from rich.console import Console

from truthgym.datasets.errors import BadInput, one_of
from truthgym.models.terminal.screen import dim, end_eval, plain, screen, show

TEXT_KEYS = "Send: /send or Ctrl-D on an empty line. Also: /skip /stop /all. Ctrl-X Ctrl-E opens $EDITOR."
LINE_KEYS = "Enter sends. Also: /skip /stop /all."
SKIPPED = "The person skipped this question."
CONSTANTS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False, "none": None}
"""How a person types a boolean, or leaves a field empty that may be null."""
TYPES = {"integer": "a whole number", "number": "a number", "boolean": "yes or no", "string": "a text", "null": "none"}
REMEDY = "name another file with -M journal=PATH, or keep no journal with -M journal=false"
ONE_PERSON = anyio.Lock()


@dataclass(frozen=True)
class FormField:
    """One field of a form."""

    name: str
    schema: dict[str, Any]
    """JSON schema of its value: a scalar, or `anyOf` several scalars."""

    @property
    def multiline(self) -> bool:
        """Whether the value is a free text, which may have several lines."""
        return any(part.get("type") == "string" and "enum" not in part for part in _alternatives(self.schema))

    @property
    def hint(self) -> str:
        """What to type, such as "a whole number from 0 to 100, or none"."""
        return ", or ".join(_hint(part) for part in _alternatives(self.schema))

    def parse(self, typed: str) -> Any:  # noqa: ANN401 (any JSON value)
        """The value that a person means."""
        from jsonschema import Draft202012Validator

        word, schema = typed.strip(), Draft202012Validator(self.schema)
        fits = [value for value in self._readings(word) if schema.is_valid(value)]
        if not fits:
            raise ValueError(f"{word!r} is not valid for {self.name}; type {self.hint}.")
        return fits[0]

    def _readings(self, word: str) -> list[object]:
        """What a word can mean, in the order in which it is tried."""
        if not word:
            return []
        choices = [choice for part in _alternatives(self.schema) for choice in part.get("enum", [])]
        readings: list[object] = [choice for choice in choices if display(choice).casefold() == word.casefold()]
        readings += [value for key, value in CONSTANTS.items() if key == word.casefold()]
        for number in (int, float):
            with suppress(ValueError):
                readings += [value] if math.isfinite(value := number(word)) else []
        return [*readings, word]


def form_fields(schema: ResponseSchema | None) -> list[FormField] | None:
    """The fields of a form, or None if there is no form or a field is not a scalar."""
    if schema is None or not schema.json_schema.properties:
        return None
    properties = schema.json_schema.properties
    fields = [FormField(name, part.model_dump(exclude_none=True)) for name, part in properties.items()]
    scalar = all(part.get("type") in TYPES for field in fields for part in _alternatives(field.schema))
    return fields if scalar else None


def display(value: object) -> str:
    """A value as a person would type it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    parts = schema.get("anyOf", [schema])
    return [part | {"type": kind} for part in parts for kind in _types(part)]


def _types(schema: dict[str, Any]) -> list[Any]:
    kinds = schema.get("type", "string" if "enum" in schema else None)
    return kinds if isinstance(kinds, list) else [kinds]


def _hint(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(map(display, schema['enum']))}"
    low, high = schema.get("minimum"), schema.get("maximum")
    limits = (f" from {low:g}" if low is not None else "") + (f" to {high:g}" if high is not None else "")
    return TYPES[schema["type"]] + limits


SEND = FormField("send", {"type": "boolean"})
"""The confirmation at the end of a form."""


class _Shown:
    """The conversations that the person has seen of the last sample, each with the reply."""

    def __init__(self) -> None:
        self.sample: Transcript | None = None
        self.conversations: list[list[Any]] = []

    def count(self, messages: Sequence[ChatMessage]) -> int:
        """How many of the messages, from the first, the person has just seen. 0 if all of them, to show them again."""
        keys = [message_key(message) for message in messages]
        if self.sample is not transcript():
            return 0
        counts = [_common_prefix(keys, conversation) for conversation in self.conversations]
        # A system prompt alone does not make it the same conversation.
        return max((n for n in counts if n < len(keys) and any(key[0] != "system" for key in keys[:n])), default=0)

    def add(self, messages: Sequence[ChatMessage], reply: str) -> None:
        """Remember a conversation and the person's reply."""
        if self.sample is not transcript():
            self.sample, self.conversations = transcript(), []
        self.conversations.append([*map(message_key, messages), ("assistant", reply, None)])


SHOWN = _Shown()


@modelapi(name="human")
def human() -> type[ModelAPI]:
    """Inspect's hook: the class behind `--model human/terminal`."""
    return HumanAPI


class HumanAPI(ModelAPI):
    """A person as an Inspect model.

    Its name is "terminal", its only argument `journal`: the path of the file that keeps every reply, or false for none.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 (Inspect's own signature)
        **arguments: object,
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config)
        one_of("human model", model_name, ["terminal"])
        for name in arguments:
            one_of("argument of human/terminal", name, ["journal"])
        self.journal = Journal(arguments.get("journal", True))
        self._journal_named = self.journal.path is None

    def max_connections(self) -> int:
        """One person answers one request at a time."""
        return 1

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """Show the conversation to the person and return the reply."""
        from truthgym.models.terminal.prompt import Skipped, Stopped  # here: prompt_toolkit takes time to load

        name = f"human/{self.model_name}"
        role = _role(name, input)
        async with ONE_PERSON:
            start = monotonic()
            try:
                with screen() as console:
                    self._show_request(console, input, role, [tool.name for tool in tools])
                    fields = form_fields(config.response_schema)
                    if fields:
                        reply = await self._fill_form(console, input, fields)
                    else:
                        reply = await self._ask(console, input, "", _not_empty, None, True)
                    dim(console, "(sent)")
            except Skipped:
                return _skipped(name, monotonic() - start)
            except Stopped:
                await end_eval()
            SHOWN.add(input, reply)
        output = ModelOutput.from_content(name, reply)
        # Reported so that Inspect does not download a tokenizer to count tokens.
        output.usage, output.time = ModelUsage(), monotonic() - start
        return output

    def _show_request(
        self, console: Console, messages: Sequence[ChatMessage], role: str | None, tools: Sequence[str]
    ) -> None:
        """Print the conversation, or the part of it that is new to the person."""
        if not self._journal_named:
            dim(console, f"Each reply is kept in {self.journal.path} as it is sent.")
            self._journal_named = True
        old = SHOWN.count(messages)
        epochs = [m.metadata["epoch"] for m in messages if m.metadata and "epoch" in m.metadata]
        title = ["The conversation continues" if old else "New conversation"]
        title += [f"epoch {epochs[-1]}"] if epochs else []
        title += [f"you answer as {role}"] if role else []
        console.print()
        console.rule(plain(", ".join(title)), style="bold")
        if old:
            dim(console, "Only what is new is shown; /all shows everything.")
        console.print()
        show(console, messages[old:])
        console.rule(plain(f"Your reply, as {role or 'the assistant'}"))
        if tools:
            dim(console, f"A model could call tools here ({', '.join(tools)}); a person cannot. Answer in words.")

    async def _fill_form(self, console: Console, messages: Sequence[ChatMessage], fields: list[FormField]) -> str:
        """Ask for each field, then for confirmation. "no" starts again from what was typed."""
        typed: dict[str, str] = {}
        while True:
            for number, field in enumerate(fields, start=1):
                console.print(plain(f"\n{field.name} ({number} of {len(fields)})"), style="bold")
                dim(console, " ".join([*filter(None, [field.schema.get("description")]), f"Type {field.hint}."]))
                default = typed.get(field.name)
                text = await self._ask(console, messages, field.name, field.parse, default, field.multiline)
                typed[field.name] = text
            values = {field.name: field.parse(typed[field.name]) for field in fields}
            console.print(plain("\n" + "\n".join(f"{name}: {display(value)}" for name, value in values.items())))
            dim(console, "Send this form? Type yes, or no to go through it again.")
            if SEND.parse(await self._ask(console, messages, SEND.name, SEND.parse, "yes", False)):
                return json.dumps(values, ensure_ascii=False)

    async def _ask(
        self,
        console: Console,
        messages: Sequence[ChatMessage],
        field: str,
        check: Callable[[str], object],
        default: str | None,
        multiline: bool,
    ) -> str:
        """Prompt for a reply, or one field of it. An earlier reply in the journal is the default."""
        from truthgym.models.terminal.prompt import ask

        key = digest(messages, field)
        earlier = self.journal.find(key) if default is None else None
        if earlier:
            dim(console, f"You replied to this on {earlier.time}: send the text below to keep it, or change it.")
            default = earlier.text
        dim(console, TEXT_KEYS if multiline else LINE_KEYS)
        reply = await ask(partial(show, console, messages), check, default or "", multiline)
        if field != SEND.name:
            try:
                self.journal.write(key, reply)
            except OSError as error:  # the reply itself is still used
                dim(console, f"The journal {self.journal.path} could not be written ({error.strerror}).")
        return reply


def _not_empty(text: str) -> None:
    if not text.strip():
        raise ValueError("Nothing is written yet. Type a reply, or /skip the question.")


def _skipped(name: str, seconds: float) -> ModelOutput:
    """The output for a skipped question. Solvers leave its sample unscored, and Inspect does not cache a refusal."""
    choice = ChatCompletionChoice(
        message=ChatMessageAssistant(content="", model=name, source="generate"),
        stop_reason="content_filter",
        stop_details=StopDetails(type="skipped", explanation=SKIPPED),
    )
    return ModelOutput(model=name, choices=[choice], usage=ModelUsage(), time=seconds)


def _common_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))))


def _role(model: str, messages: list[ChatMessage]) -> str | None:
    """The role in which the model is called, read from the transcript's pending model event."""
    texts = [message.text for message in messages]
    for event in reversed(transcript().pending_events):
        if isinstance(event, ModelEvent) and event.model == model and [m.text for m in event.input] == texts:
            return event.role
    return None


def default_path() -> Path:
    """The default journal, in the user's data folder."""
    return platformdirs.user_data_path("truthgym") / "human" / "terminal.jsonl"


def message_key(message: ChatMessage) -> tuple[str, str, object]:
    """Role, text and epoch of a message, with the repetition number if a judge is asked several times."""
    metadata = message.metadata or {}
    epoch, draw = metadata.get("epoch"), metadata.get("draw")
    return message.role, message.text, [epoch, draw] if draw else epoch


def digest(messages: Sequence[ChatMessage], field: str = "") -> str:
    """Identifies a request, or one field of the form that it asks for. Message ids make no difference."""
    text = json.dumps([message_key(message) for message in messages]) + field
    return sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Reply:
    """An earlier reply."""

    text: str
    time: str
    """When it was sent, to the minute, in local time."""


class Journal:
    """The journal file: of a path, True for the default one, False for none."""

    def __init__(self, path: object = True) -> None:
        if not isinstance(path, bool | str) or path == "":
            raise BadInput(f"-M journal={path!r} cannot be used: give the path of a file, or false for no journal")
        self.path = Path(path).expanduser() if isinstance(path, str) else default_path() if path else None
        if self.path is not None and self.path.is_dir():
            raise BadInput(f"-M journal={path} cannot be used: it is a folder; {REMEDY}")

    def find(self, key: str) -> Reply | None:
        """The last reply to the request with this digest, or None."""
        if self.path is None:
            return None
        try:
            self._append("")
            lines = self.path.read_bytes().splitlines()
        except OSError as error:
            raise BadInput(f"The journal {self.path} cannot be written ({error.strerror}); {REMEDY}") from None
        for line in reversed(lines):
            try:
                entry = json.loads(line)
                if entry["asked"] == key and "reply" in entry:
                    time = datetime.fromisoformat(entry["time"]).astimezone()
                    return Reply(str(entry["reply"]), time.strftime("%Y-%m-%d %H:%M"))
            except (ValueError, KeyError, TypeError):  # a line cut short by a kill
                continue
        return None

    def write(self, key: str, reply: str) -> None:
        """Append a reply and flush it to disk."""
        if self.path is not None:
            entry = {"asked": key, "time": datetime.now().astimezone().isoformat(timespec="seconds"), "reply": reply}
            self._append(json.dumps(entry, ensure_ascii=False) + "\n")

    def _append(self, line: str) -> None:
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # 0o600: only the user can read it
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "ab+") as file:
            if not line:
                return
            if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                line = f"\n{line}"
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
