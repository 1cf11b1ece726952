"""`truthgym models NAME`, and `truthgym tiny`: make the folder of a model that runs and trains on a laptop."""

from pathlib import Path
from typing import Any

import click

from truthgym.training.tiny import STEPS


@click.command("tiny")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the model.")
@click.option("--seed", default=0, show_default=True, help="Seed of the weights and of the warm start's data.")
@click.option("--steps", default=STEPS, show_default=True, help="Steps of the warm start; 0 for random weights.")
@click.option("--hidden", default=128, show_default=True, help="Width, a multiple of 32.")
@click.option("--layers", default=2, show_default=True, help="Number of layers.")
@click.option("--overwrite", is_flag=True, help="Replace an existing tiny model.")
def tiny(out: Path, **settings: Any) -> None:
    """Make a tiny language model: config, tokenizer, chat template, and weights after a warm start on `urns`.

    A toy: it answers in the requested format, but noisily, so that there is something to select and to learn.
    """
    from truthgym.training import tiny

    folder = tiny.tiny(out, **settings)
    click.echo(f"{folder}: evaluate it with: inspect eval truthgym/urns --model hf/{folder} --max-tokens 12")


@click.group("models")
def command() -> None:
    """Make a folder that `inspect eval --model hf/FOLDER` and `truthgym train` take."""


command.add_command(tiny)


@command.command("smollm2")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the model.")
@click.option("--overwrite", is_flag=True, help="Replace an existing SmolLM2.")
def smollm2(out: Path, overwrite: bool) -> None:
    """Download SmolLM2-135M-Instruct, a real language model (93 MB; 540 MB in the folder)."""
    from truthgym.training.smollm2 import smollm2

    folder = smollm2(out, overwrite=overwrite)
    click.echo(
        f"{folder}: evaluate it with: inspect eval truthgym/urns --model hf/smollm2:135m -M model_path={folder} "
        "--max-tokens 256"
    )
