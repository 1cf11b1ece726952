"""From the fields of a form to the commands that they stand for, as lists of words."""

import pprint
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from inspect import signature
from sys import modules
from typing import Any

import click
from click.core import ParameterSource

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.inspect_private import parse_cli_args
from truthgym.training.trainers.options import METHODS, usual_options

VERBS = {
    "eval": ("inspect", "eval-set"),
    "score": ("inspect", "score"),
    "convert": ("truthgym", "convert"),
    "train": ("truthgym", "train"),
    "loop": ("truthgym", "loop"),
    "report": ("truthgym", "report"),
    "sweep": ("truthgym", "sweep"),
}
"""The command of each verb of the page."""
Fields = Mapping[str, Sequence[str]]
"""The fields of a form: values by name. An option's name begins with its dashes."""
SECRET = ("--env", "--debug", "--debug-port", "--debug-errors", "--traceback-locals", "--no-ansi")
"""Options that the page does not offer: of debuggers and terminals, and `--env`, which could put a key into a file."""


@dataclass(frozen=True)
class Option:
    """An option or argument of a command, or an argument of a task, solver or scorer."""

    name: str
    """The longest of its names, with dashes; of an argument its name."""
    help: str
    kind: str
    """"flag", "choice", "lines" (a value on each line), "words" (as on a command line), "number" or "text"."""
    choices: tuple[str, ...] = ()
    required: bool = False
    default: str = ""
    off: str = ""
    """The name that turns a flag off."""


@cache
def command_of(program: str, name: str) -> click.Command:
    """The command of a program, from the package that installs it. Nothing is run."""
    (script, *_) = entry_points(group="console_scripts", name=program)
    module = modules[script.load().__module__]
    groups = [var for var in vars(module).values() if isinstance(var, click.Group)]
    return next(command for group in groups if (command := group.get_command(click.Context(group), name)))


def options_of(verb: str) -> list[Option]:
    """Arguments and options of a verb's command, in its order."""
    return [_option(param) for param in command_of(*VERBS[verb]).params if not set(param.opts) & set(SECRET)
            and not getattr(param, "hidden", False)]  # fmt: skip


def _option(param: click.Parameter) -> Option:
    name = max(param.opts, key=len) if isinstance(param, click.Option) else str(param.name)
    listed = tuple(str(choice) for choice in param.type.choices) if isinstance(param.type, click.Choice) else ()
    words = param.nargs == -1 and isinstance(param.type, type(click.UNPROCESSED))
    kinds = {
        "flag": isinstance(param, click.Option) and param.is_flag,
        "choice": bool(listed),
        "words": words,
        "lines": param.multiple or param.nargs == -1,
        "number": isinstance(param.type, click.types.IntParamType | click.types.FloatParamType),
    }
    kind = next((name for name, applies in kinds.items() if applies), "text")
    default = param.default if isinstance(param.default, str | int | float) and kind != "flag" else ""
    help_text = getattr(param, "help", None) or ""
    off = max(param.secondary_opts, key=len, default="")
    return Option(name, " ".join(help_text.split()), kind, listed, param.required, str(default), off)


def words_of(verb: str, fields: Fields, options: Sequence[Option] | None = None) -> list[str]:
    """The words of a command line that the fields stand for, without the command's own name."""
    options = options_of(verb) if options is None else options
    values = {option.name: [value for value in fields.get(option.name, []) if value.strip()] for option in options}
    before, flags, after = list[str](), list[str](), list[str]()
    for option in options:
        if option.name.startswith("-"):
            flags += _flagged(option, values[option.name])
        elif option.kind == "words":
            after += split_words(option.name, values[option.name])
        else:
            before += _positional(option, values[option.name])
    return [*before, *flags, *["--"] * bool(verb == "loop" and after), *after]


def split_words(name: str, texts: Sequence[str]) -> list[str]:
    try:
        return [word for text in texts for word in shlex.split(text)]
    except ValueError as error:
        raise BadInput(f"{name}: {' '.join(texts)!r} cannot be read as words: {error}") from None


def _positional(option: Option, values: Sequence[str]) -> Iterator[str]:
    for value in (line for text in values for line in text.splitlines() if line.strip()):
        if value.strip().startswith("-"):
            raise BadInput(f"{option.name}: {value.strip()!r} would be an option; write ./{value.strip()} for a file")
        yield value.strip()


def _flagged(option: Option, values: Sequence[str]) -> Iterator[str]:
    if option.kind == "flag":
        for value in values[-1:]:
            if value == "true" or option.off:
                yield option.name if value == "true" else option.off
        return
    lines = [line for text in values for line in (text.splitlines() if option.kind == "lines" else [text])]
    for value in (line.strip() for line in lines if line.strip()):
        yield from [f"{option.name}={value}"] if value.startswith("-") else [option.name, value]


