"""A reward server: any scorer over HTTP, for trainers that run elsewhere.

truthgym serve --scorer graded -S grader=model --model-role grader=reference/judge
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from time import time
from types import FrameType
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field, ValidationError

from truthgym.datasets.inspect_private import PrerequisiteError, init_runtime_context
from truthgym.serve.service.access import RequestLog, RewardGuard, Tokens, check_bind, read_tokens
from truthgym.serve.service.guard import Limits, Refusal, TimedConnection, log_traceback
from truthgym.serve.service.metrics import ServerMetrics
from truthgym.serve.service.pool import Pool, check_items
from truthgym.serve.service.rates import Rates
from truthgym.serve.service.scoring import Item, Result, Source
from truthgym.serve.service.trainer_requests import (
    OpenRLHFRequest,
    SlimeRequest,
    openrlhf_answer,
    openrlhf_items,
    rewards,
    slime_item,
)
from truthgym.serve.spec import RewardSpec, named_spec

DIGEST = "X-Artifact-Digest"
"""The header of every answer that names what scored it, and with which a client insists on it."""
LONG = 50_000
"""Bytes of a body that is read in a thread."""
Shape = TypeVar("Shape", bound=BaseModel)
Done = TypeVar("Done")


class Batch(BaseModel, extra="forbid"):
    """The body of `/batch_score`."""

    items: Annotated[list[Item], Field(min_length=1)]


class Swap(BaseModel, extra="forbid"):
    """The body of `/admin/artifact`: a name in the folder of specifications, and what its digest must be."""

    name: str
    digest: str | None = None


@dataclass
class Server:
    """What the routes share."""

    source: Source
    tokens: Tokens = field(default_factory=Tokens)
    limits: Limits = field(default_factory=Limits)
    specs: Path | None = None
    log: RequestLog = field(default_factory=lambda: RequestLog(None))
    canary: float = 0.0
    metrics: ServerMetrics = field(default_factory=ServerMetrics)
    draining: bool = False
    """Whether it was told to end."""
    swapping: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.pool = Pool(self.limits, self.metrics, self.canary)

    async def score(self, request: Request, items: Sequence[Item], deadline: float) -> tuple[Source, list[Result]]:
        """Score a request's items with the specification of this moment, and describe them in its log line."""

        def digests() -> list[str]:
            check_items(items, self.limits)
            return [item.digest[:16] for item in items]

        source, entry = self.source, request.state.entry
        entry |= {"artifact": source.digest, "items": await off_the_loop(request, digests)}
        pinned = request.headers.get(DIGEST)
        if pinned and pinned != source.digest:
            raise Refusal(412, "other_artifact", f"This server scores with {source.digest}, not with what you pinned.")
        if self.log.texts:
            entry["texts"] = [{"prompt": item.model_dump()["prompt"], "response": item.response} for item in items]
        results = await self.pool.score(source, items, deadline)
        entry |= {"rewards": [result.reward for result in results], "codes": [result.code for result in results]}
        return source, results


def once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse a JSON object that has a key twice: what stands before a server may read the other value."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise Refusal(400, "doubled_key", f"The key {name[:40]!r} stands twice in an object; send it once.")
        seen.add(name)


async def off_the_loop(request: Request, work: Callable[[], Done]) -> Done:
    """What is done with the body of a request; in a thread if it is long, so that others are heard meanwhile."""
    return await asyncio.to_thread(work) if len(request.state.body) > LONG else work()


async def parsed(request: Request, shape: type[Shape]) -> Shape:
    """The body of a request in its shape."""
    return await off_the_loop(request, lambda: parse(request.state.body, shape))


def parse(body: bytes, shape: type[Shape]) -> Shape:
    try:
        shaped = shape.model_validate_json(body)
        json.loads(body, object_pairs_hook=once)
        return shaped
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        if first["type"] == "json_invalid":
            raise Refusal(400, "invalid_json", "The body is not valid JSON.") from None
        place = ".".join(str(part) if isinstance(part, int) else part[:40] for part in first["loc"])
        raise Refusal(422, "invalid_body", f"{place or 'body'}: {first['msg'][:200]}") from None
    except ValueError:  # a number of thousands of digits
        raise Refusal(400, "invalid_json", "The body has a number that is too long.") from None


def answer(content: object, source: Source, status: int = 200) -> Response:
    """A JSON answer. NaN and infinities are an error, not an extension of JSON."""
    headers = {DIGEST: source.digest} | ({"Retry-After": "1"} if status == 503 else {})
    return Response(json.dumps(content, allow_nan=False), status, headers, "application/json")


