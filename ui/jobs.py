"""Runs of commands that go on when the page or its server is closed, and are found again: all is on disk.

A run is a folder `runs/ID` with its command, the ids and start times of its processes, what it printed and how it
ended. Each has a launcher (`processes/launcher.py`) that waits until it is the run's turn.
"""

import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from secrets import token_hex

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import PrerequisiteError, SampleBufferDatabase
from truthgym.datasets.redaction import is_secret, redact
from truthgym.evallog.discovery import LogFile, every_log
from truthgym.ui.processes import launcher
from truthgym.ui.processes.launcher import CANCEL, EXIT, LAUNCHER, OUTPUT, RECORD, STARTED, Status, lock, read, write

RUNS = "runs"
"""Folder of the runs in the folder in which the page was started."""
AT_ONCE = 2
"""Runs at the same time; others wait."""
GRACE = 30.0
"""Seconds that a run has to end after SIGINT, and again after SIGTERM."""
ID = re.compile(r"\d{8}-\d{6}-[\w.-]{1,60}-[0-9a-f]{6}")
COUNT = re.compile(r"(?<![\d/.-])(\d{1,9})/(\d{1,9}) \[|\[(\d{1,9})/(\d{1,9})\]")
"""A count with its total: 3/100 [ as tqdm prints it, which trainers use, and [3/12] of `truthgym sweep`."""
SETS = (["inspect", "eval-set"], ["truthgym", "sweep"])
"""Commands whose logs of earlier runs are part of the run."""
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
RESUMES = {
    "inspect eval": "It runs the same command again: there is no log yet to go on from.",
    "inspect eval-set": "The same command: it goes on from its logs, and runs only the samples that have not ended.",
    "inspect score": "It scores again from the beginning.",
    "truthgym sweep": "The same command: it goes on from the samples that were written.",
    "truthgym train": "The same command: it goes on from the last complete checkpoint.",
    "truthgym loop": "The same command: complete stages are skipped, and training goes on from its last checkpoint.",
    "truthgym convert": "The same command: it converts again. A dataset is written completely or not at all.",
    "truthgym report": "The same command: it writes the report again.",
}
"""What the same command does when it is run again, by its first two words."""


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
        return self.status in launcher.LIVE

    @property
    def words(self) -> list[str]:
        """The first two words of its command, such as "inspect eval", without the program's folder."""
        return [Path(self.first_command[0]).name, *self.first_command[1:2]]

    @property
    def place(self) -> Path:
        """The folder in which the command runs."""
        return self.folder.parent.parent


def read_job(folder: Path) -> Job:
    record = read(folder / RECORD)
    try:
        attempts, name, log_dir = record["attempts"], str(record["name"]), str(record["log_dir"])
        commands = [list(map(str, attempt["command"])) for attempt in attempts]
        created = _time(attempts[0]["at"])
        started, ended = (_time(entry["at"]) if (entry := read(folder / file)) else None for file in (STARTED, EXIT))
        place = folder.parent.parent
        if not all(commands) or not (place / log_dir).resolve().is_relative_to(place):
            raise ValueError(log_dir)
    except (KeyError, TypeError, IndexError, ValueError, OverflowError, OSError):
        raise BadInput(
            f"There is no run {folder.name} in {folder.parent}: its folder was deleted or damaged. Its logs are where "
            "they were; if it was in progress, it goes on, and `ps` shows it"
        ) from None
    now, code = launcher.status(folder), read(folder / EXIT).get("code")
    return Job(folder.name, folder, name, now, commands[-1], commands[0], log_dir, created, started, ended, code)


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
    plain = [TERMINAL.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in content.split("\n")]
    return redact("\n".join(plain[-lines - 1 :]).strip("\n"), job.place)


def option(command: Sequence[str], name: str) -> str:
    """The value of a command's option; "" if it has none. Of several the last counts."""
    words = [part for word in command for part in (word.split("=", 1) if word.startswith(f"{name}=") else [word])]
    return dict(pairwise(words)).get(name, "")


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds).astimezone()


@dataclass(frozen=True)
class Progress:
    """How much of a run is done. `total` 0: nothing is known yet."""

    done: int
    total: int
    unit: str
    """"samples" or "steps"."""
    logs: tuple[LogFile, ...] = ()
    begun: int = 0
    """Samples that have begun and not ended."""


def progress(job: Job) -> Progress:
    """How far a run is: by the samples in its logs and Inspect's buffer, or else by the last count that it printed."""
    if logs := logs_of(job):
        waiting = [ended for log in logs if not log.finished for ended in buffered(log.path)]
        total = sum(log.header.eval.asked * (log.header.eval.config.epochs or 1) for log in logs)
        written = sum(len(log.reader) for log in logs)
        done = written + sum(waiting)
        most = max(total, written)
        return Progress(min(done, most), most, "samples", logs, len(waiting) - sum(waiting))
    counts = COUNT.findall(output(job))
    done, total = (int(number) for number in counts[-1] if number) if counts else (0, 0)
    return Progress(done, total, "steps")


def buffered(log: str) -> list[bool]:
    """Of each sample that is not yet in a log, whether it has ended."""
    with suppress(OSError, ValueError, sqlite3.Error):  # none; or Inspect removes it at this moment
        database = SampleBufferDatabase(log, create=False, read_only=True)
        try:
            samples = database.get_samples()
        finally:
            database.close()
        return [bool(sample.completed) for sample in getattr(samples, "samples", ())]
    return []


