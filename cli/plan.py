"""`truthgym plan`: the memory of a training run, before it starts."""

from typing import Any

import click


@click.command("plan", epilog="See docs/plan.md.")
@click.option(
    "--model",
    "--model_name_or_path",
    "model",
    required=True,
    help="A folder, or a name on the Hub. Only its configuration is read.",
)
@click.option("--gpus", type=int, default=1, show_default=True, help="GPUs of one node.")
@click.option("--method", type=click.Choice(["sft", "dpo", "kto", "reward", "grpo", "rloo"]), default="sft",
              show_default=True, help="Training method.")  # fmt: skip
@click.option("--length", type=int, default=2048, show_default=True,
              help="Tokens of the longest row, or of a rollout with its prompt.")  # fmt: skip
@click.option("--gpu_memory", "--gpu-memory", type=float, help="GB of each GPU, to say what fits.")
@click.option("--measure", is_flag=True, help="Also count the bytes of one step, on a small model.")
@click.argument("training", nargs=-1, type=click.UNPROCESSED, metavar="[-- TRAINING OPTIONS]")
def command(model: str, gpus: int, training: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401
    """Print the memory that training takes on each GPU, part by part, for DDP, ZeRO, FSDP, LoRA and offloading.

    Everything after -- is an option of `truthgym train METHOD`, such as --per_device_train_batch_size 2.
    """
    from truthgym.training.closed_loop.options import parse_training_options
    from truthgym.training.plan import plan

    click.echo(plan(model, gpus, train=parse_training_options(training), **options).text)
