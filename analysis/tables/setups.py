"""The runs of a folder of logs: which model answered which questions in which setting, as the logs themselves say."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

from truthgym.evallog.discovery import LogFile, find_logs, log_paths
from truthgym.evallog.header import ScorerResults
from truthgym.tasks.paradigms import PARADIGMS

Places = str | Path | Sequence[str | Path]
"""Logs and folders of logs."""
DEFAULT = "direct"
"""The solver of a task that names none."""
UNNAMED = ("paradigms", "metric", "figures", "n", "sha256")
"""Task arguments that do not change what is asked, or have a column of their own."""


@dataclass(frozen=True, eq=False)
class Run:
    """A finished eval, with the setup in which its model answered."""

    log: LogFile
    model: str
    """With its arguments."""
    domain: str
    task: str
    """The task arguments that differ between the evals of a domain."""
    mode: str
    """`mode` in the task's metadata (as in examples/sweep.py), or else the solver with its arguments."""

    @property
    def setup(self) -> str:
        """Domain, task and mode in one text."""
        return f"{self.domain}{f' {self.task}' if self.task else ''}, {self.mode}"

    @property
    def columns(self) -> dict[str, str]:
        """The columns that the tables have for every row of a run."""
        header = self.log.header.eval
        return {
            "log": self.log.path,
            "eval_id": header.eval_id,
            "created": header.created,
            "model": self.model,
            "domain": self.domain,
            "task": self.task,
            "mode": self.mode,
            "setup": self.setup,
        }

    @cached_property
    def scorers(self) -> dict[str, str]:
        """From the names of scores in the log to `scorer_label`."""
        results = self.log.header.results
        labels: dict[str, str] = {}
        for found in results.scores if results else []:
            # Inspect's own metrics of a dict have a result for each key, under the key's name.
            for name in (found.name, bare_name(found.scorer)):
                labels.setdefault(name, scorer_label(found))
        return labels


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs found, each once, and why others are left out."""

    places: tuple[str, ...]
    runs: tuple[Run, ...]
    """Newest first."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of logs left out, by reason."""

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def place(self) -> str:
        """The places in one text, for errors."""
        return ", ".join(self.places)

    def tracked(self) -> Iterable[Run]:
        """The runs, with progress on the terminal while their samples are read."""
        from rich.console import Console
        from rich.progress import track

        quiet = not sys.stderr.isatty()
        return track(self.runs, "Reading logs", console=Console(stderr=True), transient=True, disable=quiet)


def runs(logs: Places) -> Runs:
    """Find the finished evals, reading only the logs' headers. A copied log counts once.

    The same unchanged files are read once in a process.

    Args:
        logs: Logs and folders of logs, local or remote.

    Raises:
        BadInput: A place does not exist, a file is not a log, or no log is of a finished eval.
    """
    places = tuple(map(str, [logs] if isinstance(logs, str | Path) else logs))
    if any("://" in place for place in places):
        return _find.__wrapped__(places, ())
    files = ((path, Path(path).stat()) for path in log_paths(places))
    return _find(places, tuple((path, file.st_size, file.st_mtime_ns) for path, file in files))


@lru_cache(maxsize=4)
def _find(places: tuple[str, ...], files: tuple[tuple[str, int, int], ...]) -> Runs:
    """The runs of files in a certain state, which is the key of the cache."""
    found, left_out = find_logs(places)
    logs = {log.header.eval.eval_id: log for log in reversed(found)}  # the newest copy of each
    return Runs(places, with_setups(logs.values()), {reason: number for reason, number in left_out.items() if number})


def with_setups(logs: Collection[LogFile]) -> tuple[Run, ...]:
    """The runs of logs, newest first. Of copies the one that counts is first."""
    differing = _differing(logs)
    every = [
        Run(
            log,
            model=" ".join([log.header.eval.model, *options(log.header.eval.model_args)]),
            domain=log.header.eval.task.removeprefix("truthgym/"),
            task=" ".join(options({name: log.header.eval.task_args.get(name) for name in sorted(differing[task])})),
            mode=_mode(log),
        )
        for log in logs
        for task in [log.header.eval.task]
    ]
    every.sort(key=_newest, reverse=True)
    return tuple(every)


def scorer_label(found: ScorerResults) -> str:
    """A scorer's name with the options that differ from its defaults."""
    paradigm = PARADIGMS.get(bare_name(found.scorer))
    defaults = signature(paradigm.scorer).parameters if paradigm else {}
    changed = {
        name: value
        for name, value in found.params.items()
        if name != "figures" and (name not in defaults or value != defaults[name].default)
    }
    return " ".join([bare_name(found.scorer), *options(changed)])


def options(given: Mapping[str, Any]) -> list[str]:
    """Arguments as they are written on a command line, without those that name a place on one machine."""
    return [
        f"{name}={value}"
        for name, value in given.items()
        if value is not None and not (isinstance(value, str) and Path(value).is_absolute()) and name != "model_path"
    ]


def bare_name(name: str) -> str:
    """The name of a scorer or solver without its package and options, and that of a paradigm without a number.

    `inspect score --action append` numbers the passes of a scorer.
    """
    short = name.partition(" ")[0].rpartition("/")[2]
    unnumbered = short.rstrip("0123456789")
    return unnumbered if unnumbered in PARADIGMS else short


def _differing(logs: Iterable[LogFile]) -> dict[str, set[str]]:
    """The task arguments that differ between the evals of a task, and the domain that a task takes."""
    values: dict[str, dict[str, set[str]]] = {}
    for log in logs:
        arguments = values.setdefault(log.header.eval.task, {})
        for name, value in log.header.eval.task_args.items():
            arguments.setdefault(name, set()).add(str(value))
    return {
        task: {name for name, some in names.items() if name not in UNNAMED and (len(some) > 1 or name == "domain")}
        for task, names in values.items()
    }


def _newest(run: Run) -> tuple[str, str, bool, str, float]:
    header = run.log.header
    return header.eval.created, header.eval.eval_id, run.log.finished, header.completed_at, run.log.modified


def _mode(log: LogFile) -> str:
    metadata, steps = log.header.eval.metadata or {}, log.header.plan.steps
    if "mode" in metadata or not steps:
        return str(metadata.get("mode", DEFAULT))
    return " ".join([bare_name(steps[-1].solver), *options(steps[-1].params_passed or {})])
