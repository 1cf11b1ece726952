"""The process of a run: `python -m truthgym.ui.processes.launcher FOLDER`.

It waits until it is the run's turn, starts the command, ends it if that is wished, and writes how it ended. It is in a
session of its own, so that it goes on when the page, its server or the terminal is closed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import psutil
from filelock import FileLock

from truthgym.evallog.errors import bad_input

Status = Literal["queued", "running", "stopping", "done", "failed", "cancelled", "lost"]
LIVE: tuple[Status, ...] = ("queued", "running", "stopping")
"""Of these, a process lives."""
RECORD, OUTPUT, EXIT = "command.json", "output.txt", "exit.json"
LAUNCHER, STARTED, CANCEL = "launcher.json", "started.json", "cancel"
"""Files of a run: the launcher's process; the command's process, once it is its turn; the wish that it should end."""
POLL = 0.2
"""Seconds between looks at the run's files."""
REST = 5.0
"""Most seconds that what a command leaves running has to end."""


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file at once, so that no reader sees half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)


def read(path: Path) -> dict[str, Any]:
    """A JSON file of `write`; {} if it is not there or is damaged."""
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(path.read_text(encoding="utf-8"))
        return content if isinstance(content, dict) else {}
    return {}


def process(pid: int) -> dict[str, Any]:
    """A process, with its time of start: the system gives the number of a process that ended to another one."""
    return {"pid": pid, "created": begin(pid), "at": time.time()}


def begin(pid: int) -> str:
    """When a process began: on Linux in ticks of one boot, which setting the clock does not change."""
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{ticks} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    except OSError:
        return str(round(psutil.Process(pid).create_time()))


def lives(path: Path) -> bool:
    """Whether the process in a file of `process` still runs."""
    entry = read(path)
    try:
        running = psutil.Process(entry["pid"])
        return bool(begin(running.pid) == entry["created"] and running.status() != psutil.STATUS_ZOMBIE)
    except (KeyError, TypeError, ValueError, OverflowError, psutil.Error):
        return False


def status(folder: Path) -> Status:
    """What becomes of the run in a folder; `lost` if its processes ended and nobody wrote how."""
    for _ in range(2):  # it may end between the two looks
        if ended := read(folder / EXIT):
            return "cancelled" if ended.get("cancelled") else "failed" if ended.get("code") else "done"
        if lives(folder / LAUNCHER) or lives(folder / STARTED):
            if (folder / CANCEL).exists():
                return "stopping"
            return "running" if (folder / STARTED).exists() else "queued"
    return "cancelled" if (folder / CANCEL).exists() else "lost"


@contextmanager
def lock(runs: Path) -> Iterator[None]:
    """The lock under which runs start, so that never more than allowed run at the same time."""
    held = FileLock(runs / ".lock")
    try:
        held.acquire()
    except (OSError, NotImplementedError) as error:  # NFS without locks, for example
        raise bad_input(f"{held.lock_file} cannot be locked ({error}); start the page on a local disk") from None
    try:
        yield
    finally:
        held.release()


def folders(runs: Path) -> list[Path]:
    """Folders of runs, oldest first: their names begin with the time."""
    return sorted(path for path in runs.glob("[0-9]*") if (path / RECORD).exists())


def end(folder: Path, grace: float) -> None:
    """End a run's command with its group: SIGINT, upon which Inspect writes its log, then SIGTERM, then SIGKILL."""
    started = folder / STARTED
    group = read(started)["pid"]
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ProcessLookupError):
            os.killpg(group, number)
        until = time.monotonic() + grace
        while lives(started) and time.monotonic() < until:
            time.sleep(POLL)
        if not lives(started):
            break
    end_rest(group, 0.0)


def end_rest(group: int, grace: float) -> None:
    """End what is left of a process group whose leader has ended, such as workers that would go on writing."""
    until = time.monotonic() + grace
    with suppress(ProcessLookupError, PermissionError):
        if grace:
            os.killpg(group, signal.SIGTERM)
        while time.monotonic() < until:
            os.killpg(group, 0)
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)


def main(folder: Path) -> None:
    """Run the newest command of a run's record."""
    # A server that a script started in the background ignores SIGINT, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    write(folder / LAUNCHER, process(os.getpid()))
    record = read(folder / RECORD)
    if lives(folder / STARTED):  # the launcher of a cancelled run was killed, and this one ends its command
        end(folder, record["grace"])
    child = wait_for_turn(folder, record["attempts"][-1]["at"], record["at_once"], record["attempts"][-1]["command"])
    code = follow(folder, child, record["grace"]) if child else None
    if child:
        end_rest(child.pid, min(record["grace"], REST))
    ended = {"code": code, "cancelled": (folder / CANCEL).exists(), "at": time.time()}
    with suppress(FileNotFoundError):  # the folder was deleted meanwhile
        write(folder / EXIT, ended)


def wait_for_turn(folder: Path, at: float, at_once: int, command: list[str]) -> "subprocess.Popen[bytes] | None":
    """Start the command when fewer than `at_once` others run and none waits longer. None: it is not wanted any more."""
    while (folder / RECORD).exists() and not (folder / CANCEL).exists():
        with lock(folder.parent):
            if is_turn(folder, at, at_once):
                return start(folder, command)
        time.sleep(0.5)
    return None


def is_turn(folder: Path, at: float, at_once: int) -> bool:
    others = [other for other in folders(folder.parent) if other != folder and not (other / EXIT).exists()]
    states = [(other, status(other)) for other in others]
    running = sum(state in ("running", "stopping") and (other / STARTED).exists() for other, state in states)
    waiting = [read(other / RECORD).get("attempts") for other, state in states if state == "queued"]
    return running < at_once and all(at < attempts[-1]["at"] for attempts in waiting if attempts)


def start(folder: Path, command: list[str]) -> "subprocess.Popen[bytes] | None":
    """Start the command in a process group of its own, in the folder in which the runs are."""
    # Programs of this Python are found also if no environment is active.
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
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
            write(folder / EXIT, {"code": 127, "cancelled": False, "at": time.time()})  # as in a shell
            sys.exit(0)
    write(folder / STARTED, process(child.pid))
    return child


def follow(folder: Path, child: "subprocess.Popen[bytes]", grace: float) -> int:
    """Wait until the command ends; end it if that is wished."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(POLL)
        if (folder / CANCEL).exists():
            end(folder, grace)
            return child.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
