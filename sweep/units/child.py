"""The process that runs a script for a worker: `python -m truthgym.sweep.units.child SETTINGS`.

It replaces `eval_set` by a function that does other work at the right call: it lists the tasks, or runs and merges
units, which it reads from standard input, and then ends the process. So a script runs unchanged, once for many units,
and what it registers is there.
"""

import json
import os
import runpy
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO
from urllib.parse import unquote

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog

POLL = 0.2
"""Seconds between looks at whether the parent still lives."""

Act = Callable[[Callable[..., Any], dict[str, Any]], Any]
"""Acts in place of `eval_set`, which it gets with the arguments of the call."""


def main() -> NoReturn:
    """Do what the file that the command line names says."""
    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    end_with_parent(settings["parent"])
    jobs = os.fdopen(os.dup(0), encoding="utf-8")  # what the script starts must not read them
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    print_to(settings["printed"])
    if settings["mode"] == "capture":
        replace_eval_set(settings, lambda eval_set, options: capture(settings, eval_set, options))
    elif settings["mode"] == "units":
        replace_eval_set(settings, lambda eval_set, options: run_units(jobs, answers, eval_set))
    run_command(settings["command"])
    sys.exit(0)


def print_to(path: str) -> None:
    """Send what this process prints to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    with Path(path).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def end_with_parent(parent: int) -> None:
    """End this process when its parent does, so that no two processes ever write one log."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def replace_eval_set(settings: dict[str, Any], act: Act) -> None:
    """Make the call of `eval_set` whose number is in the settings call `act`, and `eval` an error.

    Earlier calls return the logs in `earlier`. Where that does not list them, they run as they are: the driver sees to
    it that their logs are complete.
    """
    from inspect_ai.log import read_eval_log

    from truthgym.datasets.errors import BadInput

    inspect_ai: Any = import_module("inspect_ai")
    module: Any = import_module("truthgym.datasets.inspect_private").evalset
    number, earlier = settings["call"], settings["earlier"]
    original, calls = module.eval_set, 0

    def eval_set(tasks: object, log_dir: str | None = None, *args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls > number:
            return original(tasks, log_dir, *args, **options)
        log_dir = log_dir or os.environ.get("INSPECT_LOG_DIR") or "logs"
        log_dir = log_dir if "://" in log_dir else str(Path(log_dir).resolve())
        if calls < number and len(earlier) >= calls:
            return True, [read_eval_log(log, header_only=True) for log in earlier[calls - 1]]
        if calls < number:
            success, logs = original(tasks, log_dir, *args, **options)
            earlier.append([log.location for log in logs])
            return success, logs
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
        return
    if Path(command[0]).name == "truthgym":
        runpy.run_module("truthgym.cli.main", run_name="__main__")
        return
    sys.path[0] = str(Path(command[0]).resolve().parent)
    runpy.run_path(str(Path(command[0]).absolute()), run_name="__main__")


def capture(settings: dict[str, Any], eval_set: Callable[..., Any], options: dict[str, Any]) -> None:
    """Write the manifest of the eval set's tasks, with what sharding and connection limits need to know."""
    evalset: Any = import_module("truthgym.datasets.inspect_private").evalset
    tasks: list[dict[str, Any]] = []
    build = evalset.build_eval_set_capture

    def record(resolved: list[Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as Inspect's
        for one in resolved:
            configs = [options, *(vars(config) for config in (one.task.config, one.model.config))]
            limits = [limit for config in configs for limit in allowed(config)]
            tasks.append(
                {
                    "samples": [
                        [place if sample.id is None else sample.id, (sample.metadata or {}).get("event")]
                        for place, sample in enumerate(one.task.dataset, start=1)
                    ],
                    "max_connections": min(limits, default=None),
                }
            )
        return build(resolved, *args, **kwargs)

    evalset.build_eval_set_capture = record
    Path(settings["out"]).write_text(json.dumps({"earlier": settings["earlier"]}), encoding="utf-8")
    os.environ["INSPECT_EVAL_SET_CAPTURE"] = settings["manifest"]
    try:
        eval_set()
    finally:
        found = {"earlier": settings["earlier"], "tasks": tasks, "limit": options.get("limit")}
        Path(settings["out"]).write_text(json.dumps(found), encoding="utf-8")


def allowed(config: Mapping[str, Any]) -> list[int]:
    """Connections that a configuration allows, if it says."""
    adaptive = config.get("adaptive_connections")
    most = getattr(adaptive, "max", adaptive if type(adaptive) is int else None)
    return [limit for limit in (config.get("max_connections"), most) if limit]


def run_units(jobs: TextIO, answers: TextIO, eval_set: Callable[..., Any]) -> NoReturn:
    """Run or merge units, one a line, and answer each with how it ended, until there are no more."""
    for line in jobs:
        job = json.loads(line)
        print_to(job["printed"])
        try:
            ended = merge_shards(job) if "merge" in job else run_unit(job, eval_set)
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
    _, logs = eval_set()
    return how_it_ended(logs[0])


def how_it_ended(log: "EvalLog") -> dict[str, Any]:
    completed = log.results.completed_samples if log.results and log.status == "success" else 0
    error = log.error.message if log.error else ""
    place = log.location  # of a log that was listed, a file:// address
    place = unquote(place.removeprefix("file://")) if place.startswith("file://") else place
    return {"log": place, "status": log.status, "completed": completed, "error": error}


def newest_log(folder: str, identifier: str) -> "EvalLog | None":
    """The header of the newest log of a task in a folder, whatever its status."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    from truthgym.datasets.inspect_private import task_identifier

    for log in list_eval_logs(folder, recursive=False):  # newest first
        header = read_eval_log(log, header_only=True)
        if task_identifier(header, None) == identifier:
            return header
    return None


def merge_shards(job: dict[str, Any]) -> dict[str, Any]:
    from truthgym.sweep.units.merge import merge

    merge(job["merge"], job["out"], [tuple(one) for one in job["questions"]])
    return {"log": job["out"], "error": ""}


if __name__ == "__main__":
    main()
