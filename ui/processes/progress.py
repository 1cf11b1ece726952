"""How far a run is: samples done, from its logs; else the last count that it printed."""

import re
from dataclasses import dataclass
from pathlib import Path

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.evallog.discovery import LogFile, every_log
from truthgym.ui.processes.job import Job, output

COUNT = re.compile(r"(?<![\d/.-])(\d{1,9})/(\d{1,9}) \[|\[(\d{1,9})/(\d{1,9})\]")
"""A count with its total: 3/100 [ as tqdm prints it, which trainers use, and [3/12] of `truthgym sweep`."""
SETS = (["inspect", "eval-set"], ["truthgym", "sweep"])
"""Commands whose logs of earlier runs are part of the run."""


@dataclass(frozen=True)
class Progress:
    """How much of a run is done. `total` 0: nothing is known yet."""

    done: int
    total: int
    unit: str
    """"samples" or "steps"."""
    logs: tuple[LogFile, ...] = ()

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return min(self.done / self.total, 1.0) if self.total else 0.0


def progress(job: Job) -> Progress:
    """How far a run is.

    Samples are counted in the logs that it has written; Inspect writes them in groups. Of a run that makes none, the
    last count in what it printed is taken. An eval set's tasks count from when they start.
    """
    logs = logs_of(job)
    done = sum(len(log.reader) for log in logs)
    total = sum(log.header.eval.asked * (log.header.eval.config.epochs or 1) for log in logs)
    if logs:
        return Progress(done, max(total, done), "samples", logs)
    counts = COUNT.findall(output(job))
    done, total = (int(number) for number in counts[-1] if number) if counts else (0, 0)
    return Progress(done, total, "steps")


def logs_of(job: Job) -> tuple[LogFile, ...]:
    """The logs of a run, of each task the newest. Those of earlier runs in its folder count if it is an eval set."""
    if not job.log_dir:
        return ()
    folder = job.place / job.log_dir
    words = [Path(job.first_command[0]).name, *job.first_command[1:2]]
    newest: dict[str, LogFile] = {}
    for path in sorted(folder.rglob("*.eval")):
        try:
            if words not in SETS and path.stat().st_mtime < job.created.timestamp() - 1:
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
