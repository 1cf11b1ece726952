"""`truthgym fetch`: the rows of a real source, as they stand today, to a file that an eval can be repeated from."""

from typing import Any

import click


@click.command("fetch", epilog="Sources and their options: the domain's card, datasets/DOMAIN.md.")
@click.argument("domain")
@click.option("--source", help="Which one, where the domain has several.")
@click.option("--out", required=True, help="The file, .jsonl or .parquet. Its card has the ending .md.")
@click.option("--known-after", help="Only questions whose truth became public after this day, as 2025-06-01.")
@click.option("-n", type=int, help="At most so many, drawn at random.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of that draw.")
@click.option("-T", "options", multiple=True, metavar="NAME=VALUE", help="An option of the source. May be repeated.")
def command(domain: str, source: str | None, out: str, options: tuple[str, ...], **selection: Any) -> None:  # noqa: ANN401
    """Fetch the rows of a real source of DOMAIN into a file: `-T source=FILE` asks them in an eval.

    The log of the eval holds the file's SHA-256.
    """
    from truthgym.datasets.snapshot import fetch

    made = fetch(domain, source, out, **selection, **_options(options))
    click.echo(f"{made.path}: {made.rows:,} rows, SHA-256 {made.sha256}")
    for reason, number in made.left_out.most_common():
        click.echo(f"  left out: {number:>8,}  {reason}")


def _options(words: tuple[str, ...]) -> dict[str, Any]:
    import yaml

    from truthgym.datasets.errors import BadInput

    elsewhere = {"domain": "DOMAIN", "source": "--source", "out": "--out", "known_after": "--known-after", "n": "-n",
                 "seed": "--seed"}  # fmt: skip
    read = {}
    for word in words:
        name, is_there, value = word.partition("=")
        if not is_there or not name:
            raise BadInput(f"-T {word} cannot be used; write NAME=VALUE")
        if name in elsewhere:
            raise BadInput(f"-T {word}: {name} is no option of a source; give it as {elsewhere[name]}")
        try:
            read[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            why = str(error).splitlines()[0]
            raise BadInput(
                f"-T {word} cannot be used: YAML says {why}; put text in quotes twice, as '\"text\"'"
            ) from None
    return read
