"""The process that runs a script for a worker: `python -m truthgym.sweep.units.child SETTINGS`.

It replaces `eval_set` by a function that does other work. The sweep's own process lists the tasks of each call, merges
their shards and goes on when it is told to on standard input. A worker's process runs units at the right call, and then
ends. So a script runs unchanged, once for many units, and what it registers is there.
"""

import ctypes
import gc
import json
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cache
from hashlib import sha256
from importlib import import_module, metadata
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO
from urllib.parse import unquote

from filelock import FileLock

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog
    from inspect_ai.model import ModelUsage

POLL = 0.2
"""Seconds between looks at whether the parent still lives."""
BATCH_CONNECTIONS = 10_000
"""Connections that Inspect opens if a script uses batches and gives no number."""


def main() -> NoReturn:
    """Do what the file that the command line names says."""
    end_with_thread()
    gc.set_threshold(50_000, 20, 20)  # by default, a seventh of the time goes into looking through what Inspect imports
    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    end_with_parent(settings["parent"])
    Path(sys.argv[1]).unlink()  # the command line may hold keys
    jobs = os.fdopen(os.dup(0), encoding="utf-8")  # what the script starts must not read them
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    print_to(settings["printed"])
    metadata.packages_distributions = cache(metadata.packages_distributions)  # Inspect asks in each eval, for 0.3 s
    if settings["mode"] == "script":
        next(jobs)
        replace_eval_set(settings, lambda eval_set, options: lead(jobs, answers, settings, eval_set, options))
    elif settings["mode"] == "units":
        replace_eval_set(settings, lambda eval_set, options: run_units(jobs, answers, eval_set))
    with FileLock(settings["lock"]) if "lock" in settings else nullcontext():
        run_command(settings["command"])
    sys.exit(0)


def print_to(path: str) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    with Path(path).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def end_with_thread() -> None:
    """Have Linux kill this process when the thread that started it ends, whatever it is doing then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG of its prctl.h


def end_with_parent(parent: int) -> None:
    """End this process when its parent does, so that no two processes ever write one log."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def replace_eval_set(settings: dict[str, Any], act: Callable[[Callable[..., Any], dict[str, Any]], Any]) -> None:
    """Make a script's call of `eval_set` of a number (each, if 0) call `act` with it, and `eval` an error."""
    from inspect_ai.log import read_eval_log

    from truthgym.datasets.errors import BadInput

    inspect_ai: Any = import_module("inspect_ai")
    module: Any = import_module("truthgym.datasets.inspect_private").evalset
    number, earlier = settings["call"], settings["earlier"]
    original, calls = module.eval_set, 0

    def eval_set(tasks: object, log_dir: str | None = None, *args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        log_dir = log_dir or os.environ.get("INSPECT_LOG_DIR") or "logs"
        log_dir = log_dir if "://" in log_dir else str(Path(log_dir).resolve())
        if calls < number:
            return True, [read_eval_log(log, header_only=True) for log in earlier[calls - 1]]
        return act(lambda **changed: original(tasks, log_dir, *args, **options | changed), options)

    def refuse(*_: object, **__: object) -> NoReturn:
        raise BadInput(
            f"{sys.argv[0]} calls eval(), which every unit would run again; use eval_set(), whose logs are made once"
        )

    module.eval_set = inspect_ai.eval_set = eval_set
    inspect_ai.eval = inspect_ai.eval_async = refuse


def run_command(command: list[str]) -> None:
    """Run a script, or a command of `inspect` or `truthgym`, in this process."""
    sys.argv = command
    if Path(command[0]).name == "inspect":
        from truthgym.datasets.inspect_private import main as inspect

        inspect()
    elif Path(command[0]).name == "truthgym":
        runpy.run_module("truthgym.cli.main", run_name="__main__")
    else:
        sys.path[0] = str(Path(command[0]).resolve().parent)
        runpy.run_path(str(Path(command[0]).absolute()), run_name="__main__")


def lead(jobs: TextIO, answers: TextIO, settings: dict[str, Any], eval_set: Callable[..., Any],
         options: dict[str, Any]) -> tuple[bool, list["EvalLog"]]:  # fmt: skip
    """List the tasks of a call, merge shards until there are no more, and make the call, which finds them complete."""
    print(json.dumps(capture(settings, eval_set, options)), file=answers, flush=True)
    for line in jobs:
        job = json.loads(line)
        if "merge" not in job:
            break
        try:
            merge_shards(job["merge"], job["out"], job["questions"], job["script"])
            ended = {"error": ""}
        except Exception as error:
            ended = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(ended), file=answers, flush=True)
    else:
        sys.exit(1)  # the sweep has ended
    success, logs = eval_set()
    settings["earlier"].append([log.location for log in logs])
    return success, logs


