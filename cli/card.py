"""`truthgym card`: add evaluations to the card of a trained model."""

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--log", "logs", multiple=True, required=True, help="A log, or a folder of logs; can be repeated.")
def command(folder: Path, logs: tuple[str, ...]) -> None:
    """Add evaluations of the model in FOLDER, and of its base, to its card.

    If both answered the same questions, the card also reports the difference with its 95 % interval.
    """
    from truthgym.training.evaluations import add_evaluations

    click.echo(f"Written: {add_evaluations(folder, logs)}")
