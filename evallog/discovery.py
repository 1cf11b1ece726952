"""Which logs to read: every run once, whatever crashes, resumes, shards and copies lie in a folder."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from truthgym.evallog.errors import bad_input
from truthgym.evallog.header import Header
from truthgym.evallog.reader import LogReader, read_header
from truthgym.evallog.schema import LoggedSample

JSON_LOG = re.compile(r"^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d.*\.json$")
"""How Inspect names a log that it writes as .json. A folder may hold other .json files."""

OPEN = 16
"""Logs that are open at once."""


@dataclass(frozen=True)
class LogFile:
    """A log to read, with what its header says."""

    path: str
    header: Header
    size: int
    """Bytes; 0 where it lies elsewhere than on this machine."""

    @property
    def finished(self) -> bool:
        return self.header.status == "success"

    @property
    def solver(self) -> str:
        """The solver with its arguments, which make another one of it."""
        given = self.header.eval.solver_args or {}
        told = ", ".join(f"{name}={value}" for name, value in given.items())
        return f"{self.header.solver_name}({told})" if told else self.header.solver_name

    def facts(self) -> dict[str, str]:
        """What a card says of it."""
        run = self.header.eval
        return {"log": self.path, "sha256": self.digest(), "eval_id": run.eval_id, "task": run.task, "model": run.model}

    def digest(self) -> str:
        """SHA-256 of the file, in hex; of one that lies elsewhere, of its name and the run that it holds."""
        if not Path(self.path).is_file():
            return sha256(f"{self.path} {self.header.eval.eval_id}".encode()).hexdigest()
        read = sha256()
        with Path(self.path).open("rb") as file:
            while block := file.read(1 << 20):
                read.update(block)
        return read.hexdigest()


class Readers:
    """Readers of logs by their number, a few of them open at a time: to open one is to read its directory."""

    def __init__(self, logs: Sequence[LogFile]) -> None:
        self._logs = logs
        self._open: dict[int, LogReader] = {}

    def of(self, log: int) -> LogReader:
        """The reader of a log. It stays open until enough others were wanted since."""
        reader = self._open.pop(log, None)
        if reader is None:
            if len(self._open) >= OPEN:
                self._open.pop(next(iter(self._open))).close()
            reader = LogReader(self._logs[log].path)
        self._open[log] = reader
        return reader

    def sample(self, log: int, member: str) -> LoggedSample:
        """Read one sample by the number of its log and its name in the archive."""
        return next(sample for _, sample in self.of(log).samples([member]))

    def __enter__(self) -> "Readers":
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._open.values():
            reader.close()


def find_logs(places: Sequence[str | Path], unfinished: bool = False) -> tuple[list[LogFile], Counter[str]]:
    """Find the logs to read, those first whose samples count where several logs hold the same.

    A folder is searched through and through. The shards of a log that stands beside them are left out: it holds their
    samples. A log that did not finish is left out where it was resumed, and everywhere unless `unfinished`.

    Args:
        places: Logs (.eval, .json) and folders of logs, here or wherever Inspect can read (s3://...).
        unfinished: Whether to take what there is of runs that never finished.

    Returns:
        The logs: finished before unfinished, newest first. And how many were left out, by reason.

    Raises:
        BadInput: No such place, a file that is no log, or no log that could be used.
    """
    paths = list(dict.fromkeys(path for place in places for path in _paths(str(place))))
    if not paths:
        raise bad_input(f"There are no logs in {_named(places)}; give .eval files, or the folder that --log-dir named")
    logs = [LogFile(path, read_header(path), _size(path)) for path in paths]
    complete = {log.header.eval.task_id for log in logs if log.finished}
    left_out: Counter[str] = Counter()
    kept = []
    for log in logs:
        if log.finished or (unfinished and log.header.eval.task_id not in complete):
            kept.append(log)
        elif log.header.eval.task_id in complete:
            left_out["logs of runs that another log here completes"] += 1
        else:
            left_out["logs of runs that did not finish"] += 1
    if not kept:
        statuses = Counter(log.header.status for log in logs)
        told = ", ".join(f"{number} {status}" for status, number in statuses.items())
        raise bad_input(
            f"None of the {len(logs)} logs in {_named(places)} is of a finished run ({told}); finish it with `inspect "
            "eval-retry LOG`, or take what is there with --unfinished"
        )
    kept.sort(key=lambda log: (log.finished, log.header.completed_at, _written(log.path)), reverse=True)
    return kept, left_out


def _paths(place: str) -> Iterable[str]:
    if "://" in place:
        from inspect_ai.log import list_eval_logs

        return [log.name for log in list_eval_logs(place, recursive=True)]
    path = Path(place)
    if path.is_file():
        return [place]
    if not path.is_dir():
        raise bad_input(f"There is no {place}; give .eval files, or the folder that --log-dir named")
    found = []
    for folder, folders, files in os.walk(path):
        # A log's shards stand beside it, in a folder of its name.
        folders[:] = sorted(name for name in folders if not _is_shards(folder, name))
        found += [str(Path(folder, name)) for name in sorted(files) if name.endswith(".eval") or JSON_LOG.match(name)]
    return found


def _is_shards(folder: str, name: str) -> bool:
    return name.endswith(".shards") and Path(folder, name.removesuffix(".shards") + ".eval").is_file()


def _size(path: str) -> int:
    return Path(path).stat().st_size if Path(path).is_file() else 0


def _written(path: str) -> float:
    return Path(path).stat().st_mtime if Path(path).is_file() else 0.0


def _named(places: Sequence[str | Path]) -> str:
    return ", ".join(str(place) for place in places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
