"""The page on which runs are composed, started and watched.

truthgym ui studies
"""

import errno
import socket
import webbrowser
from contextlib import closing
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

from truthgym.datasets.errors import BadInput, not_on_windows, shown
from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.serve.service.guard import Limits, TimedConnection, is_loopback
from truthgym.ui.jobs import AT_ONCE
from truthgym.ui.pages import compose, results, security
from truthgym.ui.pages.rendering import ROOM, page

TOKEN_CHARACTERS = 16
"""Fewest characters of a token."""


def app(
    folder: Path,
    token: str | None = None,
    host: str = "127.0.0.1",
    limits: Limits | None = None,
    at_once: int = AT_ONCE,
) -> FastAPI:
    """The page of a folder, which no path leaves. With a token, a visitor must know it; `host` is the server's name."""
    page_app = FastAPI(title="Truthgym", docs_url=None, redoc_url=None, openapi_url=None)
    page_app.state.folder = folder.resolve()
    page_app.state.at_once = at_once
    page_app.add_middleware(security.PageGuard, token=token, host=host, limits=limits or Limits())
    page_app.mount("/static", StaticFiles(directory=ROOM / "static"), name="static")
    page_app.include_router(security.router(token))
    page_app.include_router(compose.router)
    page_app.include_router(results.router)
    results.mount_viewer(page_app, page_app.state.folder)

    @page_app.exception_handler(PrerequisiteError)
    async def bad_input(request: Request, error: PrerequisiteError) -> HTMLResponse:
        return page(request, "problem.html", status=400, problem=results.plain(error))

    @page_app.exception_handler(OSError)
    async def no_file(request: Request, error: OSError) -> HTMLResponse:
        problem = f"{shown(error.filename)} cannot be read or written: {error.strerror}."
        return page(request, "problem.html", status=400 if error.errno == errno.ENAMETOOLONG else 500, problem=problem)

    @page_app.exception_handler(404)
    async def not_found(request: Request, error: Exception) -> HTMLResponse:
        detail = getattr(error, "detail", "").removeprefix("Not Found")
        return page(request, "problem.html", status=404, problem=detail or f"There is no page {request.url.path}.")

    return page_app


def read_token(file: Path | None) -> str | None:
    """The token in a file's first line. The message about a short one does not show it."""
    if file is None:
        return None
    token = file.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
    if len(token) < TOKEN_CHARACTERS or not token.isascii():
        raise BadInput(
            f"--token-file {file}: its first line must be a token of at least {TOKEN_CHARACTERS} ASCII characters; "
            "write one with `openssl rand -hex 16`"
        )
    return token


def serve(
    folder: Path,
    host: str = "127.0.0.1",
    port: int = 7580,
    token_file: Path | None = None,
    browser: bool = False,
    at_once: int = AT_ONCE,
) -> None:
    """Serve the page of a folder until SIGTERM or SIGINT, as `truthgym ui`. What it started goes on."""
    import uvicorn

    not_on_windows("truthgym ui")
    token = read_token(token_file)
    if not is_loopback(host) and not token:
        raise BadInput(
            f"--host {host} is open to other machines and there is no token; give --token-file FILE, or listen on "
            "127.0.0.1 and forward the port: ssh -L 7580:127.0.0.1:7580 MACHINE"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with closing(listen(host, port)) as listener:
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{listener.getsockname()[1]}/"
        print(f"{folder.resolve()} on {address} (Ctrl+C ends the page; runs go on)", flush=True)
        config = uvicorn.Config(
            app(folder, token, host, at_once=at_once), log_level="warning", access_log=False,
            http=TimedConnection, server_header=False, timeout_graceful_shutdown=2,
        )  # fmt: skip
        if browser:
            webbrowser.open(address)
        uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, or one error that says why it cannot."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadInput(f"--port {port} is in use on {host}; give another, or 0 for a free one") from None
        raise BadInput(f"--host {host} --port {port}: cannot listen there: {error.strerror}") from None
