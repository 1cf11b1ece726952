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
    from truthgym.training.trainers.model_card import EVALUATIONS

    card = add_evaluations(folder, logs)
    _, _, after = card.read_text(encoding="utf-8").partition(f"{EVALUATIONS}\n")
    evaluations, _, _ = after.partition("\n## ")
    click.echo(f"{evaluations.strip()}\n\nWritten: {card}")
