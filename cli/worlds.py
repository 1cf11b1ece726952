"""`truthgym worlds`: a model beside the exact and the naive reader of every generated world."""

from pathlib import Path

import click


@click.command("worlds", epilog="See docs/domains.md.")
@click.argument("log_dir")
@click.argument("named", nargs=-1, metavar="[MODEL]...")
@click.option("--model", "models", multiple=True, help="A model, as for inspect eval; can be repeated.")
@click.option("--model-path", default="", help="Folder of an hf/ model.")
@click.option("--n", type=click.IntRange(1), default=200, show_default=True, help="Questions of each world.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed gives other questions.")
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True, help="Answers to each question.")
@click.option("--read", type=click.Choice(["stated", "token"]), default="stated", show_default=True,
              help="How answers are read: docs/brier.md.")  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), help="Also write the chart, .html, .svg or .png, or the table, .csv."
)
@click.option("--display", type=click.Choice(["full", "conversation", "rich", "plain", "log", "none"]),
              help="Inspect's display.")  # fmt: skip
def command(log_dir: str, named: tuple[str, ...], models: tuple[str, ...], out: Path | None, **options: object) -> None:
    """Ask models the questions of all generated worlds: which reader does each follow, and how far off is it?

    Without a model it asks the two readers that each world is made to tell apart, with no key and no download. They are
    part of every table. The same command resumes an interrupted run from the logs in LOG_DIR.
    """
    from rich.console import Console

    from truthgym.analysis.tables.saving import save
    from truthgym.analysis.worlds import ask, chart, printed, readings

    done, logs = ask(log_dir, [*named, *models], **options)  # type: ignore[arg-type]
    frame = readings(logs)
    Console(highlight=False).print(printed(frame))
    if out:
        save(frame, chart, out)
        click.echo(f"Written: {out}")
    raise SystemExit(0 if done else 1)
