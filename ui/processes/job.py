"""A run, read from its files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from truthgym.datasets.errors import BadInput
from truthgym.ui.processes.record import EXIT, LIVE, OUTPUT, RECORD, STARTED, Status, read, status
from truthgym.ui.processes.secrets import redact

TAIL = 64 * 2**10
"""Bytes of the output that are read to show its end."""
TERMINAL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""What only a terminal understands."""
SAYS = {
    "queued": "It waits until fewer runs are in progress.",
    "running": "It is in progress, and goes on if this page or its server is closed.",
    "stopping": "It was told to end, and is given time to write its log.",
    "done": "It ended without an error.",
    "failed": "It ended with an error: see the end of its output.",
    "cancelled": "It was cancelled. What it had written is kept.",
    "lost": "Its process was killed, or the machine was restarted. What it had written is kept.",
}
"""The values of `status`."""


@dataclass(frozen=True)
class Job:
    """A run, as it was when its files were read."""

    id: str
    folder: Path
    """Where its files are: `runs/ID` in the folder in which its command runs."""
    name: str
    status: Status
    command: list[str]
    """The newest: that of an eval that was resumed is `inspect eval-retry`."""
    first_command: list[str]
    log_dir: str
    """Where its logs are written, relative to the folder in which it runs; "" if its command does not say."""
    created: datetime
    started: datetime | None
    ended: datetime | None
    code: int | None
    """Exit code of the command; negative: the number of the signal that ended it."""

    @property
    def live(self) -> bool:
        return self.status in LIVE

    @property
    def place(self) -> Path:
        """The folder in which the command runs."""
        return self.folder.parent.parent


def read_job(folder: Path) -> Job:
    """A run from its files."""
    record = read(folder / RECORD)
    try:
        attempts, name, log_dir = record["attempts"], str(record["name"]), str(record["log_dir"])
        commands = [list(map(str, attempt["command"])) for attempt in attempts]
        created = _time({"at": attempts[0]["at"]})
    except (KeyError, TypeError, IndexError, ValueError, OverflowError, OSError):
        raise BadInput(
            f"There is no run {folder.name} in {folder.parent}: its folder was deleted or damaged. Its logs are where "
            "they were; if it was in progress, it goes on, and `ps` shows it"
        ) from None
    ended, started = read(folder / EXIT), read(folder / STARTED)
    return Job(
        folder.name, folder, name, status(folder), commands[-1], commands[0], log_dir, created or datetime.now(),
        _time(started), _time(ended), ended.get("code"),
    )  # fmt: skip


def output(job: Job, lines: int = 200) -> str:
    """The end of what a run printed, without keys and what only a terminal understands."""
    try:
        with (job.folder / OUTPUT).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - TAIL, 0))
            content = file.read(TAIL).decode(errors="replace")
    except FileNotFoundError:
        return ""
    if size > TAIL:
        content = content.partition("\n")[2]  # the first line may be cut, and a key in it
    shown = [TERMINAL.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in content.split("\n")]
    return redact("\n".join(shown[-lines - 1 :]).strip("\n"), job.place)


def option(command: Sequence[str], name: str) -> str:
    """The value of a command's option; "" if it has none. Of several the last counts."""
    value = ""
    for i, word in enumerate(command):
        if word == name and i + 1 < len(command):
            value = command[i + 1]
        elif word.startswith(f"{name}="):
            value = word.partition("=")[2]
    return value


def _time(entry: dict[str, float]) -> datetime | None:
    return datetime.fromtimestamp(entry["at"]).astimezone() if "at" in entry else None
