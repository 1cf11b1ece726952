"""`truthgym lineage`: what was made from what, whether the records are intact, and whether an eval got worse."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from truthgym.training.lineage import Event, Status


@click.group("lineage", epilog="See docs/lineage.md.")
def command() -> None:
    """Statements about searches, datasets, trained models, deployments and evals, by digest."""


@command.command("show")
@click.argument("what")
@click.argument("places", nargs=-1)
def show(what: str, places: tuple[str, ...]) -> None:
    """Print what WHAT (a path, or the first digits of a digest) was made from. PLACES are folders to look in, too."""
    from truthgym.training.lineage import Lineage

    lineage = Lineage([*([what] if Path(what).exists() else []), *(places or ["."])])
    for line in lineage.tree(lineage.find(what)):
        click.echo(line)


@command.command("verify")
@click.argument("places", nargs=-1, required=True)
def verify(places: tuple[str, ...]) -> None:
    """Check every statement that can be reached from PLACES. The exit status is 1 if anything is wrong."""
    from truthgym.training.lineage import Lineage

    lineage = Lineage(places)
    faults = lineage.faults()
    for fault in faults:
        click.echo(fault)
    click.echo(f"{len(lineage.statements)} statements, {len(faults)} faults")
    sys.exit(1 if faults else 0)


@command.command("compare")
@click.argument("before")
@click.argument("after")
def compare(before: str, after: str) -> None:
    """Say what got better or worse from one log to another of the same task, question by question.

    Logs of versions with different numbers, such as 1-B and 2-A, are refused.

    The exit status is 1 if a score got worse: its 95 % interval is on the worse side of 0.
    """
    from truthgym.analysis.compare import regressions, report

    frame = regressions(before, after)
    click.echo(report(frame))
    for row in frame.itertuples():
        click.echo(f"{row.score}: {row.verdict}")
    sys.exit(1 if (frame["verdict"] == "worse").any() else 0)


@command.command("record")
@click.argument("made", nargs=-1, required=True)
@click.option("--event", type=click.Choice(["train", "eval"]), default="train", show_default=True)
@click.option("--from", "parents", multiple=True, metavar="PATH", help="What it was made from, as a dataset or base "
              "model; can be repeated.")  # fmt: skip
@click.option("--server", help="Address of the `truthgym serve` that gave the rewards.")
@click.option("--status", type=click.Choice(["succeeded", "failed", "cancelled"]), default="succeeded",
              show_default=True, help="How it ended.")  # fmt: skip
@click.option("--reason", default="", help="Of what failed or was cancelled.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Option of the run; can be repeated.")
@click.option("--figure", "figures", multiple=True, metavar="NAME=VALUE", help="Figure of it; can be repeated.")
def record(
    made: tuple[str, ...],
    event: "Event",
    parents: tuple[str, ...],
    server: str | None,
    status: "Status",
    reason: str,
    options: tuple[str, ...],
    figures: tuple[str, ...],
) -> None:
    """Record a run of another trainer, such as verl or OpenRLHF, or an eval of its model: MADE are its checkpoints.

    Paths count by the SHA-256 of their content, a server by what it scores with. What is recorded is never replaced.
    """
    import asyncio

    from truthgym.datasets.errors import BadInput
    from truthgym.datasets.inspect_private import parse_cli_args
    from truthgym.training import lineage
    from truthgym.training.served_rewards import RewardClient, made_of

    if missing := [path for path in (*made, *parents) if not Path(path).exists()]:
        raise BadInput(f"There is no {missing[0]}; give files and folders. Of a run without a checkpoint, its folder")
    sources = {path: lineage.digest_of(path) for path in parents}
    if server:
        try:
            sources |= made_of(asyncio.run(RewardClient(server).health()))
        except RuntimeError as error:
            raise BadInput(f"--server {server}: {error}; record the run while its server runs") from None
    statement = lineage.record(
        event,
        made,
        sources,
        status=status,
        parameters=parse_cli_args(options),
        figures=parse_cli_args(figures),
        failure={} if status == "succeeded" else {"stage": event, "type": status, "message": reason},
    )
    click.echo(f"Recorded: {statement}")
