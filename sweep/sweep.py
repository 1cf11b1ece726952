"""Runs a script's eval sets on many workers, and commands on many logs."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from itertools import pairwise, takewhile
from os import cpu_count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

from filelock import FileLock, Timeout

from truthgym.datasets.errors import BadInput, not_on_windows, one_of
from truthgym.evallog.discovery import LogFile, find_logs
from truthgym.sweep import ray, slurm
from truthgym.sweep.units.child import completed_samples
from truthgym.sweep.units.unit import (
    CAPTURE_VERSION,
    SELECTION_VERSION,
    TAIL,
    Outcome,
    Process,
    Unit,
    private,
    run_here,
)

On = Literal["local", "ray", "slurm"]
"""Where units run: processes of this machine, a Ray cluster, or a Slurm job array."""
Run = Callable[[Sequence[Unit]], Iterator[Outcome]]
"""Runs units there, and yields each as it ends."""
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
    questions: list[Any]
    """Their ids."""
    script: dict[str, Any]
    """What the script says where the units had their part of it, or another value."""


@dataclass
class Plan:
    """The units of one call of `eval_set`."""

    log_dir: str
    units: list[Unit] = field(default_factory=list)
    """What is left to run."""
    shards: list[Shards] = field(default_factory=list)
    """What is merged after it."""
    done: int = 0
    """Tasks whose logs were complete before."""
    most: int = CONNECTIONS
    """Most workers that the script's limits keep busy: of connections to a provider, sandboxes, subprocesses."""


class Script:
    """The process that runs the script, from one call of `eval_set` to the next."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = " ".join(command)
        self.call = 0
        self.folder = TemporaryDirectory(prefix="truthgym-sweep-")
        state = str(Path(self.folder.name, "script"))
        unit = Unit(self.command, 0, list(command), str(Path.cwd()), 0, [], {}, state)
        self.process = Process(unit, mode="script", manifest=f"{state}.tasks")

    def next_call(self) -> dict[str, Any] | None:
        """Run the script up to its next call of `eval_set`; what that would run (`child.capture`). None: no more."""
        answer = self.process.answer({})
        if "tasks" in answer:
            self.call += 1
            check_protocol(answer["version"])
            return answer
        printed = Path(self.process.printed).read_text(encoding="utf-8", errors="replace")
        if self.call:
            print(printed, end="")
        if self.process.process.returncode:
            place = f"after call {self.call} of eval_set was complete" if self.call else "before it called eval_set"
            raise BadInput(f"{self.command} failed {place} ({answer['error']})")
        if not self.call:
            raise BadInput(
                f"{self.command} never calls eval_set(), which a sweep divides among workers. Call it instead of "
                f"eval(). It printed: {printed[-TAIL:] or 'nothing'}"
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


def sweep(
    command: Sequence[str],
    on: On = "local",
    workers: int | None = None,
    shards: int = 1,
    max_connections: int | None = None,
    address: str = "",
    gpus_per_worker: float = 0.0,
    report: Callable[[str], None] = print,
) -> bool:
    """Run a script and, on many workers, what its calls of `eval_set` evaluate: they find it complete."""
    not_on_windows("truthgym sweep")
    one_of("--on", on, get_args(On))
    workers = workers or cpu_count() or 1
    if max_connections and max_connections < workers:
        report(f"{max_connections} workers, because no more connections are allowed")
        workers = max_connections
    run = back_end(on, workers, address, gpus_per_worker)  # before anything runs
    if tuple(command[:2]) in {("inspect", "score"), ("truthgym", "convert")}:
        return sweep_logs(command, run, report)
    if command[0] != "inspect" and not Path(command[0]).is_file():
        raise BadInput(f"There is no script {command[0]}; give one that calls eval_set(), or inspect eval-set ...")
    with ExitStack() as locks, Script(command) as script:
        locked = set()
        while (captured := script.next_call()) is not None:
            log_dir = captured["options"]["log_dir"]
            if log_dir not in locked:  # two calls may share it; until the script's own pass is over
                locks.enter_context(only_sweep(state_folder(log_dir), log_dir))
                locked.add(log_dir)
            todo = plan(command, script.call, captured, shards, workers, max_connections)
            if todo.most < workers:
                report(f"{todo.most} workers, because the script's limits would leave more without work")
            run = back_end(on, min(workers, todo.most), address, gpus_per_worker)
            if not sweep_call(todo, script, run, report):
                return False
    return True


@contextmanager
def only_sweep(folder: str | Path, place: str) -> Iterator[None]:
    """Refuse a place where another sweep plans, runs or merges, by a lock next to the sweep's own files."""
    try:
        lock = FileLock(f"{folder}.lock").acquire(timeout=0)
    except Timeout:
        raise BadInput(f"Another sweep runs in {place}; wait for it, or give the script another log_dir") from None
    except (OSError, NotImplementedError) as error:  # NFS without locks, for example
        raise BadInput(f"{folder}.lock cannot be locked ({error}); give a log_dir on a local disk") from None
    with lock:
        yield


