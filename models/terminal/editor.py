"""The terminal: a person's reply is typed, until a command on a line of its own sends it or ends it otherwise.

prompt_toolkit edits the text. Where it cannot - a pipe, a dumb terminal - whole lines are read. The commands are the
same.
"""

import asyncio
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from difflib import get_close_matches
from typing import Literal

import anyio
import anyio.to_thread
import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.output import create_output
from prompt_toolkit.patch_stdout import StdoutProxy
from prompt_toolkit.utils import is_dumb_terminal
from rich.console import Console

from truthgym.datasets.errors import BadInput
from truthgym.models.terminal.screen import dim, plain, stream

COMMANDS = {
    "/send": "send the reply; so does Ctrl-D on an empty line",
    "/skip": "leave this question without a reply: its sample is not scored",
    "/stop": "end the eval, as Ctrl-C does; nothing is lost",
    "/clear": "begin the reply anew",
    "/edit": "write on in your editor ($EDITOR)",
    "/all": "show the whole conversation",
    "/help": "show this",
}
BACK = {"/back": "go back to the field before"}
"""What a form has besides."""
LITERAL = "A line that begins with // is a line that begins with /."

Ending = Literal["sent", "skipped", "stopped", "back"]
ENDINGS: dict[str, Ending] = {"/send": "sent", "/skip": "skipped", "/stop": "stopped", "/back": "back"}


@contextmanager
def raw() -> Iterator[Input | None]:
    """Hold the terminal, so that no key is lost or shown between two prompts. None where whole lines are read.

    Raises:
        BadInput: Inspect runs on trio.
    """
    if is_dumb_terminal() or not _is_terminal() or not stream().isatty():
        yield None
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise BadInput("human/terminal needs asyncio: set INSPECT_ASYNC_BACKEND to asyncio, or unset it") from None
    keyboard = create_input(sys.__stdin__)
    with keyboard.raw_mode():
        yield keyboard


class Writing:
    """One reply as it is written.

    Args:
        console: Where remarks are shown.
        draft: What is written already.
        may_be_empty: Whether sending nothing means something: to keep an earlier reply.
        show_all: Shows the whole conversation.
        wrong: In a field of a form: why what is typed cannot be sent, or None. There, /back is a command too.
        one_line: Whether Enter sends.
    """

    def __init__(
        self,
        console: Console,
        draft: str,
        may_be_empty: bool,
        show_all: Callable[[], None],
        wrong: Callable[[str], str | None] | None = None,
        one_line: bool = False,
    ) -> None:
        self.ended: Ending | None = None
        self._wrong, self._one_line = wrong, one_line
        self._commands = COMMANDS if wrong is None else COMMANDS | BACK
        self._draft = Document(draft)
        self._console, self._may_be_empty, self._show_all = console, may_be_empty, show_all

    @property
    def text(self) -> str:
        """The reply: what was typed, without white space at its end."""
        return self._draft.text.rstrip()

    async def go_on(self) -> None:
        """Have the person write until the reply is sent, or ended otherwise. Can be cancelled at any time.

        Raises:
            BadInput: Standard input is no terminal, and has nothing more to read; or Inspect runs on trio.
        """
        with raw() as keyboard:  # also from one command to the next
            if keyboard is None and self.text:
                self._console.print(plain(self.text))
            while self.ended is None:
                await self._do(await (self._read() if keyboard is None else self._typed(keyboard)))

    async def _typed(self, keyboard: Input) -> str:
        """Have the person type up to the next command."""
        screen = create_output(stream())
        # What Inspect prints meanwhile to the same terminal appears above.
        above = StdoutProxy(raw=True) if sys.stdout is stream() else nullcontext(sys.stdout)
        session = PromptSession[str](
            input=keyboard, output=screen, key_bindings=LINE_KEYS if self._one_line else KEYS, multiline=True
        )
        try:
            with above as out, redirect_stdout(out):
                # Errors of other tasks and signals are Inspect's business.
                return await session.prompt_async(
                    "> ",
                    prompt_continuation=_margin,
                    default=self._draft,
                    set_exception_handler=False,
                    handle_sigint=False,
                )
        except EOFError:  # the terminal has gone away
            return "/stop"
        finally:
            self._draft = session.default_buffer.document

    async def _read(self) -> str:
        """Read lines up to the next command."""
        while (line := await _line()) is not None:
            if _is_command(line):
                return line.strip()
            if self._one_line:
                self._draft = Document(_meant(line) or self._draft.text)
                return "/send"
            self._draft = Document(f"{self._draft.text}{_meant(line)}\n")
        if not self.text and not _is_terminal():
            raise BadInput(
                "human/terminal needs a person at a terminal, and standard input is none and has nothing "
                "more to read; run Inspect in a terminal, or pipe in a line /send after each reply"
            )
        return "/send"

    async def _do(self, command: str) -> None:
        if command == "/send" and (why := self._why_not_sent()):
            dim(self._console, why)
            if self._one_line:
                self._draft = Document()
        elif command in ENDINGS and command in self._commands:
            self.ended = ENDINGS[command]
        elif command == "/clear":
            self._draft = Document()
            dim(self._console, "Cleared.")
        elif command == "/edit":
            await self._edit()
        elif command == "/all":
            self._show_all()
        elif command == "/help":
            for name, what in self._commands.items():
                dim(self._console, f"{name:7} {what}")
            dim(self._console, LITERAL)
        else:
            near = get_close_matches(command, self._commands, 1)
            meant = f"; did you mean {near[0]}" if near else ""
            dim(self._console, f"There is no command {command}{meant}? /help names all. {LITERAL}")

    def _why_not_sent(self) -> str | None:
        if not self.text:
            return None if self._may_be_empty else "Nothing is written yet. Type a reply first, or /skip the question."
        return self._wrong(self.text) if self._wrong else None

    async def _edit(self) -> None:
        try:
            with create_input(sys.__stdin__).cooked_mode():
                edited = await anyio.to_thread.run_sync(click.edit, self._draft.text)
        except click.ClickException as error:
            dim(self._console, f"{error.format_message()}. Set EDITOR to another, or go on here.")
        else:
            if edited is not None:
                self._draft = Document(edited.rstrip("\n"))


