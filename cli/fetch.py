"""`truthgym fetch`: write today's rows of a real source to a file, so that an eval of them can be repeated."""

from typing import Any

import click


@click.command("fetch", epilog="Sources and their options: the domain's card, datasets/DOMAIN.md.")
@click.argument("domain")
@click.option("--source", help="Name of the source, if the domain has several.")
@click.option("--out", required=True, help="The file, .jsonl or .parquet. Its card has the suffix .md.")
@click.option("--known-after", help="Only questions whose truth became public after this day, as 2025-06-01.")
@click.option("-n", type=int, help="At most this many rows, drawn at random.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of that draw.")
@click.option("-T", "options", multiple=True, metavar="NAME=VALUE", help="An option of the source. May be repeated.")
def command(domain: str, source: str | None, out: str, options: tuple[str, ...], **selection: Any) -> None:  # noqa: ANN401
    """Fetch the rows of a real source of DOMAIN into a file, for an eval with `-T source=FILE`.

    The log of the eval records the file's SHA-256.
    """
    from truthgym.datasets.fetch import fetch

    snapshot = fetch(domain, source, out, **selection, **_parse(options))
    click.echo(f"{snapshot.path}: {snapshot.rows:,} rows, SHA-256 {snapshot.sha256}")
    for reason, number in snapshot.left_out.most_common():
        click.echo(f"  left out: {number:>8,}  {reason}")


def _parse(options: tuple[str, ...]) -> dict[str, Any]:
    import yaml

    from truthgym.datasets.errors import BadInput

    not_options = {"domain": "DOMAIN", "source": "--source", "out": "--out", "known_after": "--known-after", "n": "-n",
                 "seed": "--seed"}  # fmt: skip
    values = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise BadInput(f"-T {option} cannot be used; write NAME=VALUE")
        if name in not_options:
            raise BadInput(f"-T {option}: {name} is not an option of a source; give it as {not_options[name]}")
        try:
            values[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            why = str(error).splitlines()[0]
            raise BadInput(f"-T {option} is not valid YAML ({why}); quote text twice, as '\"text\"'") from None
    return values
