"""Commands in processes of their own, forked from one that has loaded Inspect: loading takes longer than they do."""

import gc
import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import CompletedProcess

FORKS = multiprocessing.get_context("forkserver")
LOADED = [
    *("truthgym.tasks", "truthgym.cli.convert", "inspect_ai._cli.main", "inspect_ai.agent._acp.server"),
    *("inspect_ai.model._providers.anthropic", "inspect_ai.model._openai", "inspect_ai.hooks"),
    *("rich.markdown", "fastapi", "uvicorn", "pyarrow"),
]
"""What `inspect eval`, `inspect score` and `truthgym convert` load."""
FORKS.set_forkserver_preload(LOADED)


def start(
    *command: str, environment: Mapping[str, str], folder: Path | None = None, out: str = os.devnull, error: str = ""
) -> ForkServerProcess:
    """Start `inspect …`, `truthgym …`, `python -m …` or `python -c …`.

    Args:
        command: The words, of which the first is "inspect", "truthgym", "-m" or "-c".
        environment: Its environment variables.
        folder: Its working directory.
        out: The file or terminal that it reads and writes.
        error: Where it writes errors; empty for `out`.
    """
    process = FORKS.Process(target=_become, args=(command, dict(environment), folder, out, error or out))
    process.start()
    return process


def call(*command: str, environment: Mapping[str, str], folder: Path | None = None) -> "CompletedProcess[str]":
    """Run a command as `start` does until it ends, and return its exit status and what it wrote."""
    with tempfile.TemporaryDirectory() as place:
        files = Path(place, "out"), Path(place, "error")
        process = start(*command, environment=environment, folder=folder, out=str(files[0]), error=str(files[1]))
        process.join()
        assert process.exitcode is not None
        return CompletedProcess(command, process.exitcode, *(file.read_text() for file in files))


def _become(command: tuple[str, ...], environment: dict[str, str], folder: Path | None, out: str, error: str) -> None:
    gc.freeze()  # else each process looks through all that is loaded
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder or Path.cwd())
    for number, path in enumerate((out, out, error)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOCTTY), number)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", buffering=1, closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, closefd=False)  # type: ignore[misc]  # noqa: SIM115
    first, *words = command
    sys.argv = [first, *(words[1:] if first in ("-c", "-m") else words)]
    if first == "-c":
        exec(words[0], {"__name__": "__main__"})
    else:
        module = {"inspect": "inspect_ai", "truthgym": "truthgym.cli.main"}.get(first) or words[0]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
