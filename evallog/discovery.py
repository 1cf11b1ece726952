"""Finds logs, counting each run once even if the folder holds retries, shards or copies."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from glob import glob
from hashlib import sha256
from pathlib import Path

from truthgym.datasets.digests import file_digest
from truthgym.datasets.redaction import redacted
from truthgym.evallog.errors import bad_input, is_bad_input
from truthgym.evallog.header import Header
from truthgym.evallog.reader import LogReader

LogState = tuple[str, int, float]
"""Path, size in bytes and time of the last change of a log. A remote log may have 0 for what is not known."""
UNREADABLE = "files that cannot be read"
"""How the reason begins why a file of a folder is left out."""
JSON_LOG = re.compile(r"^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d.*\.json$")
"""File name of a log that Inspect writes as .json. Other .json files in a folder are skipped."""


@dataclass(frozen=True)
class LogFile:
    reader: LogReader
    size: int
    """Bytes; 0 if it is not on this machine."""
    modified: float
    """Time of its last change; 0 if it is not on this machine."""

    @property
    def path(self) -> str:
        return self.reader.path

    @property
    def header(self) -> Header:
        return self.reader.header

    @property
    def finished(self) -> bool:
        return self.header.status == "success"

    @property
    def solver(self) -> str:
        """The solver's name with its arguments but keys: other arguments make it another solver."""
        arguments = ", ".join(f"{name}={value}" for name, value in redacted(self.header.eval.solver_args or {}).items())
        return f"{self.header.solver_name}({arguments})" if arguments else self.header.solver_name

    def card_entry(self) -> dict[str, str]:
        run = self.header.eval
        return {"log": self.path, "sha256": self.digest(), "eval_id": run.eval_id, "task": run.task, "model": run.model}

    def digest(self) -> str:
        """SHA-256 of the file, in hex. For a remote log, of its path and eval id."""
        if Path(self.path).is_file():
            return file_digest(Path(self.path))
        return sha256(f"{self.path} {self.header.eval.eval_id}".encode()).hexdigest()


def find_logs(places: Sequence[str | Path], unfinished: bool = False) -> tuple[list[LogFile], Counter[str]]:
    """The logs to read, those that count first: finished and newest; and the number of those skipped, by reason.

    Shards next to their merged log are skipped, and unfinished runs, but with `unfinished` those that no log completes.
    """
    left_out = Counter[str]()
    logs = every_log(places, left_out)
    completed = {log.header.eval.task_id for log in logs if log.finished}
    why, used = {"cancelled": ": they were cancelled", "error": ": they ended in an error"}, []
    for log in logs:
        if log.finished or (unfinished and log.header.eval.task_id not in completed):
            used.append(log)
        elif log.header.eval.task_id in completed:
            left_out["logs of runs that another log here completes"] += 1
        else:
            left_out["logs of runs that did not finish" + why.get(log.header.status, "")] += 1
    if not used:
        statuses = ", ".join(f"{n} {status}" for status, n in Counter(log.header.status for log in logs).items())
        raise bad_input(
            f"None of the {len(logs)} logs in {_names(places)} is of a finished run ({statuses}); finish the run with "
            "`inspect eval-retry LOG`; `truthgym report` and `convert` use the samples so far with --unfinished"
        )
    runs: dict[str, list[LogFile]] = {}
    for log in used:
        runs.setdefault(log.header.eval.eval_id, []).append(log)
    left_out[
        "logs with the eval id of another log here but other content, of which the newest that has a sample counts"
    ] += sum(len({log.digest() for log in copies}) - 1 for copies in runs.values() if len(copies) > 1)
    used.sort(key=lambda log: (log.finished, log.header.completed_at, log.modified), reverse=True)
    return used, left_out


def every_log(places: Sequence[str | Path], unreadable: Counter[str] | None = None) -> list[LogFile]:
    """All logs, also copies and those of unfinished runs, with their headers read."""
    logs, named = [], set(map(str, places))
    for path in log_paths(places):
        try:
            logs.append(_log_file(path))
        except Exception as error:
            if unreadable is None or path in named or not is_bad_input(error):
                raise
            unreadable[f"{UNREADABLE}: {error}"] += 1
    if not logs and unreadable:
        raise bad_input("; ".join(unreadable))
    return logs


def log_paths(places: Sequence[str | Path]) -> list[str]:
    """Paths of the logs in files and folders, each once. Of a log, only the name is looked at."""
    return [path for path, *_ in log_states(places)]


def log_states(places: Sequence[str | Path]) -> list[LogState]:
    """The logs in files and folders, each once, as they are now."""
    states = {state[0]: state for place in places for state in _states(str(place))}
    if not states:
        raise bad_input(f"There are no logs in {_names(places)}; give .eval files, or the folder given as --log-dir")
    return list(states.values())


def _states(place: str) -> Iterable[LogState]:
    if not place.strip():  # such as a variable of the shell that is not set
        raise bad_input("A log or folder is named by an empty text; write its path, or . for the present folder")
    if "://" in place:
        from inspect_ai.log import list_eval_logs

        return [(log.name, log.size or 0, log.mtime or 0.0) for log in list_eval_logs(place, recursive=True)]
    # A link to nothing is a log that cannot be read.
    files = ((path, Path(path)) for path in _paths(place))
    states = ((path, file.stat() if file.exists() else file.lstat()) for path, file in files)
    return [(path, state.st_size, state.st_mtime) for path, state in states]


def _paths(place: str) -> Iterable[str]:
    path = Path(place)
    if path.is_file():
        return [place]
    if not path.is_dir():
        matches = sorted({*glob(place, recursive=True)} - {place})  # noqa: PTH207  # Path.glob takes no whole pattern
        if not matches:
            raise bad_input(f"There is no file or folder {place}; give .eval files, or the folder given as --log-dir")
        return [found for match in matches for found in _paths(match)]
    paths = []
    for folder, folders, files in os.walk(path):
        # without the shards of a merged log, which is next to their folder under the same name
        folders[:] = sorted(
            name for name in folders
            if not (name.endswith(".shards") and Path(folder, name.removesuffix(".shards") + ".eval").is_file())
        )  # fmt: skip
        paths += [str(Path(folder, name)) for name in sorted(files) if name.endswith(".eval") or JSON_LOG.match(name)]
    return paths


def _log_file(path: str) -> LogFile:
    try:
        reader = LogReader(path)
    except OSError as error:
        raise bad_input(f"{path} cannot be read ({error.strerror}); check its permissions and its disk") from None
    file = Path(path).stat() if Path(path).is_file() else None
    return LogFile(reader, file.st_size if file else 0, file.st_mtime if file else 0.0)


def _names(places: Sequence[str | Path]) -> str:
    return ", ".join(str(place) for place in places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
