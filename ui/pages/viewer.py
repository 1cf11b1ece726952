"""Inspect's log viewer and the reports, at addresses of this server."""

from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.staticfiles import StaticFiles
from fsspec.implementations.local import LocalFileSystem
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truthgym.ui.jobs import RUNS

REPORTS = "reports"
"""Folder of the reports that the page has written."""
OF_REPORTS = (
    "sandbox allow-scripts allow-popups allow-downloads; default-src 'self' 'unsafe-inline' data:; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; connect-src 'none'; frame-ancestors 'self'; base-uri 'none'"
)
"""A report's scripts draw its charts. In a sandbox they reach nothing of this server."""


class With:
    """ASGI application with headers for all that another one answers."""

    def __init__(self, app: ASGIApp, headers: dict[str, str]) -> None:
        self.app, self.headers = app, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        await self.app(scope, receive, sending)


def mount(app: FastAPI, folder: Path) -> None:
    """Add the viewer at /view/ and the reports at /reports/.

    The viewer asks /api, wherever its files are. It reads and edits logs of the folder alone, and
    deletes none.
    """
    from truthgym.datasets import inspect_private

    class LogsOnly(inspect_private.OnlyDirAccessPolicy):
        """Inspect's own policy lets through every file below the folder, also by a link that leads out of it."""

        async def can_read(self, request: Request, file: str) -> bool:
            return await super().can_read(request, file) and is_log(folder, file)

        async def can_write(self, request: Request, file: str) -> bool:
            return await super().can_write(request, file) and is_log(folder, file)

        async def can_list(self, request: Request, dir: str) -> bool:
            return await super().can_list(request, dir) and local(dir).is_relative_to(folder.resolve())

        async def can_delete(self, request: Request, file: str) -> bool:
            return False

    dist = inspect_private.resolve_dist_directory()
    place = str(folder.resolve())
    api = inspect_private.view_server_app(default_dir=place, access_policy=LogsOnly(place), allow_direct_urls=False)
    unused = [route for route in api.routes if getattr(route, "path", "") in ("/docs", "/redoc", "/openapi.json")]
    api.router.routes = [route for route in api.routes if route not in unused]
    policy = inspect_private.read_content_security_policy(dist) or "default-src 'self'"
    headers = {"content-security-policy": f"{policy}; frame-ancestors 'self'"}
    app.mount("/api", api)
    app.mount("/view", With(StaticFiles(directory=dist, html=True), headers))
    reports = StaticFiles(directory=folder / REPORTS, html=True, check_dir=False)
    app.mount(f"/{REPORTS}", With(reports, {"content-security-policy": OF_REPORTS,
                                            "cross-origin-resource-policy": "cross-origin"}))  # fmt: skip


def local(file: str) -> Path:
    """A path as Inspect names it, also file://..., with links followed."""
    return Path(str(LocalFileSystem._strip_protocol(file))).resolve()


def is_log(folder: Path, file: str) -> bool:
    """Whether a file is a log in the folder, and not in the folder of runs, whose records are JSON too."""
    path, root = local(file), folder.resolve()
    inside = path.is_relative_to(root) and not path.is_relative_to(root / RUNS)
    return inside and path.suffix in (".eval", ".json") and not path.name.startswith(".")


def viewer_address(folder: Path, log: str) -> str:
    """The address at which the viewer shows a log of the folder."""
    path = Path(log).resolve()
    relative = path.relative_to(folder) if path.is_relative_to(folder) else path
    return f"/view/#/logs/{quote(str(relative))}"
