"""Programs of others, each in a process of its own: users' graders, and functions that models write."""

import ast
import ctypes
import json
import os
import signal
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from inspect_ai.util import OutputLimitExceededError, concurrency

from truthgym.datasets.code_repair import RepairQuestion, find_program
from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.grader import CannotGrade, Grade, Grader, GraderInput, sample_fields
from truthgym.scorers.graders.python_runner import landlock_version
from truthgym.solvers.roles import program_sandbox, required_sandbox

LOGGER = getLogger(__name__)
RUNNER = Path(__file__).with_name("python_runner.py")
MAX_RESULT = 10_000
"""Maximum bytes of a result."""
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")
"""Environment variables that are passed on to a program: no API keys."""


@dataclass(frozen=True)
class ProgramOptions:
    """How a user program is run, and what it declares."""

    trusted: bool = False
    """False: it runs in the sample's sandbox, preferably in one named "grader". True: it runs on this machine, confined
    to its folder by Landlock where the kernel has it, else behind a guard against accidents alone."""
    time_limit: int = 30
    """Seconds, after which it is killed with every process that it started."""
    low: float = 0.0
    high: float = 1.0
    """Lowest and highest grade."""
    higher_is_better: bool = True


DEFAULTS = ProgramOptions()


def python_grader(name: str, source: str, options: ProgramOptions = DEFAULTS) -> Grader:
    """Make a grader from the source of a program with a function `grade(sample, item)`, as OpenAI defines it.

    Each answer is graded in a new process and an empty folder. The program's output is discarded. It can import
    installed packages, but no files next to it.
    """
    _check(name, source)

    async def function(case: GraderInput) -> float:
        message = {"source": source, "sample": sample_fields(case), "item": dict(case.item)}
        match await _run(f"The grader {name}", message, options):
            case {"grade": int() | float() as number} if not isinstance(number, bool):
                return float(number)
            case {"error": str(reason)}:
                raise CannotGrade(f"The grader {name} {reason}.".replace("..", "."))
        raise NoResultError(f"The grader {name} left a result that cannot be read.")

    return Grader(name, function, options.low, options.high, options.higher_is_better, sandbox=not options.trusted)


async def call_function(
    name: str, source: str, function: str, calls: Sequence[Sequence[Any]], options: ProgramOptions
) -> list[list[Any] | None]:
    """Call a function that a program defines, in one new process, on one list of arguments after the other.

    The process gets the arguments and nothing to compare with. It may import the standard library; where it runs on
    this machine, it may read no other files.
    """
    message = {"source": source, "function": function, "calls": calls}
    match await _run(name, message, options):
        case {"replies": list(texts)} if len(texts) == len(calls) and all(isinstance(t, str | None) for t in texts):
            return [_pair(text) for text in texts]
    raise NoResultError(f"{name} left a result that cannot be read.")


def _pair(text: str | None) -> list[Any] | None:
    try:
        pair: Any = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    return pair if isinstance(pair, list) and len(pair) == 2 else None


class NoResultError(CannotGrade):
    """A program left no result: it did not end in time, ended early, or put something else in the result's place."""


async def _run(name: str, message: dict[str, Any], options: ProgramOptions) -> dict[str, Any]:
    """The result that the runner writes. It must hold the runner's secret: a program can write this file too."""
    secret = token_hex()
    request = json.dumps({**message, "secret": secret, "seconds": options.time_limit, "guarded": options.trusted})
    result = await (_run_here if options.trusted else _run_in_sandbox)(name, request, options.time_limit)
    try:
        content: Any = json.loads(result) if len(result) <= MAX_RESULT else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.pop("secret", None) != secret:
        raise NoResultError(f"{name} left a result that cannot be read.")
    return content


