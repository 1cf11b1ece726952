"""What stands before every request to the page: the host, the origin, the token and the size of the body."""

import hmac
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truthgym.serve.service.bodies import is_loopback, read_body, replay
from truthgym.serve.service.limits import Limits, Refusal
from truthgym.ui.pages.rendering import page

COOKIE = "truthgym_ui"
OPEN = ("/login", "/static/style.css")
"""Paths that need no token."""
CHARTS = re.compile(r"/reports/[^/]+/charts\.js")
"""As `OPEN`: the library that draws a report's charts. A browser sends no cookie for what a page in a sandbox loads."""
SAFE = ("GET", "HEAD")
"""Methods that change nothing."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; frame-src 'self'; frame-ancestors 'self'; form-action 'self'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer that does not set them itself."""


class Guards:
    """ASGI middleware around the application.

    A page of another site can neither read nor change anything: the `Host` must be a name of this server (a name that
    someone else's DNS points here is not one), and whatever is no GET must come from a page of this server.

    Args:
        app: The application.
        token: Without it no page is shown. None: none is asked for.
        host: Where the server listens.
        limits: Of these, `body_bytes`, `body_time` and `header_bytes`.
    """

    def __init__(self, app: ASGIApp, token: str | None, host: str, limits: Limits) -> None:
        self.app, self.token, self.host, self.limits = app, token, host.strip("[]"), limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no WebSockets

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._check(scope, headers)
            if scope["method"] not in SAFE:
                receive = replay(await read_body(headers, receive, self.limits), receive)
        except Refusal as refusal:
            answer: Response = PlainTextResponse(f"{refusal.message}\n", refusal.status)
            if refusal.status == 401 and "text/html" in headers.get("accept", "") and scope["method"] in SAFE:
                answer = RedirectResponse("/login", 303)
            await answer(scope, receive, sending)
            return
        await self.app(scope, receive, sending)

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        if sum(len(name) + len(value) for name, value in scope["headers"]) > self.limits.header_bytes:
            raise Refusal(431, "headers_too_large", f"Send at most {self.limits.header_bytes} bytes of headers.")
        host = headers.get("host", "")
        if not self._is_known(host):
            raise Refusal(421, "host", "This server has another name; open the address that `truthgym ui` printed.")
        if scope["method"] not in SAFE and not same_origin(headers, host):
            raise Refusal(403, "origin", "Only a page of this server may do that; open it and try again.")
        is_open = scope["path"] in OPEN or CHARTS.fullmatch(scope["path"])
        if self.token and not is_open and not is_given(self.token, headers):
            raise Refusal(401, "token", "Open /login and give the token, or send `Authorization: Bearer TOKEN`.")

    def _is_known(self, host: str) -> bool:
        """Whether a `Host` names this server. An address cannot be made to point here by someone else's DNS."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            urlsplit(f"//{host}").port  # noqa: B018  # raises if it is none
        except ValueError:
            return False
        if is_loopback(name) or name == self.host.lower():
            return True
        return self.host in ("0.0.0.0", "::") and is_address(name)


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def same_origin(headers: Mapping[str, str], host: str) -> bool:
    """Whether a browser says that a page of this server sent the request. Without an `Origin` nobody says so."""
    origin = urlsplit(headers.get("origin", ""))
    return origin.scheme in ("http", "https") and origin.netloc == host and headers.get(
        "sec-fetch-site", "same-origin"
    ) == "same-origin"  # fmt: skip


def is_given(token: str, headers: Mapping[str, str]) -> bool:
    """Whether the token is in the `Authorization` header, or what `/login` made of it in the cookie."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    cookies = SimpleCookie()
    try:
        cookies.load(headers.get("cookie", ""))
    except CookieError:
        cookies.clear()
    cookie = cookies[COOKIE].value if COOKIE in cookies else ""
    by_header = kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
    return hmac.compare_digest(cookie.encode(), of_cookie(token).encode()) or by_header


def of_cookie(token: str) -> str:
    """What the cookie holds: it opens the page, and does not tell the token."""
    return sha256(b"truthgym ui" + token.encode()).hexdigest()


async def fields(request: Request) -> dict[str, list[str]]:
    """The fields of a form, each with its values in order; without the empty ones."""
    body = (await request.body()).decode("utf-8", errors="replace")
    return parse_qs(body, keep_blank_values=False, max_num_fields=5000)


def first(values: Mapping[str, Iterable[str]], name: str) -> str:
    """The first value of a form's field, or an empty text."""
    return next(iter(values.get(name, ())), "").strip()


def router(token: str | None) -> APIRouter:
    """The page that asks for the token."""
    routes = APIRouter()

    @routes.get("/login")
    def login(request: Request) -> HTMLResponse:
        return page(request, "login.html")

    @routes.post("/login")
    async def check(request: Request) -> Response:
        given = first(await fields(request), "token")
        if token and not hmac.compare_digest(given.encode(), token.encode()):
            return page(request, "login.html", status=401, problem="This is not the token that the server was given.")
        answer = RedirectResponse("/", 303)
        if token:
            # Not strict: a link of a report, which is in a sandbox, is to a browser one of another site. A request that
            # changes something must be of the same origin besides.
            answer.set_cookie(COOKIE, of_cookie(token), httponly=True, samesite="lax")
        return answer

    return routes
