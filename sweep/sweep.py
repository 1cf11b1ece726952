"""Runs a script's eval sets on many workers, and commands on many logs."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from hashlib import sha256
from itertools import pairwise, takewhile
from os import cpu_count
from pathlib import Path
from typing import Literal, get_args

from filelock import FileLock, Timeout

from truthgym.datasets.errors import BadInput, not_on_windows, one_of
from truthgym.evallog.discovery import find_logs
from truthgym.sweep.units.plan import Plan, Script, plan, state_folder
from truthgym.sweep.units.unit import Outcome, Unit

On = Literal["local", "ray", "slurm"]
"""Where units run: processes of this machine, a Ray cluster, or a Slurm job array."""


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
    """Run a script and, on many workers, what its calls of `eval_set` evaluate: they find it complete.

    The script is unchanged. It stops at each call of `eval_set`, whose tasks are divided into units (a task with a
    model, or a shard of its questions), run and merged, and then goes on. The same command resumes what was
    interrupted.

    Args:
        command: A Python script with its arguments, `inspect eval-set ...`, or, to do it for each log at once,
            `inspect score LOGS ...` or `truthgym convert LOGS ... --out DIR`, which writes a folder for each log.
        on: Where units run.
        workers: Units at the same time. By default, one for each CPU.
        shards: Most units for one task. Questions of one event stay in one.
        max_connections: Connections to each provider by all units together. By default as many as one process opens.
        address: Of a running Ray cluster.
        gpus_per_worker: GPUs of a unit on Ray. Models of `vllm/` are served on so many to all units that need them.
        report: Takes each line of progress.

    Returns:
        Whether everything is complete. What failed has been reported.

    Raises:
        BadInput: Before anything runs: this is Windows, the script calls no `eval_set`, Inspect has another protocol,
            another sweep runs in the same folder, or there is no such cluster.
    """
    not_on_windows("truthgym sweep")
    one_of("--on", on, get_args(On))
    workers = workers or cpu_count() or 1
    if not command or workers < 1 or shards < 1:
        raise BadInput("A sweep needs a script, and at least one worker and one shard: truthgym sweep SCRIPT [ARGS]")
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
        while (found := script.next_call()) is not None:
            if found.log_dir not in locked:  # two calls may share it; until the script's own pass is over
                locks.enter_context(only_sweep(state_folder(found.log_dir), found.log_dir))
                locked.add(found.log_dir)
            todo = plan(command, script.call, found, shards, workers, max_connections)
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
    with lock:
        yield


def back_end(on: On, workers: int, address: str, gpus: float) -> Callable[[Sequence[Unit]], Iterator[Outcome]]:
    if on == "ray":
        from truthgym.sweep.ray import run as on_ray

        return lambda units: on_ray(units, workers, address, gpus)
    if address or gpus:
        raise BadInput(f"--address and --gpus-per-worker are for --on ray, not {on}")
    if on == "slurm":
        from truthgym.sweep.slurm import run as on_slurm

        return lambda units: on_slurm(units, workers)
    from truthgym.sweep.local import run as on_local

    return lambda units: on_local(units, workers)


def sweep_call(todo: Plan, script: Script, run: Callable[[Sequence[Unit]], Iterator[Outcome]],
               report: Callable[[str], None]) -> bool:  # fmt: skip
    """Run and merge the units of one eval set, which no other sweep may write meanwhile."""
    folder = Path(state_folder(todo.log_dir))
    failed = 0
    if todo.units:
        first = f"{todo.done} tasks were complete." * bool(todo.done)
        logs, failed = follow(run(todo.units), todo.units, report, first)
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


def sweep_logs(
    command: Sequence[str], run: Callable[[Sequence[Unit]], Iterator[Outcome]], report: Callable[[str], None]
) -> bool:
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
    options = command[2 + len(places) :]
    units = []
    for log in (find_log.path for find_log in find_logs(places)[0]):
        words = [f"{out}/{Path(log).stem}" if before == "--out" else word for before, word in pairwise(["", *options])]
        name, state = f"{command[1]} {Path(log).name}", str(folder / sha256(log.encode()).hexdigest()[:16])
        units.append(Unit(name, "", 1, [*command[:2], log, *words], str(Path.cwd()), 1, [], {}, state))
    if command[0] == "truthgym" and len({Path(unit.command[2]).stem for unit in units}) < len(units):
        raise BadInput("Two of the logs have the same name, and their datasets would be one folder; convert them apart")
    with only_sweep(folder, " ".join(places)):
        waiting = [unit for unit in units if not Path(f"{unit.state}.done").exists()]
        _, failed = follow(run(waiting), waiting, report, "", mark_done)
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)
    return not failed


def mark_done(outcome: Outcome) -> None:
    Path(f"{outcome.unit.state}.done").touch()


def follow(
    outcomes: Iterator[Outcome], units: Sequence[Unit], report: Callable[[str], None], first: str = "",
    finished: Callable[[Outcome], None] = lambda outcome: None,
) -> tuple[dict[str, str], int]:  # fmt: skip
    """Report each unit as it ends, with the time left. Returns the logs by unit, and how many units failed."""
    total, done, start = sum(unit.samples for unit in units), 0, time.monotonic()
    logs, failed = {}, 0
    report(f"{len(units)} units, {total:,} samples. {first}".strip())
    for number, outcome in enumerate(outcomes, start=1):
        done += outcome.unit.samples
        left = (time.monotonic() - start) / max(done, 1) * (total - done)
        if outcome.error:
            failed += 1
            report(f"[{number}/{len(units)}] {outcome.unit.name}: FAILED: {outcome.error}")
        else:
            finished(outcome)
            logs[outcome.unit.state] = outcome.log
            report(
                f"[{number}/{len(units)}] {outcome.unit.name}: {outcome.unit.samples:,} samples in "
                f"{outcome.seconds:.0f} s; {done:,} of {total:,}, about {timedelta(seconds=round(left))} left"
            )
    if failed:
        print(f"{failed} of {len(units)} units failed; the same command tries them again", file=sys.stderr)
    return logs, failed