def check_words(verb: str, words: Sequence[str]) -> None:
    """Have the command's own parser read the words. Nothing is run."""
    program, name = VERBS[verb]
    try:
        command_of(program, name).make_context(f"{program} {name}", list(words))
    except click.exceptions.Exit:  # as --help
        return
    except click.ClickException as error:
        raise BadInput(f"{program} {name}: {error.format_message()}") from None


FIRST = (
    *("--limit", "--epochs", "--max-tokens", "--temperature", "--seed", "--max-connections", "--token-limit"),
    *("--time-limit", "--cost-limit", "--model-cost-config"),
)
"""Options of an eval that people use, which the page shows first."""
TEXTS = ("--limit", "--system-message", "--model-base-url", "--model-cost-config")
"""Options with a text that `eval_set` takes as it stands, but for `--limit`."""
HANDLED = ("--log-dir", "--display", "--model", "--solver")
"""Options that other fields of the form give."""
FOLDERS = {"eval": "logs", "convert": "data", "report": "reports", "loop": "loops"}
"""Where a verb writes if nothing else is said: to a folder there with the setup's name."""
FRESH: Mapping[str, Mapping[str, Sequence[str]]] = {
    "eval": {"tasks": ["truthgym/forecasting"], "models": ["reference/bayesian"]},
    "score": {"--scorer": ["truthgym/martingale"], "--action": ["append"], "--overwrite": ["true"]},
    "convert": {"logs": ["logs"], "--to": ["sft"]},
    "train": {"method": ["sft"]},
    "loop": {"--method": ["sft"], "--task": ["truthgym/urns"]},
    "report": {"logs": ["logs"]},
    "sweep": {},
}
"""What a new form holds: what runs without a key, where there is such a thing."""


def commands_of(fields: Fields, name: str) -> dict[str, list[str]]:
    """The commands of a setup by the label of each: with several reasoning modes one for each, else one."""
    verb = verb_of(fields)
    if verb == "train":
        return {"": ["truthgym", "train", *train_words(fields)]}
    if verb != "eval":
        form = dict(fields)
        if verb in FOLDERS and not value_of(fields, "--out"):
            form["--out"] = [f"{FOLDERS[verb]}/{name}"]
        if verb == "score":
            form |= {"-S": [*(f"{key}={value}" for key, value in arguments_of(fields, "A").items()),
                             *fields.get("-S", [])],
                      "--display": fields.get("--display") or ["plain"]}  # fmt: skip
        words = words_of(verb, form)
        return {"": [*VERBS[verb], *words]}
    solvers = selected(fields, "solvers", "other solvers") or [""]
    commands = {}
    for solver in solvers:
        label = short(solver) if len(solvers) > 1 else ""
        place = "/".join([FOLDERS["eval"], name, *[label] * bool(label)])
        commands[label] = [*VERBS["eval"], *eval_words(fields, solver), "--log-dir", place]
    return commands


def eval_words(fields: Fields, solver: str) -> list[str]:
    """The words of an eval with a reasoning mode; "" is the task's own."""
    words = selected(fields, "tasks", "other tasks")
    if bad := [word for word in words if word.startswith("-")]:
        raise BadInput(f"{bad[0]!r} would be an option and is no task; give a name such as truthgym/urns")
    if models := model_names(fields):
        words += ["--model", ",".join(models)]
    words += _pairs("-M", lines(fields, "M"))
    words += [*solver_words(fields, solver), *role_words(fields), *task_words(fields)]
    return [*words, *words_of("eval", fields, eval_options()), "--display", value_of(fields, "--display") or "plain"]


def solver_words(fields: Fields, solver: str) -> list[str]:
    if not solver:
        return []
    arguments = [f"{key}={value}" for key, value in arguments_of(fields, "S", solver).items()]
    return ["--solver", solver, *_pairs("-S", arguments), *_pairs("-S", lines(fields, f"S {solver}"))]


def role_words(fields: Fields) -> list[str]:
    roles = {key.removeprefix("role "): value_of(fields, key) for key in fields if key.startswith("role ")}
    lists = {role: ",".join(part.strip() for part in models.split(",")) for role, models in roles.items() if models}
    return [word for role, models in lists.items() for word in ("--model-role", f"{role}={models}")]


def task_words(fields: Fields) -> list[str]:
    """The arguments of the tasks. Scorers are names with commas, or a mapping as YAML if one has arguments."""
    words = [*_pairs("-T", [f"{key}={value}" for key, value in arguments_of(fields, "T").items()])]
    words += _pairs("-T", lines(fields, "T"))
    scorers = {name: arguments_of(fields, "P", name) for name in selected(fields, "paradigms")}
    if any(scorers.values()):
        inside = (f"{name}: {{{', '.join(f'{key}: {value}' for key, value in arguments.items())}}}"
                  for name, arguments in scorers.items())  # fmt: skip
        return [*words, "-T", f"paradigms={{{', '.join(inside)}}}"]
    return [*words, "-T", f"paradigms={','.join(scorers)}"] if scorers else words