def back_end(on: On, workers: int, address: str, gpus: float) -> Run:
    if on == "ray":
        return partial(ray.run, workers=workers, address=address, gpus=gpus)
    if address or gpus:
        raise BadInput(f"--address and --gpus-per-worker are for --on ray, not {on}")
    return partial(slurm.run if on == "slurm" else run_here, workers=workers)


def sweep_call(todo: Plan, script: Script, run: Run, report: Callable[[str], None]) -> bool:
    """Run and merge the units of one eval set, which no other sweep may write meanwhile."""
    folder, failed = state_folder(todo.log_dir), 0
    if todo.units:
        first = f"{todo.done} tasks were complete." * bool(todo.done)
        logs, failed = follow(run(todo.units), todo.units, report, first)
        if gone := [log for log in logs.values() if "://" not in log and not Path(log).exists()]:
            report(f"{gone[0]} was removed: a plain eval_set ran in {todo.log_dir} beside this sweep, and did it twice")
        for shards in todo.shards:
            if all(unit.state in logs for unit in shards.units):
                script.merge(shards, logs)
    remove_merged(folder)
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)
    return not failed


def remove_merged(folder: Path) -> None:
    """Remove shards whose merged log is there: `eval_set` would take them for runs that did not finish."""
    for record in folder.glob("*.shards"):
        out = json.loads(record.read_text(encoding="utf-8"))["out"]
        if Path(out).exists():
            shutil.rmtree(f"{out.removesuffix('.eval')}.shards", ignore_errors=True)


