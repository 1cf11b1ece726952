"""`truthgym worlds`: a model beside the exact and the naive reader of every generated world."""

import click


@click.command("worlds", epilog="See docs/domains.md.")
@click.argument("log_dir")
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option("--model-path", default="", help="Folder of an hf/ model.")
@click.option("--n", type=click.IntRange(1), default=200, show_default=True, help="Questions of each world.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed gives other questions.")
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True, help="Answers to each question.")
@click.option("--read", type=click.Choice(["stated", "token"]), default="stated", show_default=True,
              help="How answers are read: docs/brier.md.")  # fmt: skip
@click.option("--display", type=click.Choice(["full", "conversation", "rich", "plain", "log", "none"]),
              help="Inspect's display.")  # fmt: skip
def command(log_dir: str, models: tuple[str, ...], **options: object) -> None:
    """Ask MODELs the questions of all generated worlds; print how far their answers are from the exact posteriors.

    Without a MODEL it asks the two readers that each world is made to tell apart, with no key and no download. They are
    part of every table. The same command resumes an interrupted run from the logs in LOG_DIR.
    """
    from truthgym.analysis.worlds import ask, table

    done, logs = ask(log_dir, models, **options)  # type: ignore[arg-type]
    click.echo(table(logs))
    raise SystemExit(0 if done else 1)