def _check(name: str, source: str) -> None:
    """Refuse a program that could never grade."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"grader {name}: the program is not Python ({error}); correct it") from None
    if not any(isinstance(node, ast.FunctionDef) and node.name == "grade" for node in body):
        raise BadInput(f"grader {name}: the program has no function grade(sample, item) at its top level; add one")


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


async def _run_here(name: str, message: str, seconds: int) -> bytes:
    """Run a program on this machine and return its result file. A fault of the machine is none of the program."""
    _shield()
    try:
        with TemporaryDirectory(prefix="grader-", ignore_cleanup_errors=True) as folder:
            return await _run_in(Path(folder), name, message, seconds)
    except OSError as error:
        raise CannotGrade(f"{name} could not be run on this machine ({error}).", "unreachable") from None


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
        raise NoResultError(_timeout_reason(name, seconds))
    result = root / "result.json"
    if os.path.lexists(result) and not stat.S_ISREG(result.lstat().st_mode):
        raise NoResultError(f"{name} put something else in place of its result.")
    if not os.path.lexists(result) or not result.lstat().st_size:
        if disk_usage(root).free < MAX_RESULT:
            raise OSError("no space is left for its result")
        raise NoResultError(f"{name} ended without a result (exit status {process.returncode}).")
    with result.open("rb") as file:
        return file.read(MAX_RESULT + 1)


def _kill(process: Process) -> None:
    """Kill a process with every process that it started."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


async def _run_in_sandbox(name: str, message: str, seconds: int) -> bytes:
    """Run a program in the sample's sandbox and return its result file."""
    required_sandbox(name)
    environment = program_sandbox()
    created = await environment.exec(["mktemp", "-d"], timeout=30)
    if not created.success:
        raise CannotGrade(f"The sandbox has no folder for {name}: {created.stderr.strip()[:200]}", "unreachable")
    folder = created.stdout.strip()
    try:
        try:
            await environment.write_file(f"{folder}/input.json", message)
            await environment.write_file(f"{folder}/python_runner.py", RUNNER.read_text(encoding="utf-8"))
        except (TimeoutError, PermissionError, FileNotFoundError) as error:
            raise CannotGrade(f"{name} could not be put into the sandbox: {error}", "unreachable") from None
        command = ["python3", "-I", "-B", f"{folder}/python_runner.py", folder]
        ran = await environment.exec(command, cwd=folder, timeout=seconds, timeout_retry=False)
        read = await environment.exec(["head", "-c", str(MAX_RESULT + 1), f"{folder}/result.json"], timeout=10)
        why = ran.stderr.strip()[-200:] or f"exit status {ran.returncode}"
        if not ran.stdout:
            raise CannotGrade(f"{name} could not be started in the sandbox ({why}).", "unreachable")
        if not read.success:
            raise NoResultError(f"{name} ended without a result ({why}).")
        return read.stdout.encode()
    except TimeoutError:
        raise NoResultError(_timeout_reason(name, seconds)) from None
    except (OutputLimitExceededError, UnicodeDecodeError, PermissionError, FileNotFoundError) as error:
        raise CannotGrade(f"{name} could not be run in the sandbox: {error}") from None
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(30):
            await environment.exec(["rm", "-rf", folder], timeout=20)


def _timeout_reason(name: str, seconds: int) -> str:
    return f"{name} did not end within {seconds} s and was killed."


def hidden_tests(options: ProgramOptions) -> Grader:
    """Make the grader of `truthgym/code_repair`: 1 if the answer's function passes every hidden test, else 0.

    The function is called on all inputs in one new process, after the answer. That process gets the inputs alone: what
    it returns is compared here with what is expected, as JSON, so that true is not 1 and 1 is not 1.0. A test also
    fails if the function changes its arguments. All that can go wrong in the answer counts as 0: no program, one that
    does not end in time, ends the process or writes the result itself. An answer without a program leaves the function
    as it was.
    """

    async def function(case: GraderInput) -> Grade:
        task = RepairQuestion.model_validate(dict(case.item))
        program = find_program(case.completion, task.function)
        if program is None:
            return Grade(0, explanation=f"The answer has no Python program with a function {task.function}.")
        try:
            calls = [test.arguments for test in task.tests]
            replies = await call_function("The answer's program", program, task.function, calls, options)
        except NoResultError as error:
            return Grade(0, explanation=str(error))
        passed = [_same(reply, [t.expected, t.arguments]) for reply, t in zip(replies, task.tests, strict=True)]
        return Grade(float(all(passed)), explanation=f"{sum(passed)} of {len(passed)} hidden tests passed.")

    return Grader("hidden_tests", function, sandbox=not options.trusted)


def _same(reply: object, other: object) -> bool:
    return json.dumps(reply, sort_keys=True) == json.dumps(other, sort_keys=True)
