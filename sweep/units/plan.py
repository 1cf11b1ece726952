"""Lists the units of a script's next eval set, and what of it is done."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from typing import Any

import fsspec

from truthgym.datasets.errors import BadInput
from truthgym.sweep.units.child import completed_samples
from truthgym.sweep.units.unit import CAPTURE_VERSION, SELECTION_VERSION, SHOWN, Process, Unit, private

CONNECTIONS = 100
"""Connections to a provider that one process of Inspect opens at most if nothing else is said."""
LOG_BUFFER = 5
"""Finished samples that wait before they are written. Those that only a lost machine had are run again."""
SHARD_SAMPLES = 2
"""Fewest questions in a shard."""


@dataclass(frozen=True)
class Shards:
    """A task that runs in several units, and the log into which they are merged."""

    out: str
    units: list[Unit]
    questions: list[tuple[Any, Any]]
    """Id and event of each question."""
    script: dict[str, Any]
    """What the script says where the units had their part of it, or another value."""


@dataclass(frozen=True)
class Captured:
    """What a script's call of `eval_set` would run."""

    log_dir: str
    earlier: list[list[str]]
    """The logs of the calls before."""
    manifest: dict[str, Any]
    """Inspect's own list of the tasks."""
    more: dict[str, Any]
    """What a sweep needs to know besides."""


@dataclass
class Plan:
    """The units of one call of `eval_set`."""

    log_dir: str
    eval_set_id: str
    units: list[Unit] = field(default_factory=list)
    """What is left to run."""
    shards: list[Shards] = field(default_factory=list)
    """What is merged after it."""
    done: int = 0
    """Tasks whose logs were complete before."""
    most: int = CONNECTIONS
    """Workers that the script's limits leave busy: connections to a provider, sandboxes, subprocesses."""


class Script:
    """The process that runs the script, from one call of `eval_set` to the next.

    At a call it lists what the call would run, and waits. When it goes on, the call finds its logs and returns.

    Args:
        command: The script with its arguments, or `inspect eval-set ...`.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = " ".join(command)
        self.call = 0
        self.folder = TemporaryDirectory(prefix="truthgym-sweep-")
        state = str(Path(self.folder.name, "script"))
        unit = Unit(self.command, "", 0, list(command), str(Path.cwd()), 0, [], {}, state)
        self.process = Process(unit, mode="script", manifest=f"{state}.tasks")

    def next_call(self) -> Captured | None:
        """Run the script up to its next call of `eval_set`, for which nothing is asked of a model."""
        answer = self.process.answer({})
        if "manifest" in answer:
            self.call += 1
            check_protocol(answer["manifest"]["version"])
            return Captured(
                answer["manifest"]["options"]["log_dir"], answer["earlier"], answer["manifest"], answer["more"]
            )
        printed = Path(self.process.printed).read_text(encoding="utf-8", errors="replace")
        if self.call:
            print(printed, end="")
        if self.process.process.returncode:
            place = f"after call {self.call} of eval_set was complete" if self.call else "before it called eval_set"
            raise BadInput(f"{self.command} failed {place} ({answer['error']})")
        if not self.call:
            raise BadInput(
                f"{self.command} never calls eval_set(), which a sweep divides among workers. Call it instead of "
                f"eval(). It printed: {printed[-SHOWN:] or 'nothing'}"
            )
        return None

    def merge(self, shards: Shards, logs: Mapping[str, str]) -> None:
        """Merge a task's shards, whose logs are given by unit. The process has registered the scorers."""
        shard_logs = [logs[unit.state] for unit in shards.units]
        job = {"merge": shard_logs, "out": shards.out, "questions": shards.questions, "script": shards.script}
        failed = self.process.answer(job)["error"]
        if failed:
            raise BadInput(f"The shards of {shards.out} could not be merged: {failed}")

    def __enter__(self) -> "Script":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.end()
        self.folder.cleanup()


