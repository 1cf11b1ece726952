"""`truthgym report`: what a pile of logs says, as a site."""

from pathlib import Path

import click

from truthgym.analysis.site.analyses import ANALYSES, parse_options
from truthgym.analysis.tables.setups import omissions
from truthgym.evallog.discovery import UNREADABLE


@click.command("report", epilog="See docs/report.md.")
@click.argument("logs", nargs=-1, required=True, metavar="LOGS...")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The folder to write.")
@click.option(
    "--only", multiple=True, metavar="NAME", help=f"Only this analysis; may be repeated: {', '.join(ANALYSES)}."
)
@click.option("-A", "options", multiple=True, metavar="ANALYSIS.NAME=VALUE",
              help="Option of an analysis, as in -A performance.x=size; may be repeated.")  # fmt: skip
@click.option("--bundle", is_flag=True, help="Also write Inspect's log viewer with the logs, and link runs to it.")
def command(logs: tuple[str, ...], out: Path, only: tuple[str, ...], options: tuple[str, ...], bundle: bool) -> None:
    """Read LOGS, .eval files and folders of them, and write a site with a page for each question.

    It opens from disk at OUT/index.html. Two or more folders are batches, and a page compares each with the first.
    """
    from truthgym.analysis.site.build import build

    findings = build(logs, out, only, bundle, click.echo, parse_options(options))
    click.echo(f"Open {out / 'index.html'}")
    unreadable = [sentence for sentence in omissions(logs) if UNREADABLE in sentence]
    for sentence in unreadable:
        click.echo(sentence, err=True)
    if unreadable or any(finding.failed for finding in findings):
        raise SystemExit(1)
