"""`truthgym rubric`: search for a rubric, export it as an artifact, verify it and record where it is deployed."""

from collections.abc import Callable
from getpass import getuser
from pathlib import Path
from typing import Any

import click

from truthgym.training.search.config import PROTOCOL_OPTIONS, SearchConfig, config_of, inline, options_of

SEE = "See docs/rubric_search.md."
RECORDS = click.option(
    "--records", type=click.Path(path_type=Path), default=Path("deployments"), show_default=True,
    help="Folder of the records and of the artifacts that they name.",
)  # fmt: skip


def search_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each field of `SearchConfig` to a command."""
    options: list[Any] = []
    for name, field in SearchConfig.model_fields.items():
        flag = f"--{name.replace('_', '-')}"
        if name == "protocol":
            options += [
                click.option(f"--{part}", type=int if part == "votes" else str, help=what)
                for part, what in PROTOCOL_OPTIONS.items()
            ]
        elif name == "verifiers":
            options.append(click.option("--verifier", name, multiple=True, help=field.description))
        elif field.annotation is bool:
            options.append(click.option(f"{flag}/--no-{flag[2:]}", default=None, help=field.description))
        else:
            kind = field.annotation if field.annotation in (int, float) else str
            options.append(click.option(flag, type=kind, help=field.description))
    for option in reversed(options):
        function = option(function)
    return function


@click.group("rubric", epilog=SEE)
def command() -> None:
    """Search for a rubric, export it as an artifact, verify it and record where it is deployed."""


@command.command("search", epilog=SEE)
@click.option(
    "--dataset",
    default="bundled",
    show_default=True,
    help="JSON file of prompts with candidates, a file or folder of pairs (prompt, chosen, rejected), or logs.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the run; also continues it.")
@search_options
@click.option("--human-rubric", default="truth_seeking", show_default=True, help="Rubric to compare with.")
def search(dataset: str, out: Path, human_rubric: str, **options: Any) -> None:
    """Search for a rubric that orders good answers as their labels do, and report it on held-out prompts.

    Without options it runs offline, with simulated models on bundled answers.
    """
    from truthgym.training.rubric_search import rubric_search
    from truthgym.training.search.candidates import check_models, read_prompts

    options = {name: value for name, value in options.items() if value not in (None, ())}
    config, human = config_of(options), inline(human_rubric)
    check_models(read_prompts(dataset), config)
    if config.initial_rubric:
        options["initial_rubric"] = config.initial_rubric
    result = rubric_search(dataset, out, config, human, options_of(options | {"human_rubric": human}))
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


@command.command("record", epilog=SEE)
@click.argument("artifact", required=False)
@click.option("--target", required=True, help="Such as dev, staging or prod.")
@click.option("--by", help="Who deployed it; the user of this machine by default.")
@click.option("--rollback", is_flag=True, help="Record that the target has again what it had before.")
@RECORDS
def record(artifact: str | None, target: str, by: str | None, rollback: bool, records: Path) -> None:
    """Record that ARTIFACT is deployed to a target; it starts nothing. The record is only ever added to."""
    from truthgym.datasets.errors import BadInput
    from truthgym.scorers.rubrics.reward import read_artifact
    from truthgym.training.search import deployment

    if rollback == bool(artifact):
        raise BadInput("Give an artifact, or --rollback, and not both")
    who = by or getuser()
    entry = (
        deployment.deploy(read_artifact(artifact), target, who, records, source=Path(artifact))
        if artifact
        else deployment.rollback(target, who, records)
    )
    click.echo(f"{target}: {entry['artifact_id']} ({entry['digest']})")


command.add_command(click.Command("deploy", callback=record.callback, params=record.params, hidden=True))
"""Its earlier name."""