def sweep_logs(command: Sequence[str], run: Run, report: Callable[[str], None]) -> bool:
    """Run a command once for each of the logs that its first arguments name. An interrupted one goes on."""
    command = [part for word in command for part in (word.split("=", 1) if word.startswith("--") else [word])]
    places = list(takewhile(lambda word: not word.startswith("-"), command[2:]))
    out = command[command.index("--out") + 1] if "--out" in command[:-1] else ""
    if "--output-file" in command:
        raise BadInput("--output-file would be the same for each log; use --overwrite, which writes into the logs")
    if not places or (command[0] == "truthgym" and not out):
        raise BadInput(
            f"{' '.join(command)} names no logs before its options, or has no --out DIR; a sweep runs it once a log"
        )
    folder = Path(".truthgym-sweep", sha256("\0".join(command).encode()).hexdigest()[:12]).resolve()
    options, logs, digests = command[2 + len(places) :], dict[str, LogFile](), dict[str, str]()
    files, left_out = find_logs(places)
    for reason, number in (+left_out).items():
        report(f"left out: {number} {reason}")
    if command[0] == "truthgym" and len({Path(file.path).stem for file in files}) < len(files):
        raise BadInput("Two of the logs have the same name, and their datasets would be one folder; convert them apart")
    with only_sweep(folder, " ".join(places)):
        waiting: list[Unit] = []
        for file in files:
            log, state = file.path, str(folder / sha256(file.path.encode()).hexdigest()[:16])
            logs[state], digests[state], done = file, file.digest(), done_before(state)
            if done and done["log"] == digests[state] and all(Path(written).exists() for written in done["written"]):
                continue
            words = [f"{out}/{Path(log).stem}" if before == "--out" else word
                     for before, word in pairwise(["", *options])]  # fmt: skip
            words = [*command[:2], log, *words, *["--overwrite"] * bool(out and done)]
            waiting.append(Unit(f"{command[1]} {Path(log).name}", 1, words, str(Path.cwd()), 1, [], {}, state))

        def marked() -> Iterator[Outcome]:
            for outcome in run(waiting):
                state = outcome.unit.state
                if not outcome.error:
                    written = [str(path) for path in Path(out, Path(logs[state].path).stem).resolve().rglob("*") if out]
                    done = {"log": digests[state] if out else logs[state].digest(), "written": written}
                    Path(f"{state}.done").write_text(json.dumps(done), encoding="utf-8")
                yield outcome

        first = f"{len(files) - len(waiting)} logs were done before." * (len(waiting) < len(files))
        _, failed = follow(marked(), waiting, report, first)
        for path in folder.glob("*"):
            if not failed and ("--overwrite" in command or path.suffix != ".done"):
                path.unlink()
    return not failed


def done_before(state: str) -> dict[str, Any]:
    """The digest of the log that a unit has done, and what was written; {} if it is not done."""
    with suppress(OSError, ValueError):
        done: dict[str, Any] = json.loads(Path(f"{state}.done").read_text(encoding="utf-8"))
        return done
    return {}


def follow(
    outcomes: Iterator[Outcome], units: Sequence[Unit], report: Callable[[str], None], first: str = ""
) -> tuple[dict[str, str], int]:
    """Report each unit as it ends. Returns the logs by unit, and how many units failed."""
    total, done, start = sum(unit.samples for unit in units), 0, time.monotonic()
    logs, failed = {}, 0
    report(f"{len(units)} units, {total:,} samples. {first}".strip())
    for number, outcome in enumerate(outcomes, start=1):
        done += outcome.unit.samples
        left = timedelta(seconds=round((time.monotonic() - start) / max(done, 1) * (total - done)))
        said = f"{outcome.unit.samples:,} samples in {outcome.seconds:.0f} s; {done:,} of {total:,}, about {left} left"
        if outcome.error:
            failed, said = failed + 1, f"FAILED: {outcome.error}"
        else:
            logs[outcome.unit.state] = outcome.log
        report(f"[{number}/{len(units)}] {outcome.unit.name}: {said}")
    if failed:
        print(f"{failed} of {len(units)} units failed; the same command tries them again", file=sys.stderr)
    return logs, failed


