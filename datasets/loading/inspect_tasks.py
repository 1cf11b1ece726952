"""Inspect tasks by their names: registered ones such as truthgym/urns, and FILE.py@TASK."""

import ast
from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature, unwrap
from pathlib import Path
from typing import Any

from inspect_ai import Task
from inspect_ai.util import registry_create

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.inspect_private import create_file_tasks, load_file_tasks, parse_decorators, registry_lookup


@cache
def task_function(name: str) -> Callable[..., Task]:
    """The function of a task, found as `inspect eval` finds it."""
    file, _, task = name.partition("@")
    if file.endswith(".py"):
        task = _task_in_file(Path(file), task)
    function = registry_lookup("task", task or name)
    if function is None:
        raise BadInput(
            f"There is no task {name!r}; use a name that `inspect eval` accepts, such as truthgym/urns or FILE.py. "
            "`inspect list tasks` and the README list them"
        )
    return function  # type: ignore[return-value]


def task_parameters(name: str) -> Mapping[str, Parameter]:
    """The arguments that a task names."""
    return signature(unwrap(task_function(name))).parameters


def _task_in_file(file: Path, task: str) -> str:
    """Load a file, and return the name of the task in it."""
    if not file.is_file():
        raise BadInput(f"There is no file {file}; give the path of a file with a task in it")
    try:
        ast.parse(file.read_text(encoding="utf-8"))  # Inspect treats a file that does not parse as one without tasks
        load_file_tasks(file.absolute())
    except Exception as error:  # whatever the file does
        raise BadInput(f"{file} cannot be loaded: {type(error).__name__}: {error}") from error
    names = [name for name, _ in parse_decorators(file, "task")]
    if task not in names and (task or len(names) != 1):
        what = f"no task {task!r}, but" if task else f"{len(names)} tasks:"
        remedy = f"name one with {file}@TASK" if names else "write one, as a function with @task"
        raise BadInput(f"{file} has {what} {', '.join(names) or 'none'}; {remedy}")
    return task or names[0]


def create_task(name: str, args: Mapping[str, Any]) -> Task:
    """Create a task with its arguments."""
    parameters = task_parameters(name)
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        for argument in args:  # Inspect itself would only print a warning
            one_of(f"argument of {name}", argument, list(parameters))
    file, _, in_file = name.partition("@")
    try:
        if file.endswith(".py"):
            (task,) = create_file_tasks(Path(file).absolute(), [_task_in_file(Path(file), in_file)], dict(args))
        else:
            task = registry_create("task", name, **args)
    except BadInput:
        raise
    except Exception as error:  # each task fails in its own way
        raise BadInput(f"{name} cannot be loaded with {dict(args)}: {type(error).__name__}: {error}") from error
    assert isinstance(task, Task)
    return task