def plan(command: Sequence[str], call: int, captured: Captured, shards: int, workers: int,
         max_connections: int | None) -> Plan:  # fmt: skip
    """List what is left of a call of `eval_set` as units. No other sweep may do so in its folder meanwhile."""
    log_dir, script = captured.log_dir, captured.manifest["options"]
    if shards > 1 and (script.get("limit") or script.get("sample_id") or "://" in log_dir):
        raise BadInput(
            f"--shards divides whole tasks with logs on a disk; {' '.join(command)} selects questions by limit or "
            f"sample_id, or writes to {log_dir}. Give the tasks their own number of questions (-T n=...) and a folder"
        )
    todo = Plan(log_dir, eval_set_id(log_dir, captured.manifest.get("eval_set_id")))
    machine = {"max_sandboxes": script.get("max_sandboxes"), "max_subprocesses": captured.more["max_subprocesses"]}
    machine = {name: limit for name, limit in machine.items() if limit}
    existing = logs_by_task(log_dir)
    names = {task["name"].lower() for task in captured.manifest["tasks"]}
    for task, more in zip(captured.manifest["tasks"], captured.more["tasks"], strict=True):
        logs = existing.get(task["identifier"], [])
        due = task["samples"] * task["epochs"]
        may_fail = accepted(script.get("fail_on_error"), due)
        if any(completed is not None and completed >= due - may_fail for completed in logs):
            todo.done += 1
            continue
        limits = [max_connections, more["max_connections"], *machine.values()]
        todo.most = min([todo.most, *(limit for limit in limits if limit)])
        options = {"log_dir": log_dir, "log_buffer": LOG_BUFFER,
                   "generate_config": connections(max_connections, more["max_connections"], workers),
                   **{name: max(1, limit // workers) for name, limit in machine.items()}}  # fmt: skip
        selected = {key: task.get(key) for key in ("identifier", "registry_name", "args_hash")}
        selection = {"version": SELECTION_VERSION, "eval_set_id": todo.eval_set_id, "tasks": [selected]}
        state = str(Path(state_folder(log_dir), sha256(task["identifier"].encode()).hexdigest()[:16]))
        unit = Unit(f"{task['name']}, {task['model']}", task["model"], due, list(command), str(Path.cwd()), call,
                    captured.earlier, selection | {"overrides": options}, state, bool(logs), may_fail,
                    more["roles"])  # fmt: skip
        whole = bool(logs) or more["stops_early"]  # by what it saw of all questions
        divided = None if whole else divide(unit, task, more["samples"], shards, names, more["script"])
        if divided is None:
            todo.units.append(unit)
            continue
        todo.shards.append(divided)
        todo.units += divided.units
    return todo


def divide(unit: Unit, task: dict[str, Any], questions: list[list[Any]], shards: int, names: Collection[str] = (),
           script: dict[str, Any] | None = None) -> Shards | None:  # fmt: skip
    """Divide a task's questions into shards; None if it stays whole.

    Questions of one event stay together, so that no shard is correlated with another, and so do the epochs of a
    question. An interrupted sweep keeps its division: it stands in a file next to the units' files. Of an id that
    begins with a task's name (`names`) and a colon, Inspect would drop that beginning.
    """
    record = Path(f"{unit.state}.shards")
    if not record.exists():
        events: dict[str, list[Any]] = {}
        for identity, event in questions:
            events.setdefault(f"event {event}" if event is not None else f"id {identity}", []).append(identity)
        count = min(shards, len(events), len(questions) // SHARD_SAMPLES)
        if count < 2:
            return None
        special = next((one for one, _ in questions if ":" in str(one) and one.split(":")[0].lower() in names), None)
        if special is not None:
            raise BadInput(
                f"{task['name']} has a question with the id {special}, of which Inspect would read the beginning as "
                "the name of a task; leave out --shards, or name the questions otherwise"
            )
        parts: list[list[Any]] = [[] for _ in range(count)]
        for ids in sorted(events.values(), key=len, reverse=True):
            min(parts, key=len).extend(ids)
        created = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-00-00")
        name = "".join(letter if letter.isalnum() else "-" for letter in task["name"].split("/")[-1])
        out = f"{unit.selection['overrides']['log_dir']}/{created}_{name}_{Path(unit.state).name}.eval"
        private(record.parent)
        record.write_text(json.dumps({"out": out, "parts": parts}), encoding="utf-8")
    divided = json.loads(record.read_text(encoding="utf-8"))
    if {*sum(divided["parts"], [])} != {identity for identity, _ in questions}:  # noqa: RUF017  # few parts
        raise BadInput(
            f"{task['name']} has other questions than when its sweep began; remove {record} and "
            f"{divided['out'].removesuffix('.eval')}.shards to begin anew, or change the script back"
        )
    epochs = task["epochs"]
    units = []
    for number, ids in enumerate(divided["parts"]):
        log_dir = f"{divided['out'].removesuffix('.eval')}.shards/{number}"
        overrides = unit.selection["overrides"] | {"log_dir": log_dir, "sample_id": ids, "log_format": "eval"}
        units.append(
            replace(unit, name=f"{unit.name}, shard {number + 1} of {len(divided['parts'])}", search=True,
                    samples=len(ids) * epochs, may_fail=unit.may_fail * len(ids) // len(questions),
                    selection=unit.selection | {"overrides": overrides},
                    state=f"{unit.state}-{number}")
        )  # fmt: skip
    return Shards(divided["out"], units, [(identity, event) for identity, event in questions], script or {})


def connections(allowed: int | None, script: int | None, workers: int) -> dict[str, Any]:
    """A unit's part of the connections that one process would open, so that all units together open no more."""
    total = min((limit for limit in (allowed, script) if limit), default=None)
    if total is not None:
        return {"max_connections": max(1, total // workers)}
    most = max(1, CONNECTIONS // workers)
    return {"adaptive_connections": {"min": 1, "start": min(20, most), "max": most}}


def check_protocol(captured: int) -> None:
    """Refuse a version of Inspect whose files are not those that this package reads and writes."""
    from truthgym.datasets.inspect_private import EVAL_SET_SELECTION_VERSION

    if (captured, EVAL_SET_SELECTION_VERSION) != (CAPTURE_VERSION, SELECTION_VERSION):
        raise BadInput(
            f"Inspect {version('inspect-ai')} lists an eval set's tasks in version {captured} and selects one in "
            f"version {EVAL_SET_SELECTION_VERSION}; a sweep knows versions {CAPTURE_VERSION} and {SELECTION_VERSION},"
            " of Inspect 0.3.285. Install it, or a newer truthgym"
        )


def logs_by_task(log_dir: str) -> dict[str, list[int | None]]:
    """Number of completed samples of each log in a folder, None if it did not succeed, by its task's identifier."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    from truthgym.datasets.inspect_private import task_identifier

    by_task: dict[str, list[int | None]] = {}
    for log in list_eval_logs(log_dir, recursive=False) if exists(log_dir) else []:
        header = read_eval_log(log, header_only=True)
        by_task.setdefault(task_identifier(header, None), []).append(completed_samples(header))
    return by_task


def eval_set_id(log_dir: str, asked: str | None) -> str:
    """The id of the eval set in a folder, as Inspect keeps it there."""
    path = f"{log_dir}/.eval-set-id"
    if exists(path):
        with fsspec.open(path, "rt") as file:
            known = str(file.read()).strip()
        if asked and asked != known:
            raise BadInput(f"{log_dir} holds eval set {known}, and the script asks for {asked}; use another folder")
        return known
    new = asked or token_urlsafe(16).replace("-", "a").replace("_", "b")
    if "://" not in log_dir:
        Path(log_dir).mkdir(parents=True, exist_ok=True)
    with fsspec.open(path, "wt") as file:
        file.write(new)
    return new


def exists(path: str) -> bool:
    system, inner = fsspec.core.url_to_fs(path)
    return bool(system.exists(inner))


def accepted(fail_on_error: bool | float | None, samples: int) -> int:
    """Samples that may end with an error by `eval_set`'s argument: all, a share, a number, or by default none."""
    if fail_on_error is False:
        return samples
    if fail_on_error is None or fail_on_error is True:
        return 0
    return int(fail_on_error * samples) if fail_on_error < 1 else int(fail_on_error)


def state_folder(log_dir: str) -> str:
    """Where a sweep keeps its own small files: in the log folder, or here if that is an object store."""
    if "://" not in log_dir:
        return str(Path(log_dir, ".sweep"))
    return str(Path(".truthgym-sweep", sha256(log_dir.encode()).hexdigest()[:12]).resolve())
