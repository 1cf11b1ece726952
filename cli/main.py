"""`truthgym`: commands that Inspect's command line does not have."""

import sys
from importlib import import_module
from typing import NoReturn

import click
from yaml import YAMLError

COMMANDS = {
    "fetch": "Save a real source's current rows to a file, so that an eval can be repeated",
    "check": "Say whether a file of questions can be used, what was understood of it, and what it can measure",
    "convert": "Convert Inspect logs to datasets for TRL, few_shot and providers' fine-tuning",
    "train": "Train a model on a converted dataset, locally or at a provider",
    "compare": "Compare models on the same questions, with paired intervals",
    "report": "Write a site from logs: scores, differences, costs and caveats, a page for each question",
    "cost": "Say how many model calls and tokens a run will take, before it starts",
    "plan": "Say how much memory training takes on each GPU, before it starts",
    "worlds": "Ask models the questions of all generated worlds: how far they are from the exact posteriors",
    "sweep": "Run a script of eval sets on many workers: processes, a Ray cluster or Slurm",
    "loop": "Evaluate a model, train it on its own answers and evaluate it again, for one or more rounds",
    "serve": "Serve a scorer as a reward for trainers that run elsewhere",
    "ui": "Open a page in the browser on which runs are composed, started and watched",
    "models": "Make a model that runs and trains on a laptop: tiny, a toy, or smollm2, a real language model",
    "tiny": "Short for `truthgym models tiny`",
    "rubric": "Search for a rubric, export it as an artifact, verify it and record where it is deployed",
    "lineage": "Show and check what was made from what, and whether an eval got worse",
    "card": "Add evaluation logs to the card of a trained model",
}
"""Commands with their help. The command NAME is `command` in `cli/NAME.py`; `tiny` is in `cli/models.py`."""


def command_named(name: str) -> click.Command:
    """A command. KeyError if there is none of this name."""
    if name not in COMMANDS:
        raise KeyError(name)
    if name == "tiny":
        from truthgym.cli.models import tiny

        return tiny
    command: click.Command = import_module(f"truthgym.cli.{name}").command
    return command


class Commands(click.Group):
    """Loads each command when it is called, so that it does not pay for the imports of the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_named(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="truthgym", prog_name="truthgym")
def commands() -> None:
    """Truthgym: from Inspect's logs to datasets and trained models."""


def main() -> None:
    """Run the command line. Bad input is one message and exit status 1, without a traceback."""
    try:
        commands()
    except OSError as error:
        if not error.filename:
            raise
        from rich.markup import escape

        _end(escape(f"{error.filename!s:.300}: {error.strerror}; check the path, its rights and the space left"))
    except YAMLError as error:
        from rich.markup import escape

        _end(escape(f"An option's value or a file is no YAML ({error}); check its brackets and quotes"))
    except Exception as error:
        # BadInput derives from a class of Inspect: if Inspect is not loaded, this is another error.
        if "inspect_ai" not in sys.modules:
            raise
        from truthgym.datasets.inspect_private import PrerequisiteError

        if not isinstance(error, PrerequisiteError):
            raise
        _end(str(error.message))


def _end(message: str) -> NoReturn:
    """Print a message to stderr and exit with status 1."""
    from rich.console import Console

    Console(stderr=True, soft_wrap=True, highlight=False).print(message)
    sys.exit(1)


if __name__ == "__main__":
    main()
