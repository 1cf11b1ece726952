"""Users' graders in Python: `grade(sample, item)` returns a number. Always run outside of our own process."""

import ast
import json
import os
import signal
import stat
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from anyio.abc import Process
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironment, concurrency, sandbox

from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.grader import Graded, Grader, Ungraded, sample_of
from truthgym.solvers.roles import required_sandbox

RUNNER = Path(__file__).with_name("python_runner.py")
LONGEST = 256 * 1024
"""Bytes of source, as at OpenAI."""
MOST = 10_000
"""Bytes of a result."""
KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")
"""What a program sees of our environment: no keys."""


def python_grader(
    name: str,
    source: str,
    trusted: bool = False,
    time_limit: int = 30,
    low: float = 0.0,
    high: float = 1.0,
    higher_is_better: bool = True,
) -> Grader:
    """A grader from the source of a program with a function `grade(sample, item)`, in the shape that OpenAI knows.

    Each answer is graded in a fresh process and an empty folder. What the program prints goes nowhere. It can import
    what is installed where it runs, and no file beside it.

    Args:
        name: Its name in reasons.
        source: The program.
        trusted: False: it runs in the sample's sandbox: the one named "grader", where there is one. True: on this
            machine, with a guard against accidents, which is no defence against malice.
        time_limit: Seconds, after which it is killed with all that it started.
        low: Least grade.
        high: Greatest grade.
        higher_is_better: Its direction.

    Raises:
        BadInput: The source is no Python, is too long, or holds no such function.
    """
    _check(name, source)

    async def function(graded: Graded) -> float:
        given = {
            "source": source,
            "sample": sample_of(graded),
            "item": dict(graded.item),
            "seconds": time_limit,
            "guarded": trusted,
        }
        run = _here if trusted else _sandboxed
        return _read(name, await run(name, json.dumps(given), time_limit))

    return Grader(name, function, low, high, higher_is_better, sandbox=not trusted)


def _check(name: str, source: str) -> None:
    if len(source.encode(errors="replace")) > LONGEST:
        raise BadInput(f"grader {name}: the program is longer than {LONGEST // 1024} KiB; shorten it")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"grader {name}: the program is not Python ({error}); correct it") from None
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "grade"]
    if not found:
        raise BadInput(f"grader {name}: the program has no function grade(sample, item) at its top level; write one")
    taken = found[-1].args
    number = len(taken.posonlyargs) + len(taken.args)
    if not (number - len(taken.defaults) <= 2 <= number or (taken.vararg and number <= 2)):
        raise BadInput(f"grader {name}: grade takes {number} arguments; it is called with two, grade(sample, item)")
    if None in taken.kw_defaults:
        raise BadInput(f"grader {name}: grade needs an argument by name; it is called with two, grade(sample, item)")


async def _here(name: str, given: str, seconds: int) -> bytes:
    """Run on this machine, and return what it left as a result."""
    with TemporaryDirectory(prefix="grader-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        (place / "input.json").write_text(given, encoding="utf-8")
        shown = {key: os.environ[key] for key in KEPT if key in os.environ}
        threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
        async with concurrency("python graders", os.cpu_count() or 1):
            process = await anyio.open_process(
                [sys.executable, "-I", "-B", str(RUNNER), folder],
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                cwd=folder,
                env={**shown, **threads, "HOME": folder, "TMPDIR": folder, "PYTHONUTF8": "1"},
                start_new_session=True,
            )
            try:
                with anyio.move_on_after(seconds) as scope:
                    await process.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    _kill(process)
                    await process.wait()
        if scope.cancelled_caught:
            raise Ungraded(_too_long(name, seconds))
        result = place / "result.json"
        try:
            if not stat.S_ISREG(result.lstat().st_mode):
                raise Ungraded(f"The grader {name} put something else in the place of its result.")
            with result.open("rb") as file:
                return file.read(MOST + 1)
        except FileNotFoundError:
            raise Ungraded(f"The grader {name} ended without a grade (exit status {process.returncode}).") from None


def _kill(process: Process) -> None:
    """End a process with all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


async def _sandboxed(name: str, given: str, seconds: int) -> bytes:
    """Run in the sample's sandbox, and return what it left as a result."""
    required_sandbox(f"The grader {name}")
    place = _place()
    made = await place.exec(["mktemp", "-d"], timeout=30)
    if not made.success:
        raise Ungraded(f"The sandbox gives the grader {name} no folder: {made.stderr.strip()[:200]}")
    folder = made.stdout.strip()
    try:
        await place.write_file(f"{folder}/input.json", given)
        await place.write_file(f"{folder}/python_runner.py", RUNNER.read_text(encoding="utf-8"))
        command = ["python3", "-I", "-B", f"{folder}/python_runner.py", folder]
        ran = await place.exec(command, cwd=folder, timeout=seconds, timeout_retry=False)
        read = await place.exec(["head", "-c", str(MOST + 1), f"{folder}/result.json"], timeout=10)
        if not read.success:
            why = ran.stderr.strip()[-200:] or f"exit status {ran.returncode}"
            raise Ungraded(f"The grader {name} ended without a grade ({why}).")
        return read.stdout.encode()
    except TimeoutError:
        raise Ungraded(_too_long(name, seconds)) from None
    except (OutputLimitExceededError, UnicodeDecodeError, PermissionError, FileNotFoundError) as error:
        raise Ungraded(f"The grader {name} could not be run in the sandbox: {error}") from None
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(30):
            await place.exec(["rm", "-rf", folder], timeout=20)


def _place() -> SandboxEnvironment:
    """The sandbox for graders: where the model has tools in the sample's own, it may have changed what is there."""
    try:
        return sandbox("grader")
    except ValueError:
        return sandbox()


def _read(name: str, result: bytes) -> float:
    try:
        said: Any = json.loads(result) if len(result) <= MOST else None
    except (ValueError, RecursionError):
        said = None
    match said:
        case {"grade": int() | float() as number} if len(said) == 1 and not isinstance(number, bool):
            return float(number)
        case {"error": str(why)} if len(said) == 1:
            raise Ungraded(f"The grader {name} {why}.".replace("..", "."))
    raise Ungraded(f"The grader {name} left a result that cannot be read.")


def _too_long(name: str, seconds: int) -> str:
    return f"The grader {name} did not end within {seconds} s, and was ended."
