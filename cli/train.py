"""`truthgym train`: train a model on this machine or at a provider."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from truthgym.training.trainers.options import METHODS

if TYPE_CHECKING:
    from truthgym.scorers.statistics.direction import Best

HELP = ("-h", "--help")


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, options_metavar="")
@click.argument("method", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS]")
def command(method: str | None, arguments: tuple[str, ...]) -> None:
    """Train a model: truthgym train METHOD --model_name_or_path MODEL --dataset_name FOLDER [OPTIONS].

    OPTIONS are TRL's and Truthgym's: `truthgym train sft --help` lists them. `--config FILE` reads them from YAML. With
    `--provider openai` or `--provider together` the provider trains the model.
    """
    from truthgym.evallog.errors import bad_input

    words = list(arguments)
    if method is None or method in HELP:
        listed = "\n".join(f"  {name:14}{text}" for name, text in METHODS.items())
        click.echo(f"{command.get_help(click.get_current_context())}\n\nMethods:\n{listed}")
        return
    if method not in METHODS:
        raise bad_input(f"truthgym train {method}: unknown method; give one of {', '.join(METHODS)}.")
    if method == "few_shot":
        few_shot(words, prog_name="truthgym train few_shot", standalone_mode=False)
        return
    if any(word.partition("=")[0] == "--provider" for word in words):
        from truthgym.cli.fine_tune import fine_tune

        fine_tune(method, words)
        return
    if method == "reinforcement":
        raise bad_input("truthgym train reinforcement: needs a provider; add --provider openai.")
    train(method, words)


def train(method: str, words: list[str]) -> None:
    """Train on this machine: in this process, or through `accelerate launch` if there are several GPUs."""
    from truthgym.evallog.errors import bad_input
    from truthgym.training.trainers.accelerate_launch import start
    from truthgym.training.trainers.options import parse_options

    has_trl = find_spec("trl") is not None
    if set(words) & set(HELP):
        click.echo(usual_help(method))
        click.echo("All options:" if has_trl else 'For all options run `pip install -e ".[train]"`.')
        if not has_trl:
            return
    if not has_trl:
        raise bad_input('truthgym train: TRL is not installed; run `pip install -e ".[train]"`.')
    if start(method, words, parse_options(method, words)):
        from truthgym.training.train import TRAINERS

        TRAINERS[method](words)


def usual_help(method: str) -> str:
    """The options that people use, for the top of `--help`."""
    from truthgym.training.trainers.options import usual_options

    rows = [(f"--{name}", f"{text} [{default}]" if default else text)
            for name, (text, default) in usual_options(method).items()]  # fmt: skip
    formatter = click.HelpFormatter(width=100)
    formatter.write_usage(f"truthgym train {method}", "[OPTIONS]")
    with formatter.section(f"{method}: {METHODS[method]}. Usual options [and defaults that differ from TRL's]"):
        formatter.write_dl(rows)
    return formatter.getvalue()


@click.command("few_shot", context_settings={"help_option_names": list(HELP)})
@click.option("--model_name_or_path", "--model", "model", required=True, help="The model, as Inspect names it.")
@click.option("--log", "logs", multiple=True, required=True, help="A log, or a folder of logs; can be repeated.")
@click.option("--score", help="The score to select by, as in `truthgym convert` [default: brier_score].")
@click.option(
    "--best",
    type=click.Choice(["lowest", "highest"]),
    help="Which end of the score is better, if the scorer does not say.",
)
@click.option("--top", type=float, help="Share of the trajectories [default: 0.1].")
@click.option("--count", type=int, help="Maximum number of trajectories [default: 100].")
@click.option("--output_dir", "--output-dir", default="trained", show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace existing examples.")
def few_shot(
    model: str,
    logs: tuple[str, ...],
    score: str | None,
    best: "Best | None",
    top: float | None,
    count: int | None,
    output_dir: str,
    overwrite: bool,
) -> None:
    """Turn the best trajectories of logs into examples for the solver truthgym/few_shot."""
    from truthgym.training.conversion.selection import Selection
    from truthgym.training.train import few_shot

    selection = Selection(score=score, best=best, top=top, count=count)
    click.echo(f"Examples: {few_shot(model, logs, selection, output_dir, overwrite)}")
