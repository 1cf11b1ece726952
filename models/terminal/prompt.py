"""The prompt: a person types a reply with prompt_toolkit and sends, skips or stops it with a command or key."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session, get_app, run_in_terminal
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.validation import ValidationError, Validator

from truthgym.datasets.errors import BadInput
from truthgym.models.terminal.screen import stream

COMMANDS = ("/send", "/skip", "/stop", "/all")
NO_TERMINAL = (
    "human/terminal needs a person at a terminal, and standard input has nothing more to read; run Inspect in a "
    "terminal, or pipe in the replies, each followed by a line /send"
)
TYPING = has_focus(DEFAULT_BUFFER)  # and not in a search
EMPTY_LINE = Condition(lambda: not get_app().current_buffer.document.current_line)


class Skipped(Exception):
    """The person skipped the question."""


class Stopped(Exception):
    """The person stopped the eval."""


@cache
def _keyboard(stdin: TextIO) -> Input:
    """The keyboard, made once so that no half-read character is lost between two prompts."""
    return create_input(stdin)


def devices() -> tuple[Input, Output]:
    if sys.__stdin__ is None:
        raise BadInput(NO_TERMINAL)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise BadInput("human/terminal needs asyncio: unset INSPECT_ASYNC_BACKEND, or set it to asyncio") from None
    return _keyboard(sys.__stdin__), create_output(stream())


async def ask(
    show_all: Callable[[], None], check: Callable[[str], object], default: str = "", multiline: bool = True
) -> str:
    """Have the person type a reply. Can be cancelled at any time."""
    keyboard, screen = devices()
    with create_app_session(keyboard, screen):
        session = PromptSession[str](
            multiline=multiline,
            key_bindings=_bindings(show_all, multiline),
            validator=_Validator(check),
            validate_while_typing=False,
            enable_open_in_editor=True,
        )
        # Text that Inspect prints to the same terminal meanwhile appears above the prompt.
        with patch_stdout(raw=True) if sys.stdout is stream() else nullcontext():
            try:
                # Exceptions of other tasks and signals are left to Inspect.
                text = await session.prompt_async(
                    "> ", default=default, set_exception_handler=False, handle_sigint=False
                )
            except KeyboardInterrupt:
                raise Stopped from None
            except EOFError:
                raise BadInput(NO_TERMINAL) from None
    return text.rstrip()


class _Validator(Validator):
    def __init__(self, check: Callable[[str], object]) -> None:
        self._check = check

    def validate(self, document: Document) -> None:
        try:
            self._check(document.text.rstrip())
        except ValueError as error:
            raise ValidationError(len(document.text), str(error)) from None


def _bindings(show_all: Callable[[], None], multiline: bool) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=TYPING)
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        command = buffer.document.current_line.strip()
        if command not in COMMANDS:
            if multiline:
                buffer.newline(copy_margin=False)
            else:
                buffer.validate_and_handle()
            return
        buffer.cursor_position += buffer.document.get_start_of_line_position()
        buffer.delete(len(buffer.document.current_line))
        if command == "/send":
            buffer.validate_and_handle()
        elif command == "/all":
            run_in_terminal(show_all)
        else:
            event.app.exit(exception=Skipped() if command == "/skip" else Stopped())

    @bindings.add("c-d", filter=TYPING & EMPTY_LINE)
    def _end(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return bindings
