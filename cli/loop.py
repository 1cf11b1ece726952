"""`truthgym loop`: ask, convert, train, ask again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from truthgym.training.closed_loop.options import METHODS, Loop


def _options() -> Iterator[click.Option]:
    """The fields of `Loop`, under their own names and with hyphens."""
    for name, field in Loop.model_fields.items():
        spelled = [f"--{name}", *([f"--{name.replace('_', '-')}"] if "_" in name else [])]
        told: dict[str, Any] = {"help": field.description, "default": None}
        if field.default not in (None, {}, False) and not field.is_required():
            told["help"] = f"{field.description} [default: {field.default}]"
        if field.annotation is bool:
            told |= {"is_flag": True}
        elif name == "method":
            told |= {"type": click.Choice(METHODS)}
        elif name == "task":
            told |= {"multiple": True}
        yield click.Option([*spelled, name], **told)


class LoopCommand(click.Command):
    """With an option for each field."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401
        super().__init__(**given)
        self.params = [*self.params, *_options()]


@click.command("loop", cls=LoopCommand, epilog="docs/loop.md goes the whole way.")
@click.option("--config", type=click.Path(path_type=Path), help="YAML file with these options; those here come first.")
@click.argument("training", nargs=-1, type=click.UNPROCESSED, metavar="[-- TRAINING OPTIONS]")
def command(config: Path | None, training: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401
    """Ask a model, make a dataset of what it said, train it, and ask it questions that it has not seen.

    The same command goes on where it was cut off. What stands after -- are options of `truthgym train METHOD`.
    """
    from truthgym.training.closed_loop.options import by_name
    from truthgym.training.loop import loop
    from truthgym.training.trainers.yaml_options import read_options

    options = {name.replace("-", "_"): value for name, value in (read_options(config) if config else {}).items()}
    said = {name: list(value) if name == "task" else value for name, value in given.items()}
    options |= {name: value for name, value in said.items() if value not in (None, [], False)}
    if training and isinstance(options.get("train"), str):
        raise click.UsageError("--train and what follows -- say the same; give one of the two")
    if training:
        options["train"] = {**(options.get("train") or {}), **by_name(training)}
    loop(options)
