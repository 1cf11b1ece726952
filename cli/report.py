"""`truthgym report`: what a pile of logs says, as a site."""

from pathlib import Path

import click

from truthgym.analysis.site.analyses import ANALYSES, parse_options
from truthgym.analysis.tables.saving import say_unreadable
from truthgym.analysis.tables.setups import runs_if_any


@click.command("report", epilog="See docs/report.md.")
@click.argument("logs", nargs=-1, required=True, metavar="LOGS...")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The folder to write.")
@click.option(
    "--only", multiple=True, metavar="NAME", help=f"Only this analysis; may be repeated: {', '.join(ANALYSES)}."
)
@click.option("-A", "options", multiple=True, metavar="ANALYSIS.NAME=VALUE",
              help="Option of an analysis, as in -A performance.x=size; may be repeated.")  # fmt: skip
@click.option("--bundle", is_flag=True, help="Also write Inspect's log viewer with the logs, and link runs to it.")
@click.option(
    "--by", default="", metavar="FIELD", help="A field of the questions, such as form: scores and ranks by it."
)
@click.option("--viewer", default="", metavar="URL",
              help="Where `inspect view` shows LOGS, as in http://127.0.0.1:7575: link samples to it.")  # fmt: skip
@click.option("--unfinished", is_flag=True, help="Also read logs of runs that never finished.")
@click.option("--strict", is_flag=True, help="End with status 1 if a file cannot be read.")
def command(
    logs: tuple[str, ...],
    out: Path,
    only: tuple[str, ...],
    options: tuple[str, ...],
    bundle: bool,
    by: str,
    viewer: str,
    unfinished: bool,
    strict: bool,
) -> None:
    """Read LOGS, .eval files and folders of them, and write a site with a page for each question.

    It opens from disk at OUT/index.html. Two or more folders are batches, and a page compares each with the first.
    Files that cannot be read are left out, and named on the pages and at the end.
    """
    from truthgym.analysis.site.build import build

    findings = build(logs, out, only, bundle, click.echo, parse_options(options), unfinished, by, viewer)
    click.echo(f"Open {out / 'index.html'}")
    bad = say_unreadable(runs_if_any(logs).unreadable)
    if (bad and strict) or any(finding.failed for finding in findings):
        raise SystemExit(1)
