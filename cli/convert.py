"""`truthgym convert`: converts Inspect logs to a dataset."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar, get_args, get_type_hints

import click

from truthgym.evallog.discovery import UNREADABLE
from truthgym.training.conversion.options import ConversionConfig, Kind, Selection

F = TypeVar("F", bound=Callable[..., Any])


def _choice(name: str, text: str | None = None) -> Callable[[F], F]:
    """An option with the values and the default of a field of `ConversionConfig`."""
    values, default = get_args(get_type_hints(ConversionConfig)[name]), getattr(ConversionConfig, name)
    flag = f"--{name.replace('_', '-')}"
    return click.option(flag, type=click.Choice(values), default=default, show_default=True, help=text)


@click.command("convert", epilog="docs/convert.md explains each kind.")
@click.argument("logs", nargs=-1, required=True)
@click.option("--to", type=click.Choice(get_args(Kind)), required=True, help="Kind of dataset.")
@click.option("--out", required=True, help="Folder to write: rows and a card.")
@click.option("--score", help="KEY, SCORER or SCORER/KEY of a number in the logs [default: brier_score].")
@click.option(
    "--best", type=click.Choice(["lowest", "highest"]), help="Better end of the score, if the scorer does not say."
)
@click.option("--top", type=float, help="Share with the best scores [default: 0.1 if no other option selects].")
@click.option("--count", type=int, help="At most this many trajectories.")
@click.option("--threshold", type=float, help="Only scores at least as good as this.")
@click.option("--best-per-question", is_flag=True, help="Only the best trajectory of each question.")
@click.option("--aligned", is_flag=True, help="Only trajectories whose belief is on the side of the outcome.")
@click.option("--trajectories", help="Only those listed in this .csv of truthgym.analysis.trajectories.")
@click.option("--all", "everything", is_flag=True, help="Every trajectory, with columns for its outcome.")
@click.option("--split", default="train", show_default=True, help="Splits to train on, with commas; never test.")
@_choice("validation", "Hold out questions by event; gt keeps only correct trajectories of them.")
@_choice("form", "One row per reply, or one per conversation.")
@_choice("reasoning", "Use of a provider's separate reasoning: keep puts it in a think block.")
@_choice("pair_by", "What differs within a pair.")
@_choice("pairs", "Which pairs of a question to take.")
@click.option("--margin", type=float, default=0.0, help="Least difference of scores within a pair.")
@_choice("method", "For --to openai: the fine-tuning method.")
@click.option("--grader", help="For --to openai --method reinforcement [default: python_brier].")
@click.option("--model", help="For verl, prime-rl and tinker: the model to train, for token ids and log-probabilities.")
@_choice("file_format")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draw among equal scores.")
@click.option("--unfinished", is_flag=True, help="Also read logs of runs that never finished.")
@click.option(
    "--any-task",
    is_flag=True,
    help="Also read logs of other projects' tasks, split by the sample's own split or a hash of its id.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing dataset.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def command(
    logs: tuple[str, ...],
    to: Kind,
    out: str,
    split: str,
    unfinished: bool,
    overwrite: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Convert LOGS (files and folders) to a dataset for TRL, few_shot, OpenAI or another trainer.

    Every row records its log and its sample. Questions of the test split are never converted. The number of samples
    that are left out is printed, by reason.
    """
    from truthgym.training.convert import convert

    conditions = {entry.name: options.pop(entry.name) for entry in fields(Selection) if entry.name != "splits"}
    selection = Selection(**conditions, splits=tuple(part.strip() for part in split.split(",") if part.strip()))
    config = ConversionConfig(to, **options)
    with _progress(quiet) as report:
        result = convert(logs, config, out, selection, unfinished=unfinished, overwrite=overwrite, progress=report)
    click.echo(f"{result.samples:,} samples read.{' Left out:' * bool(+result.left_out)}")
    for reason, number in (+result.left_out).most_common():
        click.echo(f"  {number:>8,}  {reason}")
    for reason, number in (+result.fallbacks).most_common():
        click.echo(f"  {number:>8,}  read by Inspect's own reader, which is slower: {reason}")
    if result.warning:
        click.echo(f"Warning: {result.warning}.", err=True)
    click.echo(f"{out}: {', '.join(f'{number:,} rows of {name}' for name, number in result.rows.items())}")
    if bad := sum(reason.startswith(UNREADABLE) for reason in +result.left_out):
        click.echo(f"Incomplete: {bad} file{'s' * (bad > 1)} could not be read.", err=True)
        raise SystemExit(1)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar, if the output is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=quiet or not console.is_terminal, transient=True) as bar:
        task = bar.add_task("Reading logs", total=1.0)
        yield lambda share: bar.update(task, completed=share)