def train_words(fields: Fields) -> list[str]:
    """The method, the options that people use, and any others as they were written."""
    method = value_of(fields, "method")
    return [*([method] if method else []), *words_of("train", fields, train_options(method))]


def train_options(method: str) -> list[Option]:
    """The options of a training method that people use, and a field for all others."""
    if method not in METHODS:
        return []
    usual = usual_options(method)
    return [
        *(Option(f"--{name}", text, "text", default=default) for name, (text, default) in usual.items()),
        Option(
            "more", f"Any other options, as on a command line: `truthgym train {method} --help` lists them.", "words"
        ),
    ]


def eval_options() -> list[Option]:
    """The options of `inspect eval-set` that `eval_set` takes under the same name: those used most first."""
    from inspect_ai import eval_set
    from inspect_ai.model import GenerateConfig

    accepted = {*signature(eval_set).parameters, *GenerateConfig.model_fields}
    params = {max(param.opts, key=len): param for param in command_of(*VERBS["eval"]).params if param.name in accepted}
    options = [
        option for option in options_of("eval")
        if option.name in params and option.name not in HANDLED and isinstance(params[option.name], click.Option)
        and (option.name in TEXTS or option.kind in ("number", "choice"))
    ]  # fmt: skip
    return sorted(options, key=lambda option: FIRST.index(option.name) if option.name in FIRST else len(FIRST))


def verb_of(fields: Fields) -> str:
    verb = value_of(fields, "verb") or "eval"
    one_of("verb", verb, list(VERBS))
    return verb


def value_of(fields: Fields, name: str) -> str:
    """The first value of a field, or an empty text."""
    return next(iter(fields.get(name, ())), "").strip()


def lines(fields: Fields, name: str) -> list[str]:
    return [line.strip() for text in fields.get(name, ()) for line in text.splitlines() if line.strip()]


def selected(fields: Fields, ticked: str, written: str = "") -> list[str]:
    """Names that are ticked, and those that are written, on lines or with commas between them."""
    names = [*fields.get(ticked, ()), *(part for line in lines(fields, written) for part in line.split(","))]
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def model_names(fields: Fields) -> list[str]:
    """The models, with commas, spaces or lines between them."""
    return list(dict.fromkeys(name for text in fields.get("models", ()) for name in re.split(r"[,\s]+", text) if name))


def arguments_of(fields: Fields, letter: str, name: str = "") -> dict[str, str]:
    """The arguments that fields give: those whose name is the letter, the name of what takes them, and their own."""
    start = f"{letter} {name} " if name else f"{letter} "
    values = {key.removeprefix(start): value_of(fields, key) for key in fields if key.startswith(start)}
    return {key: value for key, value in values.items() if value and " " not in key}


def short(name: str) -> str:
    """A name without its package or file."""
    return re.sub(r"[^\w-]", "_", name.rpartition("@")[2].rpartition("/")[2].removesuffix(".py"))


def _pairs(option: str, values: Sequence[str]) -> Iterator[str]:
    for value in values:
        if "=" not in value or value.startswith("-"):
            raise BadInput(f"{option} {value}: write it as NAME=VALUE")
        yield from (option, value)


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
    options = {name: value for name, value in context.params.items()
             if context.get_parameter_source(name) == ParameterSource.COMMANDLINE}  # fmt: skip
    call: dict[str, Any] = {"model": str(options["model"]).split(",")} if "model" in options else {}
    call |= {"model_args": parse_cli_args(options["m"])} if "m" in options else {}
    call |= {"model_roles": parse_cli_args(options["model_role"])} if "model_role" in options else {}
    call |= {"task_args": parse_cli_args(options["t"])} if "t" in options else {}
    call |= {"limit": samples(options["limit"])} if "limit" in options else {}
    call |= {name: value for name, value in options.items() if name not in OTHERWISE}
    parts = [f"    {list(options['tasks'])!r},", f"    log_dir={options['log_dir']!r},"]
    if "solver" in options:
        arguments = parse_cli_args(options.get("s", ()))
        parts.append(f"    solver=SolverSpec({options['solver']!r}, {arguments!r}, {arguments!r}),")
    parts += [f"    {name}={value!r}," for name, value in call.items()]
    return "\n".join(["eval_set(", *parts, ")", ""])


def samples(limit: str) -> int | tuple[int, int]:
    """`--limit` as `eval_set` takes it: a number of samples, or with "3-7" those from the third to the seventh."""
    begin, dash, end = limit.partition("-")
    if not begin.isdecimal() or int(begin) < 1 or (dash and not (end.isdecimal() and int(begin) <= int(end))):
        raise BadInput(f"--limit {limit!r} cannot be used; give a number of samples such as 10, or a range such as 3-7")
    return (int(begin) - 1, int(end)) if dash else int(begin)
