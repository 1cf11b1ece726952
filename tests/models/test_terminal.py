"""The real command with a person at a pseudo-terminal."""

import json
import os
import re
import select
import termios
import time
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log

from tests.commands import start
from tests.fixtures import details

BELIEF = r"\finalBeliefProb{0.7}"
ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|.)")


class Terminal:
    """The other end of a pseudo-terminal."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        termios.tcsetwinsize(self.slave, (40, 100))
        self.shown, self.mark = "", 0

    def wait(self, text: str, seconds: float = 90) -> None:
        """Read until a text is shown after the last one waited for."""
        end = time.monotonic() + seconds
        while True:
            plain = ESCAPES.sub("", self.shown).replace("\r", "")
            at = plain.find(text, self.mark)
            if at >= 0:
                self.mark = at + len(text)
                return
            assert time.monotonic() < end, f"{text!r} is not shown:\n{plain[self.mark :]}"
            if select.select([self.master], [], [], 0.05)[0]:
                self.shown += os.read(self.master, 65536).decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def start(self, folder: Path, environment: dict[str, str], *arguments: str) -> ForkServerProcess:
        """Start `inspect` with the terminal as its input and output."""
        here = environment | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        return start("inspect", *arguments, environment=here, folder=folder, out=os.ttyname(self.slave))

    def finish(self, running: ForkServerProcess) -> int | None:
        """Read what is shown until the command ends, and return its exit status."""
        end = time.monotonic() + 60
        while running.is_alive() and time.monotonic() < end:
            if select.select([self.master], [], [], 0.05)[0]:
                self.shown += os.read(self.master, 65536).decode(errors="replace")
        return running.exitcode


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    for end in (terminal.master, terminal.slave):
        os.close(end)


def newest(folder: Path) -> EvalLog:
    return read_eval_log(list_eval_logs(str(folder))[0])


@pytest.mark.slow
@pytest.mark.parametrize(("display", "command"), [("full", "eval"), ("rich", "eval-set")])
def test_stop_and_continue(
    tmp_path: Path, environment: dict[str, str], terminal: Terminal, display: str, command: str
) -> None:
    logs, journal = tmp_path / "logs", tmp_path / "journal"
    options = ["--display", display, "--log-dir", str(logs)]
    task = ["truthgym/urns", "-T", "n=2", "-T", "paradigms=brier", "--epochs", "1", "--max-samples", "1"]
    start = [command, *task, "--model", "human/terminal", "-M", f"journal={journal}", *options]
    before = termios.tcgetattr(terminal.slave)
    running = terminal.start(tmp_path, environment, *start)
    terminal.wait("opens $EDITOR.\n>")
    terminal.type(f"one\ntwo {BELIEF}\n/send\n")
    terminal.wait("opens $EDITOR.\n>")
    terminal.type("half\n/stop\n")
    terminal.finish(running)
    assert termios.tcgetattr(terminal.slave) == before
    assert newest(logs).status == "cancelled"
    assert [json.loads(line)["reply"] for line in journal.read_text().splitlines()] == [f"one\ntwo {BELIEF}"]
    again = start if command == "eval-set" else ["eval-retry", newest(logs).location, *options]
    running = terminal.start(tmp_path, environment, *again)
    terminal.wait("opens $EDITOR.\n>")
    terminal.type(f"{BELIEF}\n\x04")
    assert terminal.finish(running) == 0
    assert newest(logs).status == "success"
    assert [details(s, "brier")["belief"] for s in newest(logs).samples or []] == [0.7, 0.7]
