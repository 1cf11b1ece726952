"""`truthgym rubric`: search for a rubric, export it as an artifact, verify it and record where it is deployed."""

from getpass import getuser
from pathlib import Path
from typing import Any

import click

SEE = "See docs/rubric_search.md."
RECORDS = click.option(
    "--records", type=click.Path(path_type=Path), default=Path("deployments"), show_default=True,
    help="Folder of the records and of the artifacts that they name.",
)  # fmt: skip


@click.group("rubric", epilog=SEE)
def command() -> None:
    """Search for a rubric, export it as an artifact, verify it and record where it is deployed."""


@command.command("search", epilog=SEE)
@click.option("--dataset", default="bundled", show_default=True, help="JSON file with prompts and candidates.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the run; also continues it.")
@click.option("--mode", help="evolutionary, iterative (the baseline) or gepa.")
@click.option("--scope", help="global_batch (one rubric) or prompt_local (one for each prompt).")
@click.option("--generations", type=int)
@click.option("--population", type=int)
@click.option("--mutations", type=int, help="Offspring in each generation.")
@click.option("--parents", type=int)
@click.option("--elitism", type=int)
@click.option("--batch-size", type=int, help="Hardest prompts of a generation.")
@click.option("--survival", type=float, help="Share of the offspring that are scored on all prompts.")
@click.option("--selection", help="rank, tournament or top_k.")
@click.option("--schedule", help="fixed, success_feedback, exploration_decay or diversity_driven.")
@click.option("--tail-fraction", type=float)
@click.option("--lambda-var", type=float)
@click.option("--mu-diverse", type=float)
@click.option("--pair-confidence-prior", type=float)
@click.option("--patience", type=int, help="Generations without an improvement before the search stops.")
@click.option("--stop-when-distinguished/--no-stop-when-distinguished", default=None)
@click.option("--distinguish-margin", type=float)
@click.option("--initial", help="First rubric: model, generic or rubric.")
@click.option("--initial-rubric", help="Rubric for --initial rubric.")
@click.option("--scale", help="Of new rubrics: binary, 0-1, 0-5 or ordinal.")
@click.option("--votes", type=int, help="Calls of each verifier for one candidate.")
@click.option("--language", help="Of all requests: en or zh.")
@click.option("--extraction", help="Part of a candidate that is judged: {kind: tag, pattern: answer}.")
@click.option("--held-out", type=float, help="Share of the prompts for the report alone.")
@click.option("--seed", type=int)
@click.option("--initializer", help="Model, or {model: ..., model_args: {...}}; simulated by default, as all models.")
@click.option("--proposer", help="Model that revises rubrics.")
@click.option("--verifier", "verifiers", multiple=True, help="Model that grades; can be repeated.")
@click.option("--judge", help="Model that compares candidates without metadata.rank.")
@click.option("--human-rubric", default="truth_seeking", show_default=True, help="Rubric to compare with.")
def search(dataset: str, out: Path, human_rubric: str, **options: Any) -> None:  # noqa: ANN401
    """Search for a rubric that orders good answers as their labels do, and report it on held-out prompts.

    Without options it runs offline, with simulated models on bundled answers.
    """
    from truthgym.training.rubric_search import rubric_search
    from truthgym.training.search.options import config_of, inline, options_of

    chosen = {name: value for name, value in options.items() if value not in (None, ())}
    config, human = config_of(chosen), inline(human_rubric)
    written = chosen | ({"initial_rubric": config.initial_rubric} if config.initial_rubric else {})
    result = rubric_search(dataset, out, config, human, options_of(written | {"human_rubric": human}))
    click.echo(f"{result['content']['verdict']} Written: {out / 'report.md'}")


@command.command("export", epilog=SEE)
@click.argument("search", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="File of the artifact; by default its id.")
def export(search: Path, out: Path | None) -> None:
    """Export what SEARCH, a folder, found as an artifact: rubrics, the judge's request and model, and a card."""
    from truthgym.training.search.deployment import export

    artifact, path = export(search, out)
    click.echo(f"{artifact.artifact_id} ({artifact.digest_of_content}). Written: {path}")


@command.command("verify", epilog=SEE)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--digest", help="The digest that it must have.")
@click.option("--target", help="Verify the record of a target and the artifact that it has now.")
@RECORDS
def verify(paths: tuple[Path, ...], digest: str | None, target: str | None, records: Path) -> None:
    """Check that artifacts, results of searches or a target's record have not been changed."""
    from truthgym.training.search.deployment import verify

    for line in verify(paths, digest, target, records):
        click.echo(line)


@command.command("deploy", epilog=SEE)
@click.argument("artifact", required=False)
@click.option("--target", required=True, help="Such as dev, staging or prod.")
@click.option("--by", help="Who deploys it; the user of this machine by default.")
@click.option("--rollback", is_flag=True, help="Deploy again what the target had before.")
@RECORDS
def deploy(artifact: str | None, target: str, by: str | None, rollback: bool, records: Path) -> None:
    """Record that ARTIFACT is deployed to a target. The record is only ever added to."""
    from truthgym.datasets.errors import BadInput
    from truthgym.scorers.rubrics.reward import read_artifact
    from truthgym.training.search import deployment

    if rollback == bool(artifact):
        raise BadInput("Give an artifact to deploy, or --rollback, and not both")
    who = by or getuser()
    entry = (
        deployment.deploy(read_artifact(artifact), target, who, records, source=Path(artifact))
        if artifact
        else deployment.rollback(target, who, records)
    )
    click.echo(f"{target}: {entry['artifact_id']} ({entry['digest']})")
