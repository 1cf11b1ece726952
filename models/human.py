"""`human/terminal`: a person answers at the terminal, as the evaluated model or in any role.

    inspect eval truthgym/urns -T n=5 --epochs 1 --max-samples 1 --model human/terminal
    inspect score LOG --scorer truthgym/martingale -S elicitor=judge --model-role judge=human/terminal

The person gets one request at a time. Each reply is written to a journal as soon as it is sent, so that an interrupted
eval loses none.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any

import anyio
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
    StopDetails,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo
from rich.console import Console

from truthgym.datasets.errors import one_of
from truthgym.models.terminal.form import FormField, display, form_fields
from truthgym.models.terminal.journal import Journal, digest, message_key
from truthgym.models.terminal.screen import dim, end_eval, plain, screen, show

TEXT_KEYS = "Send: /send or Ctrl-D on an empty line. Also: /skip /stop /all. Ctrl-X Ctrl-E opens $EDITOR."
LINE_KEYS = "Enter sends. Also: /skip /stop /all."
SKIPPED = "The person skipped this question."
SEND = FormField("send", {"type": "boolean"})
"""The confirmation at the end of a form."""
ONE_PERSON = anyio.Lock()


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

    Args:
        model_name: "terminal".
        base_url: Not used.
        api_key: Not used.
        config: Not used.
        **arguments: `journal`, the path of the file that keeps every reply, or false for none.

    Raises:
        BadInput: Another name, an unknown argument, or a journal that cannot be used.
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
        """Show the conversation to the person and return the reply.

        Raises:
            BadInput: No terminal, the end of standard input, or a journal that cannot be written.
        """
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
        seen = SHOWN.count(messages)
        epochs = [m.metadata["epoch"] for m in messages if m.metadata and "epoch" in m.metadata]
        title = ["The conversation continues" if seen else "New conversation"]
        title += [f"epoch {epochs[-1]}"] if epochs else []
        title += [f"you answer as {role}"] if role else []
        console.print()
        console.rule(plain(", ".join(title)), style="bold")
        if seen:
            dim(console, "Only what is new is shown; /all shows everything.")
        console.print()
        show(console, messages[seen:])
        console.rule(plain(f"Your reply, as {role or 'the assistant'}"))
        if tools:
            dim(console, f"A model could call tools here ({', '.join(tools)}); a person cannot. Answer in words.")

    async def _fill_form(self, console: Console, messages: Sequence[ChatMessage], fields: list[FormField]) -> str:
        """Ask for each field, then for confirmation. "no" starts again from what was typed."""
        typed: dict[str, str] = {}
        while True:
            for number, field in enumerate(fields, start=1):
                console.print(plain(f"\n{field.name} ({number} of {len(fields)})"), style="bold")
                dim(console, " ".join([*filter(None, [field.description]), f"Type {field.hint}."]))
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


def _common_prefix(one: Sequence[object], other: Sequence[object]) -> int:
    """How many items two sequences share at their beginning."""
    same = [a == b for a, b in zip(one, other, strict=False)]
    return [*same, False].index(False)


def _role(model: str, messages: list[ChatMessage]) -> str | None:
    """The role in which the model is called, read from the transcript's pending model event."""
    texts = [message.text for message in messages]
    for event in reversed(transcript().pending_events):
        if isinstance(event, ModelEvent) and event.model == model and [m.text for m in event.input] == texts:
            return event.role
    return None