def plan(command: Sequence[str], call: int, captured: dict[str, Any], shards: int, workers: int,
         max_connections: int | None) -> Plan:  # fmt: skip
    """List what is left of a call of `eval_set` as units. No other sweep may do so in its folder meanwhile."""
    log_dir, script = captured["options"]["log_dir"], captured["options"]
    if shards > 1 and (script.get("limit") or script.get("sample_id") or "://" in log_dir):
        raise BadInput(
            f"--shards divides whole tasks with logs on a disk; {' '.join(command)} selects questions by limit or "
            f"sample_id, or writes to {log_dir}. Give the tasks their own number of questions (-T n=...) and a folder"
        )
    todo, set_id = Plan(log_dir), eval_set_id(log_dir, captured.get("eval_set_id"))
    machine = {"max_sandboxes": script.get("max_sandboxes"), "max_subprocesses": captured["max_subprocesses"]}
    machine = {name: limit for name, limit in machine.items() if limit}
    existing = logs_by_task(log_dir)
    names = {task["name"].lower() for task in captured["tasks"]}
    for task in captured["tasks"]:
        logs = existing.get(task["identifier"], [])
        due = task["samples"] * task["epochs"]
        may_fail = accepted(script.get("fail_on_error"), due)
        if any(completed is not None and completed >= due - may_fail for completed in logs):
            todo.done += 1
            continue
        limits = [max_connections, task["max_connections"], *machine.values()]
        todo.most = min([todo.most, *(limit for limit in limits if limit)])
        options = {"log_dir": log_dir, "log_buffer": LOG_BUFFER,
                   "generate_config": connections(max_connections, task["max_connections"], workers),
                   **{name: max(1, limit // workers) for name, limit in machine.items()}}  # fmt: skip
        selected = {key: task.get(key) for key in ("identifier", "registry_name", "args_hash")}
        selection = {"version": SELECTION_VERSION, "eval_set_id": set_id, "tasks": [selected]}
        state = str(Path(state_folder(log_dir), sha256(task["identifier"].encode()).hexdigest()[:16]))
        unit = Unit(f"{task['name']}, {task['model']}", due, list(command), str(Path.cwd()), call,
                    captured["earlier"], selection | {"overrides": options}, state, bool(logs), may_fail)  # fmt: skip
        whole = bool(logs) or task["stops_early"]  # by what it saw of all questions
        divided = None if whole else divide(unit, task, task["questions"], shards, names)
        todo.shards += [divided] if divided else []
        todo.units += divided.units if divided else [unit]
    return todo


def divide(
    unit: Unit, task: dict[str, Any], questions: list[list[Any]], shards: int, names: Collection[str] = ()
) -> Shards | None:
    """Divide a task's questions into shards, events together, as its record has it; None if it stays whole.

    Of an id that begins with a task's name (`names`) and a colon, Inspect would drop that beginning.
    """
    record = Path(f"{unit.state}.shards")
    if not record.exists():
        events: dict[str, list[Any]] = {}
        for identity, event in questions:
            events.setdefault(f"event {event}" if event is not None else f"id {identity}", []).append(identity)
        count = min(shards, len(events), len(questions) // SHARD_SAMPLES)
        if count < 2:
            return None
        special = next((identity for identity, _ in questions
                        if ":" in str(identity) and identity.split(":")[0].lower() in names), None)  # fmt: skip
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
    return Shards(divided["out"], units, [identity for identity, _ in questions], task.get("script", {}))


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
    for log in list_eval_logs(log_dir, recursive=False):
        header = read_eval_log(log, header_only=True)
        by_task.setdefault(task_identifier(header, None), []).append(completed_samples(header))
    return by_task


def eval_set_id(log_dir: str, asked: str | None) -> str:
    """The id of the eval set in a folder, as Inspect keeps it there."""
    from truthgym.datasets.inspect_private import PrerequisiteError, eval_set_id_for_log_dir

    if "://" not in log_dir:
        Path(log_dir).mkdir(parents=True, exist_ok=True)
    try:
        return eval_set_id_for_log_dir(log_dir, asked)
    except PrerequisiteError:
        raise BadInput(f"{log_dir} holds another eval set than the script's, {asked}; use another folder") from None


def accepted(fail_on_error: bool | float | None, samples: int) -> int:
    """Samples that may end with an error by `eval_set`'s argument: all, a share, a number, or by default none."""
    if fail_on_error is False:
        return samples
    if fail_on_error is None or fail_on_error is True:
        return 0
    return int(fail_on_error * samples) if fail_on_error < 1 else int(fail_on_error)


def state_folder(log_dir: str) -> Path:
    """Where a sweep keeps its own small files: in the log folder, or here if that is an object store."""
    if "://" not in log_dir:
        return Path(log_dir, ".sweep")
    return Path(".truthgym-sweep", sha256(log_dir.encode()).hexdigest()[:12]).resolve()
