"""`truthgym loop`: evaluate, convert, train and evaluate again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

from truthgym.training.closed_loop.options import METHODS, LoopConfig


def _type(annotation: object) -> str | None:
    """What an option takes, for the help."""
    parts = [part for part in (annotation, *get_args(annotation)) if part is not type(None)]
    values = [str(value) for part in parts if get_origin(part) is Literal for value in get_args(part)]
    if values:
        return f"[{'|'.join(values)}]"
    if any(get_origin(part) is dict for part in parts):
        return "{NAME: VALUE}"
    return next((text for kind, text in {int: "INTEGER", float: "NUMBER", str: "TEXT"}.items() if kind in parts), None)


def _options() -> Iterator[click.Option]:
    """An option for each field of `LoopConfig`, spelled with underscores or hyphens."""
    for name, field in LoopConfig.model_fields.items():
        flags = dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"])
        if name == "model_name_or_path":
            flags = {"--model": None} | flags
        settings: dict[str, Any] = {"help": field.description, "default": None, "metavar": _type(field.annotation)}
        if not field.is_required() and field.default not in (None, {}, False):
            settings["help"] = f"{field.description} [default: {field.default}]"
        if field.annotation is bool:
            settings["is_flag"] = True
        elif name == "method":
            settings |= {"type": click.Choice(METHODS), "metavar": None}
        elif name == "task":
            settings["multiple"] = True
        yield click.Option([*flags, name], **settings)


class LoopCommand(click.Command):
    """A command with the options of `LoopConfig`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.params = [*self.params, *_options()]


@click.command("loop", cls=LoopCommand, epilog="See docs/loop.md.")
@click.option("--config", type=click.Path(path_type=Path), help="YAML file with these options; the command line wins.")
@click.option(
    "-T", "arguments", multiple=True, metavar="NAME=VALUE", help="One argument of the tasks, in place of --task_args."
)
@click.argument("training", nargs=-1, type=click.UNPROCESSED, metavar="[-- TRAINING OPTIONS]")
def command(config: Path | None, arguments: tuple[str, ...], training: tuple[str, ...], **flags: Any) -> None:
    """Evaluate a model, train it on a dataset of its own answers, and evaluate it on held-out questions.

    The same command resumes an interrupted loop. Everything after -- is an option of `truthgym train METHOD`.
    """
    from truthgym.training.closed_loop.options import parse_training_options
    from truthgym.training.loop import loop
    from truthgym.training.trainers.options import mapping_option, read_options

    options = {name.replace("-", "_"): value for name, value in (read_options(config) if config else {}).items()}
    flags["task"] = list(flags["task"])
    options |= {name: value for name, value in flags.items() if value not in (None, [], False)}
    if arguments:
        from truthgym.datasets.inspect_private import parse_cli_args

        options["task_args"] = mapping_option("--task_args", options.get("task_args")) | parse_cli_args(arguments)
    if training:
        if isinstance(options.get("train"), str):
            raise click.UsageError("both --train and -- have training options; use one of them")
        options["train"] = {**(options.get("train") or {}), **parse_training_options(training)}
    loop(options)
