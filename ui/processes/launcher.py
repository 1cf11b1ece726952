"""The process of a run: `python -m truthgym.ui.processes.launcher FOLDER [end]`.

It waits until it is the run's turn, starts the command, ends it if that is wished, and writes how it ended. It is in a
session of its own, so that it goes on when the page, its server or the terminal is closed.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from truthgym.ui.processes.record import (
    CANCEL,
    EXIT,
    LAUNCHER,
    OUTPUT,
    RECORD,
    STARTED,
    end,
    end_rest,
    folders,
    lives,
    lock,
    process,
    read,
    status,
    write,
)

POLL = 0.2
"""Seconds between looks at the run's files."""
QUEUE_POLL = 0.5
"""Seconds between looks at the other runs."""
REST = 5.0
"""Most seconds that what a command leaves running has to end."""
NOT_FOUND = 127
"""Exit code of a command that cannot be started, as in a shell."""


def main(folder: Path) -> None:
    """Run the newest command of a run's record."""
    # A server that a script started in the background ignores SIGINT, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    write(folder / LAUNCHER, process(os.getpid()))
    record = read(folder / RECORD)
    child = wait_for_turn(folder, record["attempts"][-1]["at"], record["at_once"], record["attempts"][-1]["command"])
    code = follow(folder, child, record["grace"]) if child else None
    if child:
        end_rest(child.pid, min(record["grace"], REST))
    ended = {"code": code, "cancelled": (folder / CANCEL).exists(), "at": time.time()}
    with suppress(FileNotFoundError):  # the folder was deleted meanwhile
        write(folder / EXIT, ended)


def end_alone(folder: Path) -> None:
    """End a command whose launcher was killed, in the place of that. Until it has ended, the run cannot be resumed."""
    write(folder / LAUNCHER, process(os.getpid()))
    started = folder / STARTED

    def has_ended(seconds: float) -> bool:
        until = time.monotonic() + seconds
        while lives(started) and time.monotonic() < until:
            time.sleep(POLL)
        return not lives(started)

    if lives(started):
        end(read(started)["pid"], read(folder / RECORD)["grace"], has_ended)
    with suppress(FileNotFoundError):  # the folder was deleted meanwhile
        write(folder / EXIT, {"code": None, "cancelled": True, "at": time.time()})


def wait_for_turn(folder: Path, at: float, at_once: int, command: list[str]) -> "subprocess.Popen[bytes] | None":
    """Start the command when fewer than `at_once` others run and none waits longer. None: it is not wanted any more."""
    while (folder / RECORD).exists() and not (folder / CANCEL).exists():
        with lock(folder.parent):
            if is_turn(folder, at, at_once):
                return start(folder, command)
        time.sleep(QUEUE_POLL)
    return None


def is_turn(folder: Path, at: float, at_once: int) -> bool:
    others = [one for one in folders(folder.parent) if one != folder and not (one / EXIT).exists()]
    states = [(other, status(other)) for other in others]
    running = sum(state in ("running", "stopping") and (other / STARTED).exists() for other, state in states)
    waiting = [read(other / RECORD).get("attempts") for other, state in states if state == "queued"]
    return running < at_once and all(at < attempts[-1]["at"] for attempts in waiting if attempts)


def start(folder: Path, command: list[str]) -> "subprocess.Popen[bytes] | None":
    """Start the command in a process group of its own, in the folder in which the runs are."""
    programs = (
        f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # also if no environment is active
    )
    environment = {"INSPECT_DISPLAY": "plain", **os.environ, "PATH": programs, "PYTHONUNBUFFERED": "1"}
    with (folder / OUTPUT).open("ab") as output:
        output.write(f"--- {datetime.now().astimezone():%Y-%m-%d %H:%M:%S %z}\n".encode())
        output.flush()
        try:
            child = subprocess.Popen(
                command, cwd=folder.parent.parent, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, process_group=0,
            )  # fmt: skip
        except OSError as error:
            output.write(f"The command cannot be started: {error}\n".encode())
            write(folder / EXIT, {"code": NOT_FOUND, "cancelled": False, "at": time.time()})
            sys.exit(0)
    write(folder / STARTED, process(child.pid))
    return child


def follow(folder: Path, child: "subprocess.Popen[bytes]", grace: float) -> int:
    """Wait until the command ends; end it if that is wished."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(POLL)
        if (folder / CANCEL).exists():
            end(child.pid, grace, lambda seconds: ended(child, seconds))
            return child.wait()


def ended(child: "subprocess.Popen[bytes]", seconds: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        child.wait(seconds)
    return child.returncode is not None


if __name__ == "__main__":
    (end_alone if sys.argv[2:] == ["end"] else main)(Path(sys.argv[1]))