AHEAD = bytearray()
"""What is read of standard input beyond the last line: kept from one question to the next."""
KEYS = KeyBindings()
TYPING = has_focus(DEFAULT_BUFFER)  # and not searching in it
ON_EMPTY_LINE = Condition(lambda: not get_app().current_buffer.document.current_line)


@KEYS.add("enter", filter=TYPING)
@KEYS.add("escape", "enter", filter=TYPING)  # would send, which nobody expects of it
def _enter(event: KeyPressEvent) -> None:
    line = event.current_buffer.document.current_line
    if _is_command(line):
        _replace_line(event.current_buffer, "")
        _leave(event, line.strip())
    else:
        if line != _meant(line):
            _replace_line(event.current_buffer, _meant(line))
        event.current_buffer.newline(copy_margin=False)


def _leave(event: KeyPressEvent, command: str) -> None:
    event.app.erase_when_done = command not in ENDINGS  # it is drawn again, below what the command shows
    event.app.exit(result=command)


def _replace_line(buffer: Buffer, line: str) -> None:
    buffer.cursor_position += buffer.document.get_start_of_line_position()
    buffer.delete(len(buffer.document.current_line))
    buffer.insert_text(line)


LINE_KEYS = merge_key_bindings([KEYS, ENTER_SENDS := KeyBindings()])  # of two for a key, the last counts


@ENTER_SENDS.add("enter", filter=TYPING)
@ENTER_SENDS.add("escape", "enter", filter=TYPING)
def _enter_sends(event: KeyPressEvent) -> None:
    line = event.current_buffer.document.current_line
    if _is_command(line):
        _enter(event)
    else:
        _leave(event, "/send")


KEYS.add("c-d", filter=TYPING & ON_EMPTY_LINE)(functools.partial(_leave, command="/send"))
KEYS.add("c-c")(functools.partial(_leave, command="/stop"))


def _margin(width: int, number: int, wrapped: int) -> str:
    return " " * width if wrapped else "> "


async def _line() -> str | None:
    """The next line of standard input, or None at its end."""
    while b"\n" not in AHEAD and sys.__stdin__ is not None:
        fd = sys.__stdin__.fileno()
        if sys.platform != "win32":  # which cannot wait for a pipe: there, other calls wait with us
            with suppress(PermissionError):  # a file never makes one wait
                await anyio.wait_readable(fd)
        more = os.read(fd, 4096)
        if not more:
            break
        AHEAD.extend(more)
    line, end, rest = AHEAD.partition(b"\n")
    AHEAD[:] = rest
    return line.decode(errors="replace").removesuffix("\r") if line or end else None


def _is_terminal() -> bool:
    return sys.__stdin__ is not None and sys.__stdin__.isatty()


def _is_command(line: str) -> bool:
    return re.fullmatch(r"/[a-z]+\s*", line) is not None


def _meant(line: str) -> str:
    return line[1:] if line.startswith("//") else line
