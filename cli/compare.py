"""`truthgym compare`: the difference between models on the same questions."""

import click


@click.command("compare", epilog="See docs/compare.md.")
@click.argument("logs", nargs=-1, required=True, metavar="A.eval B.eval ...")
def command(logs: tuple[str, ...]) -> None:
    """Compare each log with the first one, question by question, and print the differences with 95 % intervals.

    The logs must be of the same questions and scorers.
    """
    from truthgym.analysis.compare import compare, report

    click.echo(report(compare(logs)))
