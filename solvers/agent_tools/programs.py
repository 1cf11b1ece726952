"""Programs that models or users wrote, each in a process of its own on this machine.

They are confined by Landlock where the kernel has it, else kept from accidents alone (`python_runner.py`).
"""

import ctypes
import json
import os
import signal
import stat
import sys
from contextlib import suppress
from functools import cache
from logging import getLogger
from pathlib import Path
from secrets import token_hex
from shutil import disk_usage
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from anyio.abc import Process
from inspect_ai.util import concurrency

from truthgym.solvers.agent_tools.python_runner import landlock_version

LOGGER = getLogger(__name__)
RUNNER = Path(__file__).with_name("python_runner.py")
MAX_RESULT = 10_000
"""Maximum bytes of a result."""
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")
"""Environment variables that are passed on to a program: no API keys."""


class ProgramError(Exception):
    """A program left no result: it did not end in time, ended early, or put something else in the result's place."""


@cache
def _shield() -> None:
    """Without Landlock, keep programs from this process's memory and first environment, and say what stays open."""
    if landlock_version():
        return
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # of Linux: not dumpable, and so not readable for other processes
    LOGGER.warning(
        "trusted=true: this system has no Landlock, so a program can get round its guard on purpose and then read and "
        "change your files; for programs that you did not write use --sandbox docker"
    )


async def run_here(name: str, message: dict[str, Any], seconds: int) -> dict[str, Any]:
    """Run a program on this machine and return its result. Raises OSError for a fault of the machine."""
    _shield()
    secret = token_hex()
    request = json.dumps({**message, "secret": secret, "seconds": seconds, "guarded": True})
    with TemporaryDirectory(prefix="program-", ignore_cleanup_errors=True) as folder:
        return checked(name, await _run_in(Path(folder), name, request, seconds), secret)


def checked(name: str, result: bytes, secret: str) -> dict[str, Any]:
    """The runner's result, without its secret. A program can write the file too, but does not know the secret."""
    try:
        content: Any = json.loads(result) if len(result) <= MAX_RESULT else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.pop("secret", None) != secret:
        raise ProgramError(f"{name} left a result that cannot be read.")
    return content


def timeout_reason(name: str, seconds: int) -> str:
    return f"{name} did not end within {seconds} s and was killed."


async def _run_in(root: Path, name: str, message: str, seconds: int) -> bytes:
    """The result file of a program that runs in an empty folder. Raises OSError for a fault of the machine."""
    (root / "input.json").write_text(message, encoding="utf-8")
    environment = {key: os.environ[key] for key in ENVIRONMENT if key in os.environ}
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    started = False
    async with concurrency("python graders", os.cpu_count() or 1):
        process = await anyio.open_process(
            [sys.executable, "-I", "-B", str(RUNNER), str(root)],
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd=root,
            env={**environment, **threads, "HOME": str(root), "TMPDIR": str(root), "PYTHONUTF8": "1"},
            start_new_session=True,
        )
        try:
            with anyio.move_on_after(seconds) as scope:
                assert process.stdout is not None
                with suppress(anyio.EndOfStream):
                    started = bool(await process.stdout.receive(1))
                await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                _kill(process)
                await process.wait()
                await process.aclose()
    if not started:
        raise OSError(f"it ended before it began, exit status {process.returncode}")
    if scope.cancelled_caught:
        raise ProgramError(timeout_reason(name, seconds))
    result = root / "result.json"
    if os.path.lexists(result) and not stat.S_ISREG(result.lstat().st_mode):
        raise ProgramError(f"{name} put something else in place of its result.")
    if not os.path.lexists(result) or not result.lstat().st_size:
        if disk_usage(root).free < MAX_RESULT:
            raise OSError("no space is left for its result")
        raise ProgramError(f"{name} ended without a result (exit status {process.returncode}).")
    with result.open("rb") as file:
        return file.read(MAX_RESULT + 1)


def _kill(process: Process) -> None:
    """Kill a process with every process that it started."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
