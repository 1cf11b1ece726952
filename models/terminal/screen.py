"""The screen that a person reads: Inspect's display put aside, the conversation shown, and the eval ended from here."""

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
    """Put Inspect's display aside and give a console to write to.

    Inspect's `input_screen` expects that nothing else happens until it is left. Here other model calls go on
    meanwhile, so whatever could draw over what the person types is stopped first.
    """
    with ExitStack() as stack:
        app = _app()
        if app is not None:
            # A suspended app still draws, once a second, into a queue that nobody reads and that blocks when full.
            stack.enter_context(app.batch_update())
        transient = display_type() != "conversation"
        try:
            if app is None:
                # Leaving a screen that is not transient stops the live display; only then is it still.
                with input_screen(transient=False, record_event=False):
                    pass
            stack.enter_context(input_screen(transient=transient, record_event=False))
        except RuntimeError:  # outside of an eval: `inspect score` has a progress bar, but no screens
            stack.enter_context(_quiet(rich.get_console()))
        yield Console(
            file=stream(),
            no_color=rich.get_console().no_color,
            force_terminal=False if display_type() in ("plain", "log") else None,
            highlight=False,
            markup=False,
        )


def stream() -> TextIO:
    """Where the person reads: standard output, or standard error where that is the terminal."""
    given = [file for file in (sys.__stdout__, sys.__stderr__) if file is not None]
    return next((file for file in given if file.isatty()), given[0] if given else sys.stdout)


async def end_eval() -> None:
    """End the eval as Ctrl-C ends it: the log is "cancelled" and keeps every finished sample. Does not return."""
    app = _app()
    if app is not None:
        await app.run_action("quit")  # what Inspect has bound to Ctrl-C in its full display
    else:
        signal.raise_signal(signal.SIGINT)
    await anyio.sleep_forever()


def _app() -> Any:  # noqa: ANN401 (Textual's App, loaded only where it runs)
    """Inspect's full display, where that is what runs."""
    if display_type() != "full" or "textual.message_pump" not in sys.modules:
        return None
    from textual.message_pump import MessagePump

    try:
        return MessagePump().app
    except RuntimeError:  # none runs here
        return None


@contextmanager
def _quiet(console: Console) -> Iterator[None]:
    before, console.quiet = console.quiet, True
    try:
        if console.is_terminal:
            stream().write("\r\x1b[2K\x1b[?25h")  # the progress bar's line goes, the cursor comes back
        yield
    finally:
        console.quiet = before


def show(console: Console, messages: Sequence[ChatMessage]) -> None:
    """Show messages as they are: no markup, no Markdown, and nothing in them that could steer the terminal."""
    for message in messages:
        who = WHO[message.role]
        if isinstance(message, ChatMessageTool) and message.function:
            who += f" {message.function}"
        console.print(Text(UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", who), style="bold reverse"))
        console.print(plain(_words(message)))
        console.print()


def plain(text: str) -> Text:
    """A text of which every character is shown."""
    return Text(UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n")))


def dim(console: Console, text: str) -> None:
    """A remark beside the conversation."""
    console.print(Text(text, style="dim"))


def _words(message: ChatMessage) -> str:
    parts = [message.text] if message.text else []
    if not isinstance(message.content, str):
        kinds = [content.type for content in message.content if not isinstance(content, ContentText)]
        parts += [f"[{kind}, which cannot be shown here]" for kind in kinds if kind != "reasoning"]
    if isinstance(message, ChatMessageAssistant):
        parts += [f"[calls the tool {call.function}({call.arguments})]" for call in message.tool_calls or []]
    return "\n".join(parts) or "(nothing)"
