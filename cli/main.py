"""`truthgym`: commands that Inspect's command line does not have."""

import sys
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn

import click
from yaml import YAMLError

GROUPS = {
    "Measure": {
        "check": "Say whether a file of questions can be used, what was understood of it, and what it can measure",
        "fetch": "Save a real source's current rows to a file, so that an eval can be repeated",
        "cost": "Say how many model calls and tokens a run will take, before it starts",
        "worlds": "Say which reader models follow in each generated world, and what their errors cost",
    },
    "Look": {
        "compare": "Compare models on the same questions, with paired intervals",
        "report": "Write a site from logs: scores, differences, costs and caveats, a page for each question",
        "ui": "Open a page in the browser on which runs are composed, started and watched",
        "lineage": "Show and check what was made from what, and whether an eval got worse",
        "card": "Add evaluation logs to the card of a trained model",
    },
    "Train": {
        "convert": "Convert Inspect logs to datasets for TRL, few_shot and providers' fine-tuning",
        "train": "Train a model on a converted dataset, locally or at a provider",
        "loop": "Evaluate a model, train it on its own answers and evaluate it again, for one or more rounds",
        "plan": "Say how much memory training takes on each GPU, before it starts",
        "models": "Make a model that runs and trains on a laptop: tiny, a toy, or smollm2, a real language model",
        "tiny": "Short for `truthgym models tiny`",
    },
    "Reward": {
        "rubric": "Search for a rubric, export it as an artifact, verify it and record where it is deployed",
        "serve": "Serve a scorer as a reward for trainers that run elsewhere",
    },
    "Scale": {"sweep": "Run a script of eval sets on many workers: processes, a Ray cluster or Slurm"},
}
"""Commands with their help, by what they are for. Evals themselves are Inspect's: `inspect eval truthgym/TASK`."""
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
"""All of them. The command NAME is `command` in `cli/NAME.py`, if not as MODULES has it."""
MODULES = {"tiny": "models"} | dict.fromkeys(
    ("card", "check", "compare", "cost", "fetch", "plan", "sweep", "ui", "worlds"), "commands"
)
"""The modules of the commands that have no file of their own: they are called there as here."""
OF_INSPECT = ("eval", "eval-set", "eval-retry", "score", "view", "log", "list")
"""Commands of Inspect that people look for here."""


def command_named(name: str) -> click.Command:
    """A command. KeyError if there is none of this name."""
    if name not in COMMANDS:
        raise KeyError(name)
    own, module = ("command", name) if name not in MODULES else (name, MODULES[name])
    command: click.Command = getattr(import_module(f"truthgym.cli.{module}"), own)
    return command


class Commands(click.Group):
    """Loads each command when it is called, so that it does not pay for the imports of the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_named(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for name, group in GROUPS.items():
            with formatter.section(name):
                formatter.write_dl([(f"{command:{width}}", text) for command, text in group.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in COMMANDS or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        near = get_close_matches(args[0], COMMANDS, n=1)
        hint = f"did you mean `truthgym {near[0]}`?" if near else "`truthgym --help` lists all"
        if args[0] in OF_INSPECT:
            hint = f"it is Inspect's: write `inspect {' '.join(args)}`"
        raise click.UsageError(f"There is no command `truthgym {args[0]}`; {hint}", ctx)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="truthgym", prog_name="truthgym")
def commands() -> None:
    """Truthgym: from Inspect's logs to datasets and trained models. `inspect eval truthgym/TASK` asks the questions."""


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

    Console(stderr=True, soft_wrap=True, highlight=False, emoji=False).print(message)
    sys.exit(1)


if __name__ == "__main__":
    main()
