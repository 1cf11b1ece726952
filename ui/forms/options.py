"""The options of the commands, from their own parsers."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from sys import modules

import click

from truthgym.datasets.errors import BadInput

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
PASSTHROUGH = {"loop": ["--"]}
"""What stands before the words that a command hands on to another one."""


@dataclass(frozen=True)
class Option:
    """An option or argument of a command."""

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
    return next(found for group in groups if (found := group.get_command(click.Context(group), name)))


def options_of(verb: str) -> list[Option]:
    """Arguments and options of a verb's command, in its order."""
    return [_option(param) for param in command_of(*VERBS[verb]).params if not set(param.opts) & set(SECRET)
            and not getattr(param, "hidden", False)]  # fmt: skip


def _option(param: click.Parameter) -> Option:
    name = max(param.opts, key=len) if isinstance(param, click.Option) else str(param.name)
    listed = tuple(str(choice) for choice in param.type.choices) if isinstance(param.type, click.Choice) else ()
    words = param.nargs == -1 and isinstance(param.type, type(click.UNPROCESSED))
    kind = "text"
    if isinstance(param, click.Option) and param.is_flag:
        kind = "flag"
    elif listed:
        kind = "choice"
    elif words:
        kind = "words"
    elif param.multiple or param.nargs == -1:
        kind = "lines"
    elif isinstance(param.type, click.types.IntParamType | click.types.FloatParamType):
        kind = "number"
    shown = param.default if isinstance(param.default, str | int | float) and kind != "flag" else ""
    said = getattr(param, "help", None) or ""
    off = max(param.secondary_opts, key=len, default="")
    return Option(name, " ".join(said.split()), kind, listed, param.required, str(shown), off)


def words_of(verb: str, fields: Fields, options: Sequence[Option] | None = None) -> list[str]:
    """The words of a command line that the fields stand for, without the command's own name."""
    options = options_of(verb) if options is None else options
    given = {option.name: [value for value in fields.get(option.name, []) if value.strip()] for option in options}
    flags = [one for one in options if one.name.startswith("-")]
    plain = [one for one in options if not one.name.startswith("-")]
    before = [word for one in plain if one.kind != "words" for word in _positional(one, given[one.name])]
    after = [word for one in plain if one.kind == "words" for word in split_words(one.name, given[one.name])]
    after = [*PASSTHROUGH.get(verb, []), *after] if after else []
    return [*before, *(word for flag in flags for word in _flagged(flag, given[flag.name])), *after]


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
