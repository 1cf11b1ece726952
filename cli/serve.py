"""`truthgym serve`: a scorer as a reward server."""

from pathlib import Path
from typing import Any, Literal

import click


@click.command("serve", epilog="See docs/serve.md.")
@click.option("--scorer", help="A scorer by name, as for inspect score: graded, qualitative, ...")
@click.option("-S", "options", multiple=True, metavar="NAME=VALUE", help="Argument of the scorer. May be repeated.")
@click.option("--model-role", "roles", multiple=True, metavar="ROLE=MODEL", help="A model in a role. May be repeated.")
@click.option("--reward", default="", help="SCORER/KEY and :lowest or :highest, as for --reward [default: the scorer].")
@click.option("--specs", type=click.Path(path_type=Path, file_okay=False),
              help="Folder of specifications (NAME.json) between which an admin may switch.")  # fmt: skip
@click.option("--spec", "name", help="Name of the specification in --specs to begin with, instead of --scorer.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; beyond loopback needs a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
@click.option("--tokens", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="File with a line `score SHA256` or `admin SHA256` for each token.")  # fmt: skip
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False), help="File of the request log (JSON lines).")
@click.option("--log-text", is_flag=True, help="Also log prompts and replies.")
@click.option("--canary", type=click.FloatRange(0, 1), default=0.0, show_default=True,
              help="Share of items scored again with a request for full marks, to see whether that pays.")  # fmt: skip
@click.option("--concurrency", type=click.IntRange(1), default=100, show_default=True,
              help="Items scored at the same time; four times as many may wait.")  # fmt: skip
@click.option("--unknown-prompt", type=click.Choice(["error", "global"]), default="error", show_default=True,
              help="Where rubrics are for single prompts or domains: what any other prompt gets.")  # fmt: skip
@click.option("--requests-per-minute", type=click.FloatRange(0), default=0.0, help="Calls of each judge; 0: no limit.")
@click.option("--tokens-per-minute", type=click.FloatRange(0), default=0.0,
              help="Tokens of each judge, read and written; 0: no limit.")  # fmt: skip
@click.option("--drain", type=click.FloatRange(0), default=30.0, show_default=True,
              help="Seconds for open requests to end after SIGTERM.")  # fmt: skip
def command(
    scorer: str | None,
    options: tuple[str, ...],
    roles: tuple[str, ...],
    reward: str,
    specs: Path | None,
    name: str | None,
    concurrency: int,
    unknown_prompt: Literal["error", "global"],
    requests_per_minute: float,
    tokens_per_minute: float,
    drain: float,
    **settings: Any,
) -> None:
    """Serve a scorer of yours or ours over HTTP, as a reward for TRL, OpenRLHF, verl and slime."""
    from importlib.util import find_spec

    from truthgym.datasets.errors import BadInput
    from truthgym.datasets.inspect_private import parse_cli_args

    if find_spec("prometheus_client") is None:
        raise BadInput('truthgym serve: prometheus-client is not installed; run `pip install -e ".[serve]"`')
    from truthgym.serve.server import serve
    from truthgym.serve.service.guard import Limits
    from truthgym.serve.spec import RewardSpec, named_spec

    if bool(scorer) == bool(name) or (name and specs is None):
        raise BadInput("truthgym serve: give either --scorer NAME, or --specs FOLDER and --spec NAME")
    for word in (*options, *roles):
        if "=" not in word:
            raise BadInput(f"truthgym serve: {word!r} is no option; write NAME=VALUE")
    spec = RewardSpec(
        scorer=scorer, options=parse_cli_args(options), roles=parse_cli_args(roles), reward=reward,
        unknown_prompt=unknown_prompt,
    ) if scorer else named_spec(specs or Path(), str(name))  # fmt: skip
    limits = Limits(
        concurrency=concurrency, queue=max(4 * concurrency, Limits.batch_items), drain=drain,
        requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute,
    )  # fmt: skip
    serve(spec, specs=specs, limits=limits, **settings)
