"""`human/terminal`: a person answers at the terminal, as the model or in any role.

    inspect eval truthgym/urns -T n=5 --epochs 1 --max-samples 1 --model human/terminal
    inspect score LOG --scorer truthgym/martingale -S elicitor=judge --model-role judge=human/terminal

One question at a time, whatever the concurrency (`human_desk`). A person can skip a question, stop the eval and go on
another day; each reply is in a journal before anything else happens to it (`human_journal`).
"""

import functools
from time import monotonic
from typing import Literal

from inspect_ai.event import ModelEvent
from inspect_ai.log import transcript
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
from truthgym.models.terminal.form import Filling, FormField, fields_of
from truthgym.models.terminal.journal import Earlier, Journal, digest
from truthgym.models.terminal.request_queue import Desk, Request
from truthgym.models.terminal.screen import dim, end_eval, plain, screen, show

NAME = "terminal"
ARGUMENTS = ["journal"]
HOW = "To send: /send or Ctrl-D on its own line. /skip /stop /clear /edit /all /help"
SKIPPED = "The person skipped this question."
DESK = Desk()


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
        BadInput: Another name, an unknown argument, or a journal that cannot be one.
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
        one_of("human", model_name, [NAME])
        for name in arguments:
            one_of(f"argument of human/{model_name}", name, ARGUMENTS)
        self.journal = Journal(arguments.get("journal", True))
        self._told = self.journal.path is None

    def max_connections(self) -> int:
        """One person answers one question at a time."""
        return 1

    def connection_key(self) -> str:
        """A pool for each sample: Inspect's own queue is first come, first served, and the desk knows better."""
        return str(id(transcript()))

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """Put a conversation before the person and take the reply.

        Raises:
            BadInput: There is no terminal, or the journal cannot be written.
        """
        name = f"human/{self.model_name}"
        request = Request(list(input), transcript(), _role(name, input), [tool.name for tool in tools])
        async with DESK.turn(request):
            start = monotonic()
            ended, reply = await self._ask(request, fields_of(config.response_schema))
            if ended == "stopped":
                await end_eval()
            if ended == "sent":
                DESK.seen(request, reply)
        output = ModelOutput.from_content(name, reply)
        if ended == "skipped":
            details = StopDetails(type="skipped", explanation=SKIPPED)
            # Inspect does not cache a refusal, and our solvers leave the sample unscored with its reason.
            output.choices = [
                ChatCompletionChoice(
                    message=ChatMessageAssistant(content="", model=name, source="generate"),
                    stop_reason="content_filter",
                    stop_details=details,
                )
            ]
        # Reported, so that Inspect does not download a tokenizer to count for itself.
        output.usage, output.time = ModelUsage(), monotonic() - start
        return output

    async def _ask(
        self, request: Request, fields: list[FormField] | None
    ) -> tuple[Literal["sent", "skipped", "stopped"], str]:
        from truthgym.models.terminal.editor import Writing  # here: its prompt_toolkit takes time to load

        asked = digest(request.messages)
        earlier = self.journal.earlier(asked)
        with screen() as console:
            if not self._told:
                dim(console, f"Each reply is kept in {self.journal.path} as it is sent.")
                self._told = True
            _present(console, request)
            show_all = functools.partial(show, console, request.messages)
            writing: Writing | Filling
            if fields:
                writing = Filling(
                    console, fields, earlier, lambda draft: self._keep(console, asked, draft=draft), show_all
                )
            else:
                _remind(console, earlier)
                writing = Writing(console, earlier.draft, may_be_empty=earlier.reply is not None, show_all=show_all)
            try:
                await writing.go_on()
            finally:
                if writing.ended == "sent" and writing.text:
                    self._keep(console, asked, reply=writing.text)
                elif writing.ended not in ("sent", "skipped") and writing.text != earlier.draft:
                    self._keep(console, asked, draft=writing.text)
            assert writing.ended is not None
            assert writing.ended != "back"  # which a form deals with itself
            dim(console, "(kept)" if writing.ended == "sent" and not writing.text else f"({writing.ended})")
        if writing.ended == "sent":
            return "sent", writing.text or earlier.reply or ""
        return writing.ended, ""

    def _keep(self, console: Console, asked: str, **kept: str) -> None:
        try:
            self.journal.keep(asked, **kept)
        except OSError as error:  # the reply itself goes on
            dim(console, f"The journal {self.journal.path} could not be written ({error.strerror}).")


def _present(console: Console, request: Request) -> None:
    """Show the conversation, or what is new of it, and what the person should know of it."""
    known = DESK.known(request)
    epoch = next(
        (m.metadata["epoch"] for m in reversed(request.messages) if m.metadata and "epoch" in m.metadata), None
    )
    where = [f"epoch {epoch}"] if epoch is not None else []
    where += [f"you answer as {request.role}"] if request.role else []
    if not known.messages:
        what = "Another conversation" if request.begun else "A new conversation"
    elif not known.whole:
        what = "The conversation goes on from an earlier point"
    else:
        what = "The conversation goes on" if known.last else "Back to an earlier conversation"
    console.print()
    console.rule(plain(", ".join([what, *where])), style="bold")
    if known.messages:
        back = "" if known.whole else " You replied to more than this before: that is no part of it."
        dim(console, f"Only what is new is shown; /all shows everything.{back}")
    console.print()
    show(console, request.messages[known.messages :])
    console.rule(plain(f"Your reply, as {request.role or 'the assistant'}"))
    if request.tools:
        dim(console, f"A model could call tools here ({', '.join(request.tools)}); a person cannot. Answer in words.")


def _remind(console: Console, earlier: Earlier) -> None:
    """Show what was replied before, and say how to reply."""
    if earlier.reply is not None:
        dim(console, f"You replied to this on {earlier.replied}:")
        console.print(plain(earlier.reply))
        dim(console, "Send nothing to keep it, or type another reply.")
    if earlier.draft:
        dim(console, "You had begun to write this. Go on, or /clear it.")
    dim(console, HOW)


def _role(model: str, messages: list[ChatMessage]) -> str | None:
    """The role in which the model is called, where the transcript tells it."""
    texts = [message.text for message in messages]
    for event in reversed(transcript().pending_events):
        if isinstance(event, ModelEvent) and event.model == model and [m.text for m in event.input] == texts:
            return event.role
    return None
