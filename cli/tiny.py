"""`truthgym models tiny`, and its alias `truthgym tiny`: make a tiny language model that trains on a laptop."""

from pathlib import Path

import click

from truthgym.training.tiny import STEPS


@click.command("tiny")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the model.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the weights and of the warm start's data."
)
@click.option(
    "--steps", type=int, default=STEPS, show_default=True, help="Steps of the warm start; 0 for random weights."
)
@click.option("--hidden", type=int, default=128, show_default=True, help="Width, a multiple of 32.")
@click.option("--layers", type=int, default=2, show_default=True, help="Number of layers.")
@click.option("--overwrite", is_flag=True, help="Replace an existing tiny model.")
def command(out: Path, seed: int, steps: int, hidden: int, layers: int, overwrite: bool) -> None:
    """Make a tiny language model: config, tokenizer, chat template, and weights after a warm start on `urns`.

    A toy: it answers in the requested format, but noisily, so that there is something to select and to learn.
    """
    from truthgym.training.tiny import tiny

    folder = tiny(out, seed=seed, steps=steps, overwrite=overwrite, hidden=hidden, layers=layers)
    click.echo(f"{folder}: evaluate it with: inspect eval truthgym/urns --model hf/{folder} --max-tokens 12")
