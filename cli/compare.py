"""`truthgym compare`: the difference between models on the same questions."""

from typing import Literal

import click


@click.command("compare", epilog="See docs/compare.md.")
@click.argument("logs", nargs=-1, required=True, metavar="LOGS...")
@click.option("--against", default="", metavar="RUN", help="The run with which the others of its task are compared: "
              "a part of its name, model or path. Otherwise the first.")  # fmt: skip
@click.option("--by", default="", metavar="COLUMN", help="Also compare by category: a column of your file, or another "
              "field of the questions' metadata.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["table", "markdown", "csv", "json"]), default="table",
              show_default=True, help="Tables for eyes, or for other programs.")  # fmt: skip
def command(logs: tuple[str, ...], against: str, by: str, form: Literal["table", "markdown", "csv", "json"]) -> None:
    """Compare runs on the same questions, and print the differences with 95 % intervals.

    LOGS are logs, folders and patterns in any mix. Those of one task are compared with its first, question by question.

    A file that cannot be read is left out and named at the end, if the first one and another remain; the exit status is
    then 1.
    """
    from truthgym.analysis.compare import as_json, compare, printed, report
    from truthgym.analysis.tables.saving import say_unreadable

    frame = compare(logs, against, by)
    if form == "table":
        from rich.console import Console

        console = Console(highlight=False)
        console.print(printed(frame, console.width))
    elif form == "csv":
        click.echo(frame.to_csv(index=False), nl=False)
        for note in frame.attrs["notes"]:
            click.echo(note, err=True)
    else:
        click.echo(report(frame) if form == "markdown" else as_json(frame))
    if say_unreadable(frame.attrs["left_out"]):
        raise SystemExit(1)
