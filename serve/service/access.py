"""Who may ask a reward server, and its request log."""

import asyncio
import hmac
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, Literal
from uuid import uuid4

from fastapi.security.utils import get_authorization_scheme_param
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truthgym.datasets.errors import BadInput
from truthgym.serve.service.guard import Guard, Limits, Refusal, is_loopback, log_traceback, overloaded
from truthgym.serve.service.metrics import ServerMetrics

Right = Literal["score", "admin"]
OPEN = ("/livez", "/readyz", "/healthz")
"""Paths that need no token and are not logged."""
ENVIRONMENT: dict[str, Right] = {"TRUTHGYM_SERVE_TOKEN": "score", "TRUTHGYM_SERVE_ADMIN_TOKEN": "admin"}


class RequestLog:
    """Appends lines to a file. Each is one write, so that the lines of several processes do not mix."""

    def __init__(self, path: Path | None, texts: bool = False) -> None:
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
        scheme, token = get_authorization_scheme_param(header)
        digest = sha256(token.strip().encode()).hexdigest()
        # All of them are compared, in constant time each.
        matches = [right for right in self.rights if hmac.compare_digest(right, digest)]
        return (self.rights[matches[0]], digest[:8]) if matches and scheme.lower() == "bearer" else None


def read_tokens(file: Path | None) -> Tokens:
    """Read tokens from the environment and from a file with a line "score SHA256" or "admin SHA256" for each."""
    rights: dict[str, Right] = {}
    for variable, right in ENVIRONMENT.items():
        if token := os.environ.get(variable, "").strip():
            rights[sha256(token.encode()).hexdigest()] = right
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file else []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if not (entry := re.fullmatch("(score|admin) ([0-9a-f]{64})", line.strip())):
            raise BadInput(f"--tokens {file} line {number}: write `score` or `admin` and the SHA-256 of a token in hex")
        rights[entry[2]] = "admin" if entry[1] == "admin" else "score"
    return Tokens(rights)


def check_bind(host: str, tokens: Tokens) -> None:
    """Refuse to listen beyond this machine without a token."""
    if not is_loopback(host) and not tokens.rights:
        raise BadInput(
            f"--host {host} is open to other machines and there is no token; set TRUTHGYM_SERVE_TOKEN or --tokens, or "
            "listen on 127.0.0.1"
        )


class RewardGuard(Guard):
    """Tokens, JSON bodies, an id and a log line (`request.state.entry`) for each request, and plain errors."""

    def __init__(
        self, app: ASGIApp, *, tokens: Tokens, limits: Limits, log: RequestLog, metrics: ServerMetrics
    ) -> None:
        super().__init__(app, limits)
        self.tokens, self.log, self.metrics = tokens, log, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, entry = perf_counter(), {"request_id": uuid4().hex, "endpoint": scope["path"][:100]}
        scope.setdefault("state", {})["entry"] = entry
        status = 499  # the client left before the answer

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = str(entry["request_id"])
            await send(message)

        async def refuse(refusal: Refusal) -> None:
            if status == 499:
                await _answer(refusal)(scope, receive, sending)

        try:
            await self.app(scope, await self.admit(scope, receive), sending)
        except Refusal as refusal:
            entry["error"] = refusal.code
            await refuse(refusal)
        except asyncio.CancelledError:  # the server ends, and the time for open requests is over
            if status == 499:
                entry["error"] = "cancelled"
            await refuse(overloaded("The server ends; send the request again."))
        except Exception as error:  # whatever it is, the client learns nothing of it
            entry["error"] = type(error).__name__
            log_traceback(f"request {entry['request_id']}", error)
            await refuse(Refusal(500, "internal", "An error of the server; see its log."))
        finally:
            if scope["path"] not in OPEN:
                seconds = perf_counter() - begun
                endpoint = getattr(scope.get("route"), "path", "other")
                self.metrics.requests.labels(endpoint, str(status)).inc()
                self.metrics.seconds.labels(endpoint).observe(seconds)
                self.log.write({**entry, "status": status, "milliseconds": round(seconds * 1000, 1)})

    def check(self, scope: Scope, headers: Headers) -> None:
        right = self.tokens.right_of(headers.get("authorization", ""))
        if right:
            scope["state"]["entry"]["token"] = right[1]
        if scope["path"] in OPEN:
            return
        if self.tokens.rights and not right:
            raise Refusal(401, "unauthorised", "Send a known token as `Authorization: Bearer TOKEN`.")
        if scope["path"].startswith("/admin") and (not right or right[0] != "admin"):
            raise Refusal(403, "forbidden", "This needs a token with the right `admin`.")
        is_json = headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
        if scope["method"] in ("POST", "PUT", "PATCH") and not is_json:
            raise Refusal(415, "not_json", "Send JSON with `Content-Type: application/json`.")


def _answer(refusal: Refusal) -> JSONResponse:
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    if refusal.status in (408, 413, 415) or refusal.code == "two_lengths":
        headers["connection"] = "close"  # the rest of the body is not read
    return JSONResponse({"error": {"code": refusal.code, "message": refusal.message}}, refusal.status, headers)
