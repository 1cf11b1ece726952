"""`truthgym check`: whether a file of questions can be used, and what it can measure."""

import click


@click.command("check", epilog="See docs/own_questions.md.")
@click.argument("file")
@click.option("--domain", default="questions", show_default=True, help="The domain whose rows it has.")
def command(file: str, domain: str) -> None:
    """Read FILE, .jsonl, .csv or .parquet, as an eval would, and print what its questions can tell.

    Rows that cannot be used are listed in one message, with exit status 1. Warnings do not change the status.
    """
    from truthgym.analysis.check import check, report

    click.echo(report(check(file, domain)))
