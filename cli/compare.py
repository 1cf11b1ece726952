"""`truthgym compare`: the difference between models on the same questions."""

import click


@click.command("compare", epilog="See docs/compare.md.")
@click.argument("logs", nargs=-1, required=True, metavar="A.eval B.eval ...")
def command(logs: tuple[str, ...]) -> None:
    """Compare each log with the first one, question by question, and print the differences with 95 % intervals.

    The logs must be of the same questions and scorers. A file that cannot be read is left out and named at the end, if
    the first one and another remain; the exit status is then 1.
    """
    from truthgym.analysis.compare import compare, report
    from truthgym.analysis.tables.saving import say_unreadable

    frame = compare(logs)
    click.echo(report(frame))
    if say_unreadable(frame.attrs["left_out"]):
        raise SystemExit(1)
