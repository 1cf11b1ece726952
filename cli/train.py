"""`truthgym train`: train a model on a converted dataset, here or at a vendor."""

from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from truthgym.scorers.statistics.direction import Best

METHODS = {
    "sft": "on completions, or on messages",
    "dpo": "on preference pairs",
    "kto": "on completions that are each labelled good or bad",
    "reward": "a reward model, on preference pairs or on labelled reasoning steps",
    "grpo": "by reinforcement on any Inspect task: rollouts of a question against their mean",
    "rloo": "the same, each against the mean of the others, with the whole reply as one act",
    "reinforcement": "with a grader, at a vendor",
    "few_shot": "no weights: the best trajectories of logs become examples",
}
HELP = ("-h", "--help")


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, options_metavar="")
@click.argument("method", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS]")
def command(method: str | None, arguments: tuple[str, ...]) -> None:
    """Train a model: truthgym train METHOD --model_name_or_path MODEL --dataset_name FOLDER [OPTIONS].

    OPTIONS are TRL's own, and ours: `truthgym train sft --help` lists them. `--config FILE` reads them from YAML. With
    `--provider openai` or `--provider together` the vendor trains.
    """
    from truthgym.evallog.errors import bad_input

    words = list(arguments)
    if method is None or method in HELP:
        listed = "\n".join(f"  {name:14}{told}" for name, told in METHODS.items())
        click.echo(f"{command.get_help(click.get_current_context())}\n\nMethods:\n{listed}")
        return
    if method not in METHODS:
        raise bad_input(f"truthgym train {method}: there is no such method; known are {', '.join(METHODS)}")
    if method == "few_shot":
        few_shot(words, prog_name="truthgym train few_shot", standalone_mode=False)
        return
    if any(word.partition("=")[0] == "--provider" for word in words):
        from truthgym.cli.fine_tune import fine_tune

        fine_tune(method, words)
        return
    if method == "reinforcement":
        raise bad_input("truthgym train reinforcement: only a vendor does it; say --provider openai")
    train(method, words)


def train(method: str, words: list[str]) -> None:
    """Train here: in this process, or through `accelerate launch` where there are several GPUs."""
    from truthgym.training.trainers.launch import start
    from truthgym.training.trainers.options import parse_options

    try:
        import trl  # noqa: F401
    except ImportError:
        from truthgym.evallog.errors import bad_input

        raise bad_input('truthgym train: TRL is not installed; run `pip install "truthgym[train]"`') from None
    if start(method, words, parse_options(method, words)):
        getattr(import_module(f"truthgym.training.{method}"), method)(words)


@click.command("few_shot", context_settings={"help_option_names": list(HELP)})
@click.option("--model_name_or_path", "--model", "model", required=True, help="The model, as Inspect names it.")
@click.option("--log", "logs", multiple=True, required=True, help="Logs, or folders of logs; can be given again.")
@click.option("--score", help="Which score is best, as in `truthgym convert` [default: brier_score].")
@click.option("--best", type=click.Choice(["lowest", "highest"]), help="Its better end, if the scorer is silent.")
@click.option("--top", type=float, help="Share of the trajectories [default: 0.1].")
@click.option("--count", type=int, help="At most so many [default: 100].")
@click.option("--output_dir", "--output-dir", default="trained", show_default=True)
@click.option("--overwrite", is_flag=True, help="Write again what is there already.")
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
    """Make examples for the solver truthgym/few_shot of the best trajectories of logs."""
    from truthgym.training.conversion.selection import Selection
    from truthgym.training.few_shot import few_shot

    selection = Selection(score=score, best=best, top=top, count=count)
    click.echo(f"Examples: {few_shot(model, logs, selection, output_dir, overwrite)}")
