"""What is on disk of a run, and whether its processes live. Loads nothing heavy: the process of each run imports it."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import psutil
from filelock import FileLock

Status = Literal["queued", "running", "stopping", "done", "failed", "cancelled", "lost"]
LIVE: tuple[Status, ...] = ("queued", "running", "stopping")
"""Of these, a process lives."""
RECORD, OUTPUT, EXIT = "command.json", "output.txt", "exit.json"
LAUNCHER, STARTED, CANCEL = "launcher.json", "started.json", "cancel"
"""Files of a run: the launcher's process; the command's process, once it is its turn; the wish that it should end."""


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file at once, so that no reader sees half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)


def read(path: Path) -> dict[str, Any]:
    """A JSON file of `write`; {} if it is not there or is damaged."""
    with suppress(OSError, ValueError):
        content = json.loads(path.read_text(encoding="utf-8"))
        return content if isinstance(content, dict) else {}
    return {}


def process(pid: int) -> dict[str, Any]:
    """A process, with its time of start: the system gives the number of a process that ended to another one."""
    return {"pid": pid, "created": begin(pid), "at": time.time()}


def begin(pid: int) -> str:
    """When a process began, so that no later one of the same number is taken for it.

    On Linux in ticks of one boot of the machine, which setting the clock does not change.
    """
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{ticks} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    except OSError:
        return str(round(psutil.Process(pid).create_time()))


def lives(path: Path) -> bool:
    """Whether the process in a file of `process` still runs."""
    found = read(path)
    try:
        one = psutil.Process(found["pid"])
        return bool(begin(one.pid) == found["created"] and one.status() != psutil.STATUS_ZOMBIE)
    except (KeyError, TypeError, ValueError, psutil.Error):
        return False


def status(folder: Path) -> Status:
    """What becomes of the run in a folder, from its files and processes.

    `lost`: its processes ended, or the machine was restarted, and nobody wrote how.
    """
    for _ in range(2):  # it may end between the two looks
        if ended := read(folder / EXIT):
            return "cancelled" if ended.get("cancelled") else "failed" if ended.get("code") else "done"
        if lives(folder / LAUNCHER) or lives(folder / STARTED):
            if (folder / CANCEL).exists():
                return "stopping"
            return "running" if (folder / STARTED).exists() else "queued"
    return "cancelled" if (folder / CANCEL).exists() else "lost"


def lock(runs: Path) -> FileLock:
    """The lock under which runs start, so that never more than allowed run at the same time."""
    return FileLock(runs / ".lock")


def folders(runs: Path) -> list[Path]:
    """Folders of runs, oldest first: their names begin with the time."""
    return sorted(path for path in runs.glob("[0-9]*") if (path / RECORD).exists())


def end(group: int, grace: float, wait: Callable[[float], bool]) -> None:
    """End a process group: SIGINT, upon which Inspect writes its log, then SIGTERM, then SIGKILL."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ProcessLookupError):
            os.killpg(group, number)
        if wait(grace):
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
