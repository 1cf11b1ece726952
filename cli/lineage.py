"""`truthgym lineage`: what was made from what, whether the records are intact, and whether an eval got worse."""

import sys
from pathlib import Path

import click


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


@command.group("verl")
def verl() -> None:
    """Train with verl, rewarded by a server, and record how the run ended. verl must be installed."""


FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


@verl.command("prepare")
@FOLDER
@click.option("--data", required=True, type=click.Path(path_type=Path, exists=True), help="Training file, .parquet.")
@click.option("--server", required=True, help="Address of a `truthgym serve`, which gives the rewards.")
@click.argument("overrides", nargs=-1, type=click.UNPROCESSED, metavar="[-- OVERRIDES OF VERL]")
def prepare(folder: Path, data: Path, server: str, overrides: tuple[str, ...]) -> None:
    """Plan a run in FOLDER: its command, its data by digest, and what the server scores with by digest."""
    from truthgym.serve.verl import prepare

    click.echo(f"Planned: {prepare(folder, data, server, overrides)}")


@verl.command("run")
@FOLDER
def run(folder: Path) -> None:
    """Run the plan in FOLDER, and record how it ended: also if it fails or is cancelled.

    The exit status is 1 unless it succeeded.
    """
    from truthgym.serve.verl import finalize, run

    status = run(folder)
    click.echo(f"Recorded: {finalize(folder)}")
    sys.exit(0 if status == 0 else 1)


@verl.command("finalize")
@FOLDER
@click.option("--exit-status", type=int, help="Of a run that was killed and left none; without it, it failed.")
def finalize(folder: Path, exit_status: int | None) -> None:
    """Record how the last run in FOLDER ended, if `run` was killed before it could. Doing so again changes nothing."""
    from truthgym.serve.verl import finalize

    click.echo(f"Recorded: {finalize(folder, exit_status)}")