def application(server: Server) -> FastAPI:
    """The application of a server."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        init_runtime_context()
        yield
        await server.pool.drain()
        server.log.close()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_middleware(RewardGuard, tokens=server.tokens, limits=server.limits, log=server.log, metrics=server.metrics)
    limits = server.limits

    @app.get("/livez")
    async def livez() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/healthz")
    async def healthz() -> Response:
        source = server.source
        health = {"status": "ok", "scorer": source.name, "artifact": source.digest, "made_of": source.made_of}
        return answer(health, source)

    @app.get("/readyz")
    async def readyz() -> Response:
        pause = server.source.rates.pause(asyncio.get_running_loop().time())
        if server.pool.open and not server.draining and pause <= limits.item_time:
            return answer({"status": "ready"}, server.source)
        until = {"until": round(time() + pause)} if pause > 0 else {}
        return answer({"status": "not ready"} | until, server.source, 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4")

    @app.post("/score")
    async def score(request: Request) -> Response:
        source, (result,) = await server.score(request, [await parsed(request, Item)], limits.deadline)
        status = 200 if result.reward is not None else 503 if result.retryable else 422
        return answer({"artifact": source.digest, **result.payload(0)}, source, status)

    @app.post("/batch_score")
    async def batch_score(request: Request) -> Response:
        source, results = await server.score(request, (await parsed(request, Batch)).items, limits.deadline)
        payload = {"artifact": source.digest, "results": [result.payload(i) for i, result in enumerate(results)]}
        return answer(payload, source, 503 if all(result.retryable for result in results) else 200)

    @app.post("/get_reward")
    async def get_reward(request: Request) -> Response:
        items = openrlhf_items(await parsed(request, OpenRLHFRequest))
        source, results = await server.score(request, items, limits.deadline)
        return answer(openrlhf_answer(results), source)

    @app.post("/remote_rm")
    async def remote_rm(request: Request) -> Response:
        item = slime_item(await parsed(request, SlimeRequest))
        source, results = await server.score(request, [item], limits.slime_deadline)
        return answer(rewards(results)[0], source)

    @app.post("/admin/artifact")
    async def swap(request: Request) -> Response:
        body = await parsed(request, Swap)
        if server.specs is None:
            raise Refusal(404, "no_folder", "This server was started without --specs.")
        try:
            spec: RewardSpec = named_spec(server.specs, body.name)
        except PrerequisiteError:
            raise Refusal(404, "no_such_name", "There is no specification of that name.") from None
        async with server.swapping:
            try:  # in a thread: a model of some gigabytes is read, and requests are answered meanwhile
                source = await asyncio.to_thread(Source, spec, limits.concurrency, server.source.rates)
            except Exception as error:
                log_traceback(f"specification {body.name}", error)
                raise Refusal(422, "unusable", "The specification cannot be loaded; nothing was changed.") from None
            if body.digest is not None and body.digest != source.digest:
                raise Refusal(412, "other_digest", "The specification has another digest; nothing was changed.")
            former, server.source = server.source, source
            server.pool.retire(former)
        request.state.entry["swapped"] = [former.digest, source.digest]
        return answer({"before": former.digest, "artifact": source.digest}, source)

    return app


def serve(
    spec: RewardSpec,
    host: str = "127.0.0.1",
    port: int = 8080,
    tokens: Path | None = None,
    specs: Path | None = None,
    log: Path | None = None,
    log_text: bool = False,
    canary: float = 0.0,
    limits: Limits | None = None,
) -> None:
    """Serve a scorer until SIGTERM or SIGINT; requests that are open then are answered first. As `truthgym serve`."""
    import uvicorn

    limits = limits or Limits()
    hashed = read_tokens(tokens)
    check_bind(host, hashed)
    rates = Rates(limits.requests_per_minute, limits.tokens_per_minute)
    served = Server(Source(spec, limits.concurrency, rates), hashed, limits, specs, RequestLog(log, log_text), canary)
    notice = limits.notice

    class Web(uvicorn.Server):
        async def startup(self, sockets: list[socket] | None = None) -> None:
            await super().startup(sockets)
            bound = self.servers[0].sockets[0].getsockname()[1]  # --port 0 chose one
            print(f"{spec.scorer} on http://{host}:{bound}, artifact {served.source.digest}", flush=True)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Be not ready for a while, so that no more requests are sent here, and then close."""
            loop, wait = asyncio.get_running_loop(), 0.0 if served.draining else notice
            served.draining = True
            loop.call_soon_threadsafe(loop.call_later, wait, super().handle_exit, sig, frame)

    config = uvicorn.Config(
        application(served),
        host=host,
        port=port,
        access_log=False,
        log_level="warning",
        http=TimedConnection,
        h11_max_incomplete_event_size=8192,  # headers that arrive in several parts; the guard limits the others
        limit_concurrency=limits.connections,
        timeout_keep_alive=30,  # longer than a client keeps an idle connection: its next request would find it closed
        timeout_graceful_shutdown=int(limits.drain),
        server_header=False,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises it again after the shutdown; the exit status is 0
    Web(config).run()
