"""Programs of others, each in a process of its own: users' graders, and functions that models write."""

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

import anyio
from inspect_ai.util import OutputLimitExceededError

from truthgym.datasets.code_repair import RepairQuestion, find_program
from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.grader import CannotGrade, Grade, Grader, GraderInput, sample_fields
from truthgym.solvers.agent_tools.programs import MAX_RESULT, RUNNER, ProgramError, checked, run_here, timeout_reason
from truthgym.solvers.roles import program_sandbox, required_sandbox


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
    """The result that the runner writes, from this machine or the sandbox."""
    try:
        if options.trusted:
            return await run_here(name, message, options.time_limit)
        secret = token_hex()
        request = json.dumps({**message, "secret": secret, "seconds": options.time_limit, "guarded": False})
        return checked(name, await _run_in_sandbox(name, request, options.time_limit), secret)
    except ProgramError as error:
        raise NoResultError(str(error)) from None
    except OSError as error:
        raise CannotGrade(f"{name} could not be run on this machine ({error}).", "unreachable") from None


def _check(name: str, source: str) -> None:
    """Refuse a program that could never grade."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"grader {name}: the program is not Python ({error}); correct it") from None
    if not any(isinstance(node, ast.FunctionDef) and node.name == "grade" for node in body):
        raise BadInput(f"grader {name}: the program has no function grade(sample, item) at its top level; add one")


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
        raise NoResultError(timeout_reason(name, seconds)) from None
    except (OutputLimitExceededError, UnicodeDecodeError, PermissionError, FileNotFoundError) as error:
        raise CannotGrade(f"{name} could not be run in the sandbox: {error}") from None
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(30):
            await environment.exec(["rm", "-rf", folder], timeout=20)


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
