"""What stands before every request to the page: the host, the origin, the token and the size of the body."""

import hmac
import re
from hashlib import sha256
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from fastapi.security.utils import get_authorization_scheme_param
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truthgym.serve.service.guard import SAFE, Guard, Limits, Refusal, address_of, is_loopback
from truthgym.ui.forms.commands import value_of
from truthgym.ui.pages.rendering import form_fields, page

COOKIE = "truthgym_ui"
OPEN = ("/login", "/static/style.css")
"""Paths that need no token."""
CHARTS = re.compile(r"/reports/[^/]+/charts\.js")
"""As `OPEN`: the library that draws a report's charts. A browser sends no cookie for what a page in a sandbox loads."""
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


class PageGuard(Guard):
    """A page of another site can neither read nor change anything.

    The `Host` must be a name of this server (a name that someone else's DNS points here is not one), and whatever is no
    GET must come from a page of this server. Without the token (None: none is asked for) no page is shown.
    """

    def __init__(self, app: ASGIApp, token: str | None, host: str, limits: Limits) -> None:
        super().__init__(app, limits)
        self.token, self.host = token, host.strip("[]")

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

        try:
            admitted = await self.admit(scope, receive)
        except Refusal as refusal:
            answer: Response = PlainTextResponse(f"{refusal.message}\n", refusal.status)
            wants_page = "text/html" in Headers(scope=scope).get("accept", "") and scope["method"] in SAFE
            if refusal.status == 401 and wants_page:
                answer = RedirectResponse("/login", 303)
            await answer(scope, receive, sending)
            return
        await self.app(scope, admitted, sending)

    def check(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host", "")
        if not self._is_own(host):
            raise Refusal(421, "host", "This server has another name; open the address that `truthgym ui` printed.")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            raise Refusal(400, "address", "The address has a NUL character, which no file name has; remove %00.")
        if scope["method"] not in SAFE and not same_origin(headers, host):
            raise Refusal(403, "origin", "Only a page of this server may do that; open it and try again.")
        is_open = scope["path"] in OPEN or CHARTS.fullmatch(scope["path"])
        if self.token and not is_open and not has_token(self.token, HTTPConnection(scope)):
            raise Refusal(401, "token", "Open /login and give the token, or send `Authorization: Bearer TOKEN`.")

    def _is_own(self, host: str) -> bool:
        """Whether a `Host` names this server. An address cannot be made to point here by someone else's DNS."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            urlsplit(f"//{host}").port  # noqa: B018  # raises if it is none
        except ValueError:
            return False
        everywhere = self.host in ("0.0.0.0", "::")
        return is_loopback(name) or name == self.host.lower() or (everywhere and address_of(name) is not None)


def same_origin(headers: Headers, host: str) -> bool:
    """Whether a browser says that a page of this server sent the request. Without an `Origin` nobody says so."""
    origin = urlsplit(headers.get("origin", ""))
    is_same_site = headers.get("sec-fetch-site", "same-origin") == "same-origin"
    return origin.scheme in ("http", "https") and origin.netloc == host and is_same_site


def has_token(token: str, request: HTTPConnection) -> bool:
    """Whether the token is in the `Authorization` header, or what `/login` made of it in the cookie."""
    scheme, bearer = get_authorization_scheme_param(request.headers.get("authorization", ""))
    by_header = scheme.lower() == "bearer" and hmac.compare_digest(bearer.strip().encode(), token.encode())
    cookie = request.cookies.get(COOKIE, "")
    return hmac.compare_digest(cookie.encode(), cookie_of(token).encode()) or by_header


def cookie_of(token: str) -> str:
    """What the cookie holds: it opens the page, and does not tell the token."""
    return sha256(b"truthgym ui" + token.encode()).hexdigest()


def router(token: str | None) -> APIRouter:
    """The page that asks for the token."""
    routes = APIRouter()

    @routes.get("/login")
    def login(request: Request) -> HTMLResponse:
        return page(request, "login.html")

    @routes.post("/login")
    async def check(request: Request) -> Response:
        typed = value_of(await form_fields(request), "token")
        if token and not hmac.compare_digest(typed.encode(), token.encode()):
            return page(request, "login.html", status=401, problem="This is not the token that the server was given.")
        answer = RedirectResponse("/", 303)
        if token:
            # Not strict: a link of a report, which is in a sandbox, is to a browser one of another site. A request that
            # changes something must be of the same origin besides.
            answer.set_cookie(COOKIE, cookie_of(token), httponly=True, samesite="lax")
        return answer

    return routes
