"""`truthgym`: what Inspect's command line does not do."""

import sys
from importlib import import_module

import click

COMMANDS = {
    "fetch": "The rows of a real source, as they stand today, to a file that an eval can be repeated from",
    "convert": "Inspect logs to datasets that TRL, few_shot and vendors' fine-tuning read",
    "train": "Train a model on a converted dataset, here or at a vendor",
    "loop": "Ask a model, make a dataset of what it said, train it and ask again, for one or more rounds",
    "tiny": "Make a tiny language model that trains on a laptop",
    "card": "Add evaluation logs to the card of a trained model",
}
"""Each command with what it is for. It stands in `cli/NAME.py` as `command`, which is loaded when it is called."""


class Commands(click.Group):
    """Commands that are loaded when they are called, so that one does not pay for the imports of another."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"truthgym.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def commands() -> None:
    """Truthgym: from Inspect's logs to datasets and trained models."""


def main() -> None:
    """Run the command line. Bad input is one message and exit status 1, without a traceback."""
    try:
        commands()
    except Exception as error:
        # Inspect holds the class of these errors; where nothing of it is loaded, no such error was raised.
        if "inspect_ai" not in sys.modules:
            raise
        from rich.console import Console

        from truthgym.datasets.inspect_private import PrerequisiteError

        if not isinstance(error, PrerequisiteError):
            raise
        Console(stderr=True, soft_wrap=True, highlight=False).print(error.message)
        sys.exit(1)


if __name__ == "__main__":
    main()
