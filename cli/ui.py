"""`truthgym ui`: the page."""

from pathlib import Path

import click


@click.command("ui", epilog="See docs/ui.md.")
@click.argument("folder", default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; beyond loopback needs a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=7580, show_default=True, help="0 chooses a free one.")
@click.option("--token-file", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="File whose first line is the token that a visitor must know.")  # fmt: skip
@click.option("--at-once", type=click.IntRange(min=1), default=2, show_default=True,
              help="Most runs at the same time; others wait.")  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
def command(folder: Path, host: str, port: int, token_file: Path | None, at_once: int, no_browser: bool) -> None:
    """Open a page on which runs are composed, started and watched. FOLDER holds their logs, setups and datasets.

    Runs go on when the page is closed or this command ends, and are found again.
    """
    from importlib.util import find_spec

    from truthgym.datasets.errors import BadInput

    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise BadInput('truthgym ui: FastAPI is not installed; run `pip install -e ".[ui]"`')
    from truthgym.ui.app import serve

    serve(folder, host, port, token_file, browser=not no_browser, at_once=at_once)
