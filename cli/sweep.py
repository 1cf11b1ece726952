"""`truthgym sweep`: runs a script's eval sets on many workers."""

import click


@click.command("sweep", epilog="See docs/sweep.md.", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
@click.option("--on", type=click.Choice(["local", "ray", "slurm"]), default="local", show_default=True,
              help="Processes of this machine, a Ray cluster, or a Slurm job array.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1), help="Units at the same time [default: one for each CPU].")
@click.option("--shards", type=click.IntRange(1), default=1, show_default=True,
              help="Most units for one task; questions of one event stay together.")  # fmt: skip
@click.option("--max-connections", type=click.IntRange(1),
              help="Connections to each provider, by all workers together [default: as of one process].")  # fmt: skip
@click.option("--address", default="", help="Of a running Ray cluster [default: start one here].")
@click.option("--gpus-per-worker", type=click.FloatRange(0), default=0.0, show_default=True,
              help="On Ray: GPUs of each unit.")  # fmt: skip
def sweep_command(command: tuple[str, ...], **options: object) -> None:
    """Run SCRIPT, which calls eval_set() as often as it likes, on many workers. The same command resumes it.

    SCRIPT is a Python file, or `inspect eval-set ...`; `inspect score LOGS ...` and `truthgym convert LOGS ... --out
    DIR` run once for each log. Options of this command may stand anywhere; after `--`, all are the script's.
    """
    from truthgym.sweep.sweep import sweep

    if not sweep(command, **options, report=click.echo):  # type: ignore[arg-type]
        raise SystemExit(1)


command = sweep_command
