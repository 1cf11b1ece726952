"""`truthgym models NAME`: make the folder of a model that runs and trains on a laptop."""

from pathlib import Path

import click

from truthgym.cli.tiny import command as tiny


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
