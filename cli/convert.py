"""`truthgym convert`: Inspect logs to a dataset."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

KINDS = ("sft", "preference", "prompts", "unpaired", "steps", "few_shot", "openai")


@click.command("convert", epilog="docs/convert.md explains each kind.")
@click.argument("logs", nargs=-1, required=True)
@click.option("--to", type=click.Choice(KINDS), required=True, help="What is trained on it.")
@click.option("--out", required=True, help="Folder of the dataset: its rows and its card.")
@click.option("--score", help="KEY, SCORER or SCORER/KEY of a number in the logs [default: brier_score].")
@click.option(
    "--best", type=click.Choice(["lowest", "highest"]), help="The score's better end, if the scorer is silent."
)
@click.option("--top", type=float, help="Share with the best scores [default: 0.1, if nothing else selects].")
@click.option("--count", type=int, help="At most so many of them.")
@click.option("--threshold", type=float, help="Scores as good as this, or better.")
@click.option("--best-per-question", is_flag=True, help="Of each question the best trajectory.")
@click.option("--aligned", is_flag=True, help="Only beliefs on the side of the outcome.")
@click.option("--all", "everything", is_flag=True, help="Every trajectory, scored or not, with its outcome.")
@click.option("--split", default="train", show_default=True, help="Splits to learn from, with commas; never test.")
@click.option("--validation", type=click.Choice(["none", "train", "gt"]), default="none", show_default=True,
              help="Hold out questions, by event; gt takes of them what is on the outcome's side.")  # fmt: skip
@click.option("--form", type=click.Choice(["prompt-completion", "messages"]), default="prompt-completion",
              show_default=True, help="A row a reply, or a row a conversation.")  # fmt: skip
@click.option("--reasoning", type=click.Choice(["keep", "drop", "only"]), default="drop", show_default=True,
              help="What becomes of reasoning that a provider keeps apart: keep puts it in a think block.")  # fmt: skip
@click.option("--pair-by", type=click.Choice(["epoch", "solver", "model"]), default="epoch", show_default=True,
              help="What the two of a pair differ in.")  # fmt: skip
@click.option("--pairs", type=click.Choice(["widest", "all"]), default="widest", show_default=True,
              help="Pairs of a question.")  # fmt: skip
@click.option("--margin", type=float, default=0.0, help="Least difference of scores in a pair.")
@click.option("--method", type=click.Choice(["supervised", "preference", "reinforcement"]), default="supervised",
              show_default=True, help="Of --to openai: what the file is for.")  # fmt: skip
@click.option("--grader", help="Of --to openai --method reinforcement [default: python_brier].")
@click.option("--file-format", type=click.Choice(["jsonl", "parquet", "arrow"]), default="jsonl", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draw among equal scores.")
@click.option("--unfinished", is_flag=True, help="Also what there is of runs that never finished.")
@click.option(
    "--any-task", is_flag=True, help="Also logs of other projects' tasks, split by a hash of the sample's id."
)
@click.option("--overwrite", is_flag=True, help="Replace a dataset that is there.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def command(
    logs: tuple[str, ...],
    to: str,
    out: str,
    split: str,
    unfinished: bool,
    overwrite: bool,
    quiet: bool,
    **options: object,
) -> None:
    """Convert LOGS (files and folders) to a dataset that TRL, few_shot or OpenAI reads.

    Every row tells which sample of which log it is from. Questions of the test split are never converted; whatever is
    left out is counted and printed.
    """
    from truthgym.training.conversion.config import ConversionConfig
    from truthgym.training.conversion.selection import Selection
    from truthgym.training.convert import convert

    chosen = ("score", "best", "top", "count", "threshold", "best_per_question", "aligned", "everything", "seed")
    selects = {name: options.pop(name) for name in chosen}
    selection = Selection(**selects, splits=tuple(part.strip() for part in split.split(",") if part.strip()))  # type: ignore[arg-type]
    config = ConversionConfig(to, **options)  # type: ignore[arg-type]
    with _progress(quiet) as tell:
        made = convert(logs, config, out, selection, unfinished=unfinished, overwrite=overwrite, progress=tell)
    click.echo(f"{made.samples:,} samples read. Left out:" if +made.left_out else f"{made.samples:,} samples read.")
    for reason, number in (+made.left_out).most_common():
        click.echo(f"  {number:>8,}  {reason}")
    for reason, number in (+made.fallbacks).most_common():
        click.echo(f"  {number:>8,}  were read by Inspect's own reader, which is slower: {reason}")
    click.echo(f"{out}: {', '.join(f'{number:,} rows of {name}' for name, number in made.rows.items())}")


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[float], None]]:
    """A bar for whoever watches; nothing where the output goes to a file."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=quiet or not console.is_terminal, transient=True) as bar:
        task = bar.add_task("Reading logs", total=1.0)
        yield lambda share: bar.update(task, completed=share)
