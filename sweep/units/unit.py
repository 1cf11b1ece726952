"""A unit of a sweep: a task or a shard of one, and how it is run until its log is complete."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truthgym.datasets.redaction import redact

ATTEMPTS = 3
"""Attempts at a unit before it is reported as failed and the rest goes on."""
SELECTION_VERSION, CAPTURE_VERSION = 7, 3
"""Versions of Inspect's files that this package writes and reads."""
TAIL = 600
"""Characters of a failed process's output that an error quotes."""


@dataclass(frozen=True)
class Unit:
    """One task of an eval set with one model, or one shard of its questions, in plain values for another machine."""

    name: str
    """Task and model, for people."""
    samples: int
    """Questions times epochs."""
    command: list[str]
    """The script with its arguments, or `inspect eval-set ...`."""
    folder: str
    """Where the command runs: a task's file is part of its identity."""
    call: int
    """The call of `eval_set` in the script that has the task, from 1."""
    earlier: list[list[str]]
    """The logs of each earlier call."""
    selection: dict[str, Any]
    """What Inspect reads from INSPECT_EVAL_SET_SELECTION. Empty if the command is run as it is."""
    state: str
    """Folder and start of the names of the unit's own files."""
    search: bool = False
    """Whether there may be a log of an earlier attempt."""
    may_fail: int = 0
    """Samples that may end with an error, by the script's `fail_on_error`."""


@dataclass(frozen=True)
class Outcome:
    unit: Unit
    log: str = ""
    """The complete log, if there is one."""
    error: str = ""
    seconds: float = 0.0
    """From its start on a worker to its end."""


def run_here(units: Sequence[Unit], workers: int) -> Iterator[Outcome]:
    """Run units as processes of this machine, and yield each as it ends. A unit's process ends with this one."""
    pool = ThreadPoolExecutor(workers)
    try:
        yield from (future.result() for future in as_completed([pool.submit(run_unit, unit) for unit in units]))
    finally:
        STOPPED.set()
        pool.shutdown(cancel_futures=True)
        STOPPED.clear()


def run_unit(unit: Unit) -> Outcome:
    """Run a unit, again from its finished samples if its process fails; its complete log or the last error."""
    start = time.time()
    private(Path(unit.state).parent)
    log, error = "", "the sweep was stopped"
    # Its process holds this lock, so that no two run a unit at once, even where a worker is gone and its process not.
    again = Path(f"{unit.state}.lock").exists()  # a job that Slurm requeued, or a worker that was lost
    for attempt in range(ATTEMPTS):
        if STOPPED.is_set():
            break
        log, error = attempt_unit(unit, search=unit.search or again or attempt > 0)
        if not error:
            break
    return Outcome(unit, "" if error else log, error, time.time() - start)


def attempt_unit(unit: Unit, search: bool) -> tuple[str, str]:
    """Run a unit once. Returns its log, and why that is not complete."""
    printed, lock = f"{unit.state}.txt", f"{unit.state}.lock"
    if not unit.selection:
        Path(printed).unlink(missing_ok=True)
        process = start_script(unit, {"mode": "command", "lock": lock, "printed": printed})
        process.communicate()
        return "", failure(process.returncode, printed) if process.returncode else ""
    job = {"selection": unit.selection, "samples": unit.samples, "search": search, "selected": f"{unit.state}.json"}
    ended = process_of(unit).answer({**job, "lock": lock, "printed": printed})
    log = ended.get("log", "")
    if ended["error"] or ended["status"] != "success":
        return log, str(ended["error"])[-TAIL:] or f"{log} has the status {ended['status']}"
    missing = unit.samples - ended["completed"]
    if missing <= unit.may_fail:
        return log, ""
    return log, f"{missing} of {unit.samples} samples in {log} ended with an error"


def private(folder: Path) -> None:
    """Make a folder that only this user reads: a sweep's files hold the command line, which may name keys."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)


class Process:
    """A process that runs units of one call of `eval_set` one after another: its imports cost more than most units."""

    def __init__(self, unit: Unit, **settings: str) -> None:
        self.printed = f"{unit.state}.start.txt"
        self.process = start_script(unit, {"mode": "units", "printed": self.printed, **settings})

    def answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """How a job ended. `error` says so if the process died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            ended: dict[str, Any] = json.loads(line)
            return ended
        self.process.wait()
        return {"error": failure(self.process.returncode, job.get("printed", ""), self.printed)}

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def __del__(self) -> None:
        if hasattr(self, "process"):  # it was started
            self.end()

    def end(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()  # it reads to the end, and ends
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=10)


STOPPED = threading.Event()
"""Set when the sweep ends early: no unit of this process is tried again."""
HERE = threading.local()
"""The process that runs the units of this thread."""


def process_of(unit: Unit) -> Process:
    """The process of this thread that runs units of the same call of the same script; a new one if it died."""
    wanted = (unit.command, unit.folder, unit.call)
    if getattr(HERE, "wanted", None) != wanted or not HERE.process.alive:
        HERE.wanted, HERE.process = wanted, Process(unit)
    process: Process = HERE.process
    return process


def start_script(unit: Unit, settings: Mapping[str, Any]) -> "subprocess.Popen[str]":
    """Start a process of `child`, which ends with this one."""
    settings = {"call": unit.call, "earlier": unit.earlier, "command": unit.command, "parent": os.getpid(), **settings}
    path = f"{unit.state}.settings"
    Path(path).write_text(json.dumps(settings), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "truthgym.sweep.units.child", path], cwd=unit.folder, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env=os.environ | {"INSPECT_DISPLAY": "none"},
    )  # fmt: skip


def failure(code: int, *printed: str) -> str:
    """The exit status with the end of what a process printed."""
    for path in printed:
        with suppress(OSError):
            if text := Path(path).read_text(encoding="utf-8", errors="replace").strip():
                return f"exit status {code}: {redact(text[-TAIL:])}"
    return f"exit status {code}"
