"""What stands before every request: tokens, the size and time of its body, its log line, and plain errors."""

import asyncio
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, Literal
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truthgym.datasets.errors import BadInput
from truthgym.serve.service.bodies import is_loopback, read_body, replay
from truthgym.serve.service.figures import ServerFigures
from truthgym.serve.service.limits import Limits, Refusal, log_traceback, overloaded

Right = Literal["score", "admin"]
OPEN = ("/livez", "/readyz", "/healthz")
"""Paths that need no token and are not logged."""
ENVIRONMENT: dict[str, Right] = {"TRUTHGYM_SERVE_TOKEN": "score", "TRUTHGYM_SERVE_ADMIN_TOKEN": "admin"}


class RequestLog:
    """Appends lines to a file. Each is one write, so that the lines of several processes do not mix."""

    def __init__(self, path: Path | None, texts: bool = False) -> None:
        """Open the log."""
        self.texts = texts
        self._file: int | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, entry: Mapping[str, Any]) -> None:
        if self._file is not None:
            line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **entry}
            rest = (json.dumps(line) + "\n").encode()
            try:
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            except OSError as error:  # the disk is full: the answer has been sent, and the next ones can be
                log_traceback(f"request log, {entry.get('request_id')}", error)

    def close(self) -> None:
        """Flush to the disk and close."""
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None


@dataclass(frozen=True)
class Tokens:
    """Bearer tokens, kept as their SHA-256 only."""

    rights: Mapping[str, Right] = field(default_factory=dict)
    """By SHA-256, in hex. `admin` includes `score`."""

    def right_of(self, header: str) -> tuple[Right, str] | None:
        """The right of an Authorization header, and the first digits of its token's hash; None for no known token."""
        kind, _, token = header.partition(" ")
        digest = sha256(token.strip().encode()).hexdigest()
        # All of them are compared, in constant time each.
        matches = [right for right in self.rights if hmac.compare_digest(right, digest)]
        return (self.rights[matches[0]], digest[:8]) if matches and kind.lower() == "bearer" else None


def read_tokens(file: Path | None) -> Tokens:
    """Read tokens from the environment and from a file with a line "score SHA256" or "admin SHA256" for each."""
    rights: dict[str, Right] = {}
    for variable, right in ENVIRONMENT.items():
        if token := os.environ.get(variable, "").strip():
            rights[sha256(token.encode()).hexdigest()] = right
    lines = file.read_text(encoding="utf-8").splitlines() if file else []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        word, _, digest = line.strip().partition(" ")
        is_hash = len(digest) == 64 and set(digest) <= set("0123456789abcdef")
        if not is_hash or word not in ("score", "admin"):
            raise BadInput(f"--tokens {file} line {number}: write `score` or `admin` and the SHA-256 of a token in hex")
        rights[digest] = "admin" if word == "admin" else "score"
    return Tokens(rights)


def check_bind(host: str, tokens: Tokens) -> None:
    """Refuse to listen beyond this machine without a token."""
    if not is_loopback(host) and not tokens.rights:
        raise BadInput(
            f"--host {host} is open to other machines and there is no token; set TRUTHGYM_SERVE_TOKEN or --tokens, or "
            "listen on 127.0.0.1"
        )


class Guards:
    """ASGI middleware around the application.

    The handlers find the whole body in `request.state.body`, and add to the log line in `request.state.entry`.
    """

    def __init__(
        self, app: ASGIApp, *, tokens: Tokens, limits: Limits, log: RequestLog, figures: ServerFigures
    ) -> None:
        self.app, self.tokens, self.limits, self.log, self.figures = app, tokens, limits, log, figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self.app(scope, receive, send)
            return
        begun, entry = perf_counter(), {"request_id": uuid4().hex, "endpoint": scope["path"][:100]}
        scope.setdefault("state", {})["entry"] = entry
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        status = 499  # the client left before the answer

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", str(entry["request_id"]).encode())]
            await send(message)

        try:
            try:
                if sum(len(name) + len(value) for name, value in scope["headers"]) > self.limits.header_bytes:
                    raise Refusal(
                        431, "headers_too_large", f"Send at most {self.limits.header_bytes} bytes of headers."
                    )
                self._authorise(scope["path"], headers, entry)
                body = await self._body(scope["method"], headers, receive)
                scope["state"]["body"] = body
                await self.app(scope, replay(body, receive), sending)
            except Refusal as refusal:
                entry["error"] = refusal.code
                await _answer(refusal, sending)
            except asyncio.CancelledError:  # the server ends, and the time for open requests is over
                if status == 499:
                    entry["error"] = "cancelled"
                    await _answer(overloaded("The server ends; send the request again."), sending)
            except Exception as error:  # whatever it is, the client learns nothing of it
                entry["error"] = type(error).__name__
                log_traceback(f"request {entry['request_id']}", error)
                if status == 499:
                    await _answer(Refusal(500, "internal", "An error of the server; see its log."), sending)
        finally:
            seconds = perf_counter() - begun
            route = scope.get("route")
            endpoint = getattr(route, "path", "other")
            self.figures.requests.labels(endpoint, str(status)).inc()
            self.figures.seconds.labels(endpoint).observe(seconds)
            self.log.write({**entry, "status": status, "milliseconds": round(seconds * 1000, 1)})

    def _authorise(self, path: str, headers: Mapping[str, str], entry: dict[str, Any]) -> None:
        known = self.tokens.right_of(headers.get("authorization", ""))
        if known:
            entry["token"] = known[1]
        if self.tokens.rights and not known:
            raise Refusal(401, "unauthorised", "Send a known token as `Authorization: Bearer TOKEN`.")
        if path.startswith("/admin") and (not known or known[0] != "admin"):
            raise Refusal(403, "forbidden", "This needs a token with the right `admin`.")

    async def _body(self, method: str, headers: Mapping[str, str], receive: Receive) -> bytes:
        if method not in ("POST", "PUT", "PATCH"):
            return b""
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refusal(415, "not_json", "Send JSON with `Content-Type: application/json`.")
        return await read_body(headers, receive, self.limits)


async def _answer(refusal: Refusal, send: Send) -> None:
    content = json.dumps({"error": {"code": refusal.code, "message": refusal.message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if refusal.retry_after is not None:
        headers.append((b"retry-after", str(refusal.retry_after).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status in (408, 413, 415):
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