def logs_of(job: Job) -> tuple[LogFile, ...]:
    """The logs of a run, of each task the newest. Those of earlier runs in its folder count if it is an eval set."""
    if not job.log_dir:
        return ()
    folder = job.place / job.log_dir
    newest: dict[str, LogFile] = {}
    for path in sorted(folder.rglob("*.eval")):
        try:
            if job.words not in SETS and path.stat().st_mtime < job.created.timestamp() - 1:
                continue
            (log,) = every_log([path])
        except (BadInput, PrerequisiteError, OSError):
            continue  # it is being written
        newest[log.header.eval.task_id or log.header.eval.eval_id] = log  # file names begin with the time
    return tuple(newest.values())


def unfinished_logs(job: Job) -> list[str]:
    """The logs of a run that did not end well, by their paths in the folder in which it runs."""
    logs = (log for log in logs_of(job) if not log.finished)
    return [str(Path(log.path).relative_to(job.place)) for log in logs]


def start(
    folder: Path, command: Sequence[str], name: str, log_dir: str = "", at_once: int = AT_ONCE, grace: float = GRACE
) -> Job:
    """Start a command's words, through no shell, or have it wait until fewer than `at_once` runs are in progress."""
    log_dir = log_dir or option(command, "--log-dir")
    runs = folder.resolve() / RUNS
    runs.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.")[:60] or "run"
    new = runs / f"{datetime.now():%Y%m%d-%H%M%S}-{slug}-{token_hex(3)}"
    record = {"name": name, "log_dir": log_dir, "at_once": at_once, "grace": grace}
    with lock(runs):
        check(folder, command, log_dir)
        new.mkdir(mode=0o700)  # what a command prints may hold keys
        write(new / RECORD, record | {"attempts": [{"command": list(command), "at": time.time()}]})
        launch(new)
    return read_job(new)


def check(folder: Path, command: Sequence[str], log_dir: str = "") -> None:
    """Refuse what `start` refuses, and start nothing."""
    refuse_keys(command, folder)
    refuse_shared(folder.resolve(), command, log_dir)


def refuse_keys(command: Sequence[str], folder: Path) -> None:
    """Refuse a command with a key in it, since commands are written to files."""
    for before, word in pairwise(["", *command]):
        name, equals, value = word.partition("=")
        if not equals:
            name, value = (before if before.startswith("--") else ""), word
        named = is_secret(name.strip("-")) and value and not value.isdigit()
        if named or redact(word, folder) != word:
            raise BadInput(
                f"The command has a key in it{f', {name}' if named else ''}, which would be written to a file; leave "
                "it out, and set the environment variable of the model's provider before the page starts"
            )


def refuse_shared(folder: Path, command: Sequence[str], log_dir: str) -> None:
    """Refuse a run that would write where a run in progress writes."""
    mine = outputs(folder, command, log_dir)
    for other in jobs(folder):
        if other.live and (shared := mine & outputs(folder, other.command, other.log_dir)):
            raise BadInput(
                f"The run {other.id} is in progress and writes to {min(shared)} too; wait for it, cancel it, or give "
                "this run another folder"
            )


def outputs(folder: Path, command: Sequence[str], log_dir: str) -> set[Path]:
    named = {log_dir, *(option(command, name) for name in ("--log-dir", "--out", "--output_dir", "--output-dir"))}
    return {(folder / place).resolve() for place in named if place}


def jobs(folder: Path) -> list[Job]:
    """The runs of a folder, newest first. One whose record is damaged is left out."""
    listed = []
    for run_folder in reversed(launcher.folders(folder.resolve() / RUNS)):
        with suppress(BadInput):
            listed.append(read_job(run_folder))
    return listed


def find(folder: Path, run: str) -> Job:
    if not ID.fullmatch(run):
        raise BadInput(f"{run!r} is no id of a run; choose one in the list of runs")
    return read_job(folder.resolve() / RUNS / run)


def cancel(job: Job) -> None:
    """End a run: SIGINT, upon which Inspect writes its log; SIGTERM and SIGKILL if it does not end in time."""
    if not job.live:
        return
    (job.folder / CANCEL).touch()
    with lock(job.folder.parent):
        of_command = launcher.lives(job.folder / STARTED)
        if of_command and not launcher.lives(job.folder / LAUNCHER):  # it was killed, and the command went on
            launch(job.folder)


def resume(job: Job) -> Job:
    """Go on with a run that was cancelled, failed or was lost, in its folder, with the command of `next_command`."""
    command, _ = next_command(job)
    with lock(job.folder.parent):
        now = read_job(job.folder)
        if now.live:
            raise BadInput(f"The run {job.id} is {now.status}; cancel it first, or let it end")
        refuse_shared(job.place, command, job.log_dir)
        record = read(job.folder / RECORD)
        record["attempts"].append({"command": command, "at": time.time()})
        write(job.folder / RECORD, record)
        for name in (LAUNCHER, STARTED, CANCEL, EXIT):
            (job.folder / name).unlink(missing_ok=True)
        launch(job.folder)
    return read_job(job.folder)


def next_command(job: Job) -> tuple[list[str], str]:
    """The command that resumes a run, and what it does."""
    if job.words == ["inspect", "eval"] and (logs := unfinished_logs(job)):
        to = ["--log-dir", job.log_dir] if job.log_dir else []
        return ["inspect", "eval-retry", *logs, *to], "It runs the samples that have not ended, in a new log."
    return job.first_command, RESUMES.get(
        " ".join(job.words), "It runs the same command again, from its beginning unless the command itself resumes."
    )


def launch(folder: Path) -> None:
    """Start the launcher of a run in a session of its own."""
    with (folder / OUTPUT).open("ab") as printed:
        child = subprocess.Popen(
            [sys.executable, "-m", "truthgym.ui.processes.launcher", str(folder)],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, start_new_session=True,
        )  # fmt: skip
    write(folder / LAUNCHER, launcher.process(child.pid))  # it writes the same; until then it is known by this
    threading.Thread(target=child.wait, daemon=True).start()  # no zombie stays
