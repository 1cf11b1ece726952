"""The Python script that does what a set-up's commands do."""

import pprint
from collections.abc import Mapping, Sequence
from typing import Any

from click.core import ParameterSource

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import parse_cli_args
from truthgym.ui.forms.options import VERBS, command_of

OTHERWISE = ("tasks", "model", "m", "model_role", "t", "s", "solver", "limit", "log_dir")
"""Parameters of `inspect eval-set` that `eval_set` takes in another form, or in a set place."""


def script_of(commands: Mapping[str, Sequence[str]]) -> str:
    """The body of the script: a call of `eval_set` for each eval, and the command itself for anything else."""
    lists = list(commands.values())
    if all(tuple(words[:2]) == VERBS["eval"] for words in lists):
        calls = [eval_call(words[2:]) for words in lists]
        solver = "from inspect_ai.solver import SolverSpec\n" * any("SolverSpec(" in call for call in calls)
        dates = "import datetime\n\n" * any("datetime.date" in call for call in calls)
        return f"{dates}from inspect_ai import eval_set\n{solver}\n" + "\n".join(calls)
    runs = "\n".join(f"subprocess.run({pprint.pformat(list(words), width=110)}, check=True)" for words in lists)
    return f"import subprocess\n\n{runs}\n"


def eval_call(words: Sequence[str]) -> str:
    """The call of `eval_set` that `inspect eval-set` makes of these words."""
    context = command_of(*VERBS["eval"]).make_context("inspect eval-set", list(words))
    given = {name: value for name, value in context.params.items()
             if context.get_parameter_source(name) == ParameterSource.COMMANDLINE}  # fmt: skip
    call: dict[str, Any] = {"model": str(given["model"]).split(",")} if "model" in given else {}
    call |= {"model_args": parse_cli_args(given["m"])} if "m" in given else {}
    call |= {"model_roles": parse_cli_args(given["model_role"])} if "model_role" in given else {}
    call |= {"task_args": parse_cli_args(given["t"])} if "t" in given else {}
    call |= {"limit": samples(given["limit"])} if "limit" in given else {}
    call |= {name: value for name, value in given.items() if name not in OTHERWISE}
    parts = [f"    {list(given['tasks'])!r},", f"    log_dir={given['log_dir']!r},"]
    if "solver" in given:
        arguments = parse_cli_args(given.get("s", ()))
        parts.append(f"    solver=SolverSpec({given['solver']!r}, {arguments!r}, {arguments!r}),")
    parts += [f"    {name}={value!r}," for name, value in call.items()]
    return "\n".join(["eval_set(", *parts, ")", ""])


def samples(limit: str) -> int | tuple[int, int]:
    """`--limit` as `eval_set` takes it: a number of samples, or with "3-7" those from the third to the seventh."""
    begin, dash, end = limit.partition("-")
    if not begin.isdecimal() or (dash and not end.isdecimal()):
        raise BadInput(f"--limit {limit!r} cannot be used; give a number of samples such as 10, or a range such as 3-7")
    return (int(begin) - 1, int(end)) if dash else int(begin)
