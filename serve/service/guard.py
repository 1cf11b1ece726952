"""What every request must pass before an application of ours sees it, for the reward server and for `truthgym ui`.

Starlette and FastAPI limit neither the size nor the time of a body, and `TrustedHostMiddleware` knows neither IPv6 nor
"any address, but no name".
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from logging import getLogger
from traceback import format_tb

from h11 import IDLE
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

LOGGER = getLogger(__name__)
SAFE = ("GET", "HEAD")
"""Methods that change nothing and whose body is not read."""


@dataclass(frozen=True)
class Limits:
    """Limits of a server. Times are in seconds."""

    body_bytes: int = 2_000_000
    batch_items: int = 64
    item_characters: int = 128_000
    """Of all texts of an item together."""
    header_bytes: int = 8_000
    connections: int = 1500
    """Open at the same time. More are refused with 503."""
    concurrency: int = 100
    """Items that are scored at the same time."""
    requests_per_minute: float = 0.0
    """Of each judge; 0 for no limit."""
    tokens_per_minute: float = 0.0
    """Of each judge, read and written; 0 for no limit."""
    queue: int = 400
    """Items that are scored or wait. More are refused with 503."""
    body_time: float = 10.0
    """For the body of a request to arrive, and before it for the headers."""
    item_time: float = 60.0
    """For one attempt at an item."""
    deadline: float = 150.0
    """For a request; below the 180 that OpenRLHF waits."""
    slime_deadline: float = 100.0
    """For a request of slime, which waits 120."""
    retries: int = 2
    """Further attempts at an item whose judge failed."""
    breaker_failures: int = 10
    """Judge failures in a row after which the server is not ready."""
    breaker_time: float = 5.0
    """How long it then refuses new items before it tries one."""
    cache_items: int = 10_000
    """Results that are kept for a repeated request."""
    notice: float = 2.0
    """After SIGTERM the server takes requests for so long, and says on /readyz that it is not ready."""
    drain: float = 30.0
    """For open requests to end after that; the others are answered with 503."""


class Refusal(Exception):
    """A request is answered with an error. `message` is for the client and holds no secret."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after


def overloaded(message: str) -> Refusal:
    """The refusal that every trainer tries again: verl raises at once on 429 and every other 4xx."""
    return Refusal(503, "overloaded", message, retry_after=1)


def log_traceback(what: str, error: BaseException) -> None:
    """Write where an error was raised to stderr: its type and the lines of code, without a text of any request."""
    lines = "".join(format_tb(error.__traceback__))
    LOGGER.error("%s: %s\n%s", what, type(error).__name__, lines)


class Guard:
    """ASGI middleware that admits a request: its headers' size, the checks of a subclass, then its whole body."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits

    def check(self, scope: Scope, headers: Headers) -> None:
        """Raise a Refusal for what is not allowed. The body has not been read yet."""

    async def admit(self, scope: Scope, receive: Receive) -> Receive:
        """The `receive` for the application. The body is also in the request's `state.body`."""
        if sum(len(name) + len(value) for name, value in scope["headers"]) > self.limits.header_bytes:
            raise Refusal(431, "headers_too_large", f"Send at most {self.limits.header_bytes} bytes of headers.")
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers and "content-length" in headers:  # a proxy may end the body elsewhere
            raise Refusal(400, "two_lengths", "Send Content-Length or Transfer-Encoding, not both.")
        self.check(scope, headers)
        if scope["method"] in SAFE:
            return receive
        body = await self._read_body(headers, receive)
        scope.setdefault("state", {})["body"] = body
        sent = False

        async def replay() -> Message:
            """The body once; then it waits for the client to leave."""
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        return replay

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes:
        limits = self.limits
        too_large = Refusal(413, "too_large", f"The body is too large; send at most {limits.body_bytes} bytes.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > limits.body_bytes:
            raise too_large
        body: bytes = b""
        try:
            async with asyncio.timeout(limits.body_time):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "disconnected", "The request ended before its body.")
                    body += message.get("body", b"")
                    if len(body) > limits.body_bytes:
                        raise too_large
                    if not message.get("more_body"):
                        return body
        except TimeoutError:
            raise Refusal(408, "too_slow", f"The body took more than {limits.body_time:g} seconds.") from None


class TimedConnection(H11Protocol):
    """A connection that is closed if the headers of a request do not arrive in time.

    Uvicorn limits how long a connection may rest after an answer, and neither before the first request nor between the
    first and the last header: connections that say nothing would hold every place.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._headers_due = self.loop.call_later(Limits.body_time, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._headers_due.cancelled() and self.conn.their_state is IDLE:
            self._headers_due = self.loop.call_later(Limits.body_time, self.transport.abort)
        super().data_received(data)
        if self.conn.their_state is not IDLE:
            self._headers_due.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_due.cancel()
        super().connection_lost(exc)


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """A host that is an address; None if it is a name."""
    with suppress(ValueError):
        return ip_address(host)
    return None


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own, which no other machine reaches."""
    address = address_of(host)
    return address.is_loopback if address else host == "localhost"