def capture(settings: dict[str, Any], eval_set: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """Inspect's manifest of the eval set, in which each task has what sharding and connection limits need to know."""
    evalset: Any = import_module("truthgym.datasets.inspect_private").evalset
    tasks: list[Any] = []
    build = evalset.build_eval_set_capture

    def record(resolved: list[Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as Inspect's
        tasks.extend(resolved)
        return build(resolved, *args, **kwargs)

    evalset.build_eval_set_capture = record
    os.environ["INSPECT_EVAL_SET_CAPTURE"] = settings["manifest"]
    with suppress(SystemExit):  # as which Inspect ends the process
        eval_set()
    del os.environ["INSPECT_EVAL_SET_CAPTURE"]
    evalset.build_eval_set_capture = build
    manifest: dict[str, Any] = json.loads(Path(settings["manifest"]).read_text(encoding="utf-8"))
    adaptive: Any = options.get("adaptive_connections")
    script = {key: options.get(key) for key in ("max_connections", "log_buffer", "sample_shuffle")}
    script["adaptive_connections"] = adaptive.model_dump() if hasattr(adaptive, "model_dump") else adaptive
    for entry, item in zip(manifest["tasks"], tasks, strict=True):
        roles = [role if isinstance(role, list) else [role] for role in (item.model_roles or {}).values()]
        entry["questions"] = [
            [place if sample.id is None else sample.id, (sample.metadata or {}).get("event")]
            for place, sample in enumerate(item.task.dataset, start=1)
        ]
        entry["max_connections"] = connections_of(item.model, [*chain(*roles)], item.task.config, options)
        entry |= {"stops_early": item.task.early_stopping is not None, "script": script}
    return manifest | {"max_subprocesses": options.get("max_subprocesses"), "earlier": settings["earlier"]}


def connections_of(model: Any, roles: list[Any], *configs: Any) -> int | None:  # noqa: ANN401  # of Inspect
    """The smallest number of connections that a script allows a task's models, None if Inspect is to find it."""
    settings = [vars(bound.config) for bound in (model, *roles)]
    settings += [config if isinstance(config, dict) else vars(config) for config in configs]
    limits = [limit for config in settings for limit in allowed(config)]
    if not limits and any(config.get("batch") for config in settings):
        return BATCH_CONNECTIONS
    if not limits and any(config.get("adaptive_connections") is False for config in settings):
        return int(model.api.max_connections())
    return min(limits, default=None)


def allowed(config: Mapping[str, Any]) -> list[int]:
    """Connections that a configuration allows, if it says."""
    adaptive = config.get("adaptive_connections")
    most = getattr(adaptive, "max", adaptive if type(adaptive) is int else None)
    return [limit for limit in (config.get("max_connections"), most) if limit]


def run_units(jobs: TextIO, answers: TextIO, eval_set: Callable[..., Any]) -> NoReturn:
    """Run units, one a line, and answer each with how it ended, until there are no more."""
    for line in jobs:
        job = json.loads(line)
        print_to(job["printed"])
        try:
            with FileLock(job["lock"]):
                ended = run_unit(job, eval_set)
        except Exception as error:
            ended = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(ended), file=answers, flush=True)
    sys.exit(0)


def run_unit(job: dict[str, Any], eval_set: Callable[..., Any]) -> dict[str, Any]:
    """Run a unit, from the samples of an earlier attempt if there is one."""
    selection = job["selection"]
    if job["search"]:
        identifier = selection["tasks"][0]["identifier"]
        earlier = newest_log(selection["overrides"]["log_dir"], identifier)
        if earlier and how_it_ended(earlier)["completed"] >= job["samples"]:
            return how_it_ended(earlier)
        selection["tasks"][0]["resume"] = earlier.location if earlier else None
    Path(job["selected"]).write_text(json.dumps(selection), encoding="utf-8")
    os.environ["INSPECT_EVAL_SET_SELECTION"] = job["selected"]
    if "sample_id" in selection["overrides"]:
        select_exactly()
    _, logs = eval_set()
    return how_it_ended(logs[0])


def select_exactly() -> None:
    """Make Inspect look ids up in a set: it would match each as a pattern, with every other."""

    def select(ids: list[Any]) -> Any:  # noqa: ANN401  # as Inspect's
        return matcher(set(ids).__contains__, [])  # without patterns it looks for no unknown ones

    private: Any = import_module("truthgym.datasets.inspect_private")
    matcher = private.SampleIdMatcher
    vars(import_module(private.PRIVATE["sample_id_filter"]))["sample_id_filter"] = select


def completed_samples(log: "EvalLog") -> int | None:
    """Samples that need not run again, without an error or stopped early by the task. None if the run failed."""
    if log.status != "success" or log.invalidated or log.results is None:
        return None
    stopped = log.results.early_stopping
    return log.results.completed_samples + len(stopped.early_stops if stopped else [])


def how_it_ended(log: "EvalLog") -> dict[str, Any]:
    place = log.location  # of a log that was listed, a file:// address
    place = unquote(place.removeprefix("file://")) if place.startswith("file://") else place
    error = log.error.message if log.error else ""
    return {"log": place, "status": log.status, "completed": completed_samples(log) or 0, "error": error}


def newest_log(folder: str, identifier: str) -> "EvalLog | None":
    """The header of the newest log of a task in a folder, whatever its status."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    from truthgym.datasets.inspect_private import task_identifier

    for log in list_eval_logs(folder, recursive=False):  # newest first
        header = read_eval_log(log, header_only=True)
        if task_identifier(header, None) == identifier:
            return header
    return None


def merge_shards(shards: Sequence[str], out: str, ids: list[Any], script: Mapping[str, Any]) -> None:
    """Write the log that one process would have written, with the first shard's header and metrics computed anew."""
    from inspect_ai.log import read_eval_log, recompute_metrics, write_eval_log

    logs = [read_eval_log(shard) for shard in shards]
    samples = [sample for log in logs for sample in log.samples or []]
    log, order = logs[0], {identity: place for place, identity in enumerate(ids)}
    check_complete([(sample.id, sample.epoch) for sample in samples], ids, log.eval.config.epochs or 1, out)
    log.samples = sorted(samples, key=lambda sample: (sample.epoch, order[sample.id]))
    log.eval.created = min(shard.eval.created for shard in logs)
    log.eval.eval_id = sha256("".join(shard.eval.eval_id for shard in logs).encode()).hexdigest()[:22]
    log.eval.dataset.sample_ids, log.eval.dataset.samples, log.eval.config.sample_id = ids, len(ids), None
    log.eval.config.sample_shuffle, log.eval.config.log_buffer = script.get("sample_shuffle"), script.get("log_buffer")
    log.plan.config.max_connections = script.get("max_connections")
    log.plan.config.adaptive_connections = script.get("adaptive_connections")
    log.config_updates = [update for shard in logs for update in shard.config_updates or []] or None
    stats = [shard.stats for shard in logs]
    log.stats = type(log.stats)(
        started_at=min(stat.started_at for stat in stats),
        completed_at=max(stat.completed_at for stat in stats),
        connection_limit_history=[change for stat in stats for change in stat.connection_limit_history],
        model_usage=total(stat.model_usage for stat in stats),
        role_usage=total(stat.role_usage for stat in stats),
    )
    if log.results is not None:
        if any(sample.scores for sample in samples):
            recompute_metrics(log)
        log.results.total_samples = len(samples)
        log.results.completed_samples = sum(sample.error is None for sample in samples)
    partial = Path(f"{out}.part")  # no name of a log: nothing may read it before it is complete
    try:
        write_eval_log(log, str(partial), format="eval")
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)


def check_complete(seen: list[tuple[Any, int]], ids: Sequence[Any], epochs: int, out: str) -> None:
    from truthgym.datasets.errors import BadInput

    due = set(product(ids, range(1, epochs + 1)))
    if len(seen) != len(set(seen)) or set(seen) != due:
        lost, more = due - set(seen), len(seen) - len(due & set(seen))
        example = f", such as {next(iter(lost))}" if lost else ""
        raise BadInput(
            f"The shards of {out} lack {len(lost)} of {len(due)} samples{example} and hold {more} too many; run the "
            "sweep again, which runs what is missing"
        )


def total(usages: Iterable[dict[str, "ModelUsage"]]) -> dict[str, "ModelUsage"]:
    sums: dict[str, ModelUsage] = {}
    for name, usage in (item for shard in usages for item in shard.items()):
        sums[name] = sums[name] + usage if name in sums else usage
    return sums


if __name__ == "__main__":
    main()
