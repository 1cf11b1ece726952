"""The person's screen: suspends Inspect's display, prints the conversation and ends the eval."""

import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

import anyio
import rich
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageTool, ContentText
from inspect_ai.util import display_type, input_screen
from rich.console import Console
from rich.text import Text

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
WHO = {"system": "System", "user": "User", "assistant": "Assistant", "tool": "Tool"}


@contextmanager
def screen() -> Iterator[Console]:
    """Suspend Inspect's display and yield a console to write to."""
    with ExitStack() as stack:
        app = _app()
        if app is not None:
            # A suspended app still draws once a second, into a queue that has no reader and blocks when full.
            stack.enter_context(app.batch_update())
        transient = display_type() != "conversation"
        try:
            if app is None:
                # The live display only stops on leaving a screen that is not transient.
                with input_screen(transient=False, record_event=False):
                    pass
            stack.enter_context(input_screen(transient=transient, record_event=False))
        except RuntimeError:  # outside an eval: `inspect score` has a progress bar but no input screen
            stack.enter_context(_quiet(rich.get_console()))
        yield Console(
            file=stream(),
            no_color=rich.get_console().no_color,
            force_terminal=False if display_type() in ("plain", "log") else None,
            highlight=False,
            markup=False,
        )


def stream() -> TextIO:
    """The terminal's output: standard output, or standard error if only that is a terminal."""
    files = [file for file in (sys.__stdout__, sys.__stderr__) if file is not None]
    return next((file for file in files if file.isatty()), files[0] if files else sys.stdout)


async def end_eval() -> None:
    """End the eval as Ctrl-C does: the log is "cancelled" and keeps every finished sample. Does not return."""
    app = _app()
    if app is not None:
        await app.run_action("quit")  # Inspect's binding of Ctrl-C in its full display
    else:
        signal.raise_signal(signal.SIGINT)
    await anyio.sleep_forever()


def _app() -> Any:  # noqa: ANN401 (Textual's App, loaded only where it runs)
    """Inspect's full display, or None if another one runs."""
    if display_type() != "full" or "textual.message_pump" not in sys.modules:
        return None
    from textual.message_pump import MessagePump

    try:
        return MessagePump().app
    except RuntimeError:  # no app is running
        return None


@contextmanager
def _quiet(console: Console) -> Iterator[None]:
    before, console.quiet = console.quiet, True
    try:
        if console.is_terminal:
            stream().write("\r\x1b[2K\x1b[?25h")  # clears the progress bar's line, shows the cursor
        yield
    finally:
        console.quiet = before


def show(console: Console, messages: Sequence[ChatMessage]) -> None:
    """Print messages verbatim: no markup, no Markdown, and no control characters that the terminal would interpret."""
    for message in messages:
        who = WHO[message.role]
        if isinstance(message, ChatMessageTool) and message.function:
            who += f" {message.function}"
        console.print(Text(UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", who), style="bold reverse"))
        console.print(plain(_words(message)))
        console.print()


def plain(text: str) -> Text:
    """A text with its control characters replaced, so that every character is visible."""
    return Text(UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n")))


def dim(console: Console, text: str) -> None:
    console.print(Text(text, style="dim"))


def _words(message: ChatMessage) -> str:
    parts = [message.text] if message.text else []
    if not isinstance(message.content, str):
        kinds = [content.type for content in message.content if not isinstance(content, ContentText)]
        parts += [f"[{kind}, which cannot be shown here]" for kind in kinds if kind != "reasoning"]
    if isinstance(message, ChatMessageAssistant):
        parts += [f"[calls the tool {call.function}({call.arguments})]" for call in message.tool_calls or []]
    return "\n".join(parts) or "(nothing)"
