"""Lists the units of a script's next eval set, and what of it is done."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from secrets import token_urlsafe
from tempfile import mkdtemp
from typing import Any

import fsspec

from truthgym.datasets.errors import BadInput
from truthgym.sweep.units.unit import CAPTURE_VERSION, SELECTION_VERSION, SHOWN, Unit, run_script

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


@dataclass
class Plan:
    """The units of one call of `eval_set`."""

    log_dir: str
    eval_set_id: str
    earlier: list[list[str]]
    """The logs of the calls before."""
    units: list[Unit] = field(default_factory=list)
    """What is left to run."""
    shards: list[Shards] = field(default_factory=list)
    """What is merged after it."""
    done: int = 0
    """Tasks whose logs were complete before."""
    connections: int = CONNECTIONS
    """Connections that the script allows for a provider: no more workers than that can be busy."""


def plan(command: Sequence[str], call: int, earlier: list[list[str]], shards: int, workers: int,
         max_connections: int | None) -> Plan | None:  # fmt: skip
    """Run the script up to a call of `eval_set` and list that call's tasks as units. Nothing is asked of a model.

    Args:
        command: The script with its arguments, or `inspect eval-set ...`.
        call: Number of the call, from 1.
        earlier: The logs of earlier calls.
        shards: Most units for one task.
        workers: Units that run at the same time, among which connections are divided.
        max_connections: Connections to each provider, by all units together.

    Returns:
        The plan, or None if the script ended before that call.

    Raises:
        BadInput: The script failed or never calls `eval_set`, this version of Inspect has another protocol, or the
            eval set cannot be divided.
    """
    scratch = Path(mkdtemp(prefix="truthgym-sweep-"))
    manifest = scratch / "capture"
    state = str((scratch / "script").resolve())
    whole = Unit(" ".join(command), "", 0, list(command), str(Path.cwd()), call, earlier, {}, state)
    out = f"{state}.out"
    printed, failed = run_script(whole, {"mode": "capture", "manifest": str(manifest), "out": out})
    try:
        if failed:
            raise BadInput(f"{' '.join(command)} failed before call {call} of eval_set ({failed})")
        if not manifest.exists():
            if call == 1:
                raise BadInput(
                    f"{' '.join(command)} never calls eval_set(), which a sweep divides among workers. "
                    f"Call it instead of eval(). It printed: {printed[-SHOWN:] or 'nothing'}"
                )
            print(printed, end="")
            return None
        captured = json.loads(manifest.read_text(encoding="utf-8"))
        extra = json.loads(Path(out).read_text(encoding="utf-8"))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    check_protocol(captured["version"])
    log_dir = captured["options"]["log_dir"]
    selects = captured["options"].get("limit") or captured["options"].get("sample_id")
    if shards > 1 and (selects or "://" in log_dir):
        raise BadInput(
            f"--shards divides whole tasks with logs on a disk; {' '.join(command)} selects questions by limit or "
            f"sample_id, or writes to {log_dir}. Give the tasks their own number of questions (-T n=...) and a folder"
        )
    found = Plan(log_dir, eval_set_id(log_dir, captured.get("eval_set_id")), extra["earlier"])
    existing = logs_by_task(log_dir)
    for task, more in zip(captured["tasks"], extra["tasks"], strict=True):
        logs = existing.get(task["identifier"], [])
        due = task["samples"] * task["epochs"]
        may_fail = accepted(captured["options"].get("fail_on_error"), due)
        if any(status == "success" and completed >= due - may_fail for status, completed in logs):
            found.done += 1
            continue
        found.connections = min(
            found.connections, max_connections or CONNECTIONS, more["max_connections"] or CONNECTIONS
        )
        limits = connections(max_connections, more["max_connections"], workers)
        options = {"log_dir": log_dir, "log_buffer": LOG_BUFFER, "generate_config": limits}
        selected = {key: task.get(key) for key in ("identifier", "registry_name", "args_hash")}
        selection = {"version": SELECTION_VERSION, "eval_set_id": found.eval_set_id, "tasks": [selected]}
        state = str(Path(state_folder(log_dir), sha256(task["identifier"].encode()).hexdigest()[:16]))
        unit = Unit(f"{task['name']}, {task['model']}", task["model"], due, list(command), str(Path.cwd()), call,
                    found.earlier, selection | {"overrides": options}, state, bool(logs), may_fail)  # fmt: skip
        divided = divide(unit, task, more["samples"], shards) if not logs else None
        if divided is None:
            found.units.append(unit)
            continue
        found.shards.append(divided)
        found.units += divided.units
    return found


def divide(unit: Unit, task: dict[str, Any], questions: list[list[Any]], shards: int) -> Shards | None:
    """Divide a task's questions into shards; None if it stays whole.

    Questions of one event stay together, so that no shard is correlated with another, and so do the epochs of a
    question. An interrupted sweep keeps its division: it stands in a file next to the units' files.
    """
    record = Path(f"{unit.state}.shards")
    if not record.exists():
        events: dict[str, list[Any]] = {}
        for identity, event in questions:
            events.setdefault(f"event {event}" if event is not None else f"id {identity}", []).append(identity)
        count = min(shards, len(events), len(questions) // SHARD_SAMPLES)
        if count < 2:
            return None
        special = next((str(one) for one, _ in questions if set(str(one)) & set("*?[]:")), None)
        if special is not None:
            raise BadInput(
                f"{task['name']} has a question with the id {special}, which Inspect would read as a "
                "pattern; leave out --shards, or name the questions otherwise"
            )
        parts: list[list[Any]] = [[] for _ in range(count)]
        for ids in sorted(events.values(), key=len, reverse=True):
            min(parts, key=len).extend(ids)
        created = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-00-00")
        name = "".join(letter if letter.isalnum() else "-" for letter in task["name"].split("/")[-1])
        out = f"{unit.selection['overrides']['log_dir']}/{created}_{name}_{Path(unit.state).name}.eval"
        record.parent.mkdir(parents=True, exist_ok=True)
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
        overrides = unit.selection["overrides"] | {"log_dir": log_dir, "sample_id": ids}
        units.append(
            replace(unit, name=f"{unit.name}, shard {number + 1} of {len(divided['parts'])}", search=True,
                    samples=len(ids) * epochs, may_fail=unit.may_fail * len(ids) // len(questions),
                    selection=unit.selection | {"overrides": overrides},
                    state=f"{unit.state}-{number}")
        )  # fmt: skip
    return Shards(divided["out"], units, [(identity, event) for identity, event in questions])


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


def logs_by_task(log_dir: str) -> dict[str, list[tuple[str, int]]]:
    """Status and number of completed samples of each log in a folder, by its task's identifier."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    from truthgym.datasets.inspect_private import task_identifier

    found: dict[str, list[tuple[str, int]]] = {}
    for log in list_eval_logs(log_dir, recursive=False) if exists(log_dir) else []:
        header = read_eval_log(log, header_only=True)
        completed = header.results.completed_samples if header.results else 0
        found.setdefault(task_identifier(header, None), []).append((header.status, completed))
    return found


def eval_set_id(log_dir: str, given: str | None) -> str:
    """The id of the eval set in a folder, as Inspect keeps it there."""
    path = f"{log_dir}/.eval-set-id"
    if exists(path):
        with fsspec.open(path, "rt") as file:
            known = str(file.read()).strip()
        if given and given != known:
            raise BadInput(f"{log_dir} holds eval set {known}, and the script asks for {given}; use another folder")
        return known
    new = given or token_urlsafe(16).replace("-", "a").replace("_", "b")
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
