"""The application: routes from paths to the pool."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field, ValidationError

from truthgym.datasets.inspect_private import PrerequisiteError, init_runtime_context
from truthgym.serve.service import doors
from truthgym.serve.service.figures import ServerFigures
from truthgym.serve.service.guards import Guards, RequestLog, Tokens
from truthgym.serve.service.limits import Limits, Refusal, log_traceback
from truthgym.serve.service.pool import Pool, check_items
from truthgym.serve.service.scoring import Item, Result, Source
from truthgym.serve.spec import RewardSpec, named_spec

DIGEST = "X-Artifact-Digest"
"""The header of every answer that names what scored it, and with which a client insists on it."""
Shape = TypeVar("Shape", bound=BaseModel)


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
    figures: ServerFigures = field(default_factory=ServerFigures)
    draining: bool = False
    """Whether it was told to end."""
    swapping: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.pool = Pool(self.limits, self.figures, self.canary)

    async def score(self, request: Request, items: Sequence[Item], deadline: float) -> list[Result]:
        """Score a request's items with the specification of this moment, and describe them in its log line."""
        check_items(items, self.limits)
        source = request.state.source = self.source
        entry = request.state.entry
        entry |= {"artifact": source.digest, "items": [item.digest[:16] for item in items]}
        pinned = request.headers.get(DIGEST)
        if pinned and pinned != source.digest:
            raise Refusal(412, "other_artifact", f"This server scores with {source.digest}, not with what you pinned.")
        if self.log.texts:
            entry["texts"] = [{"prompt": item.model_dump()["prompt"], "response": item.response} for item in items]
        results = await self.pool.score(source, items, deadline)
        entry |= {"rewards": [result.reward for result in results], "codes": [one.code for one in results]}
        return results


def parsed(request: Request, shape: type[Shape]) -> Shape:
    """The body of a request in its shape."""
    try:
        return shape.model_validate_json(request.state.body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        if first["type"] == "json_invalid":
            raise Refusal(400, "invalid_json", "The body is not valid JSON.") from None
        place = ".".join(str(part) if isinstance(part, int) else part[:40] for part in first["loc"])
        raise Refusal(422, "invalid_body", f"{place or 'body'}: {first['msg'][:200]}") from None


def answer(content: object, server: Server, status: int = 200, source: Source | None = None) -> Response:
    """A JSON answer. NaN and infinities are an error, not an extension of JSON."""
    headers = {DIGEST: (source or server.source).digest}
    if status == 503:
        headers["Retry-After"] = "1"
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
    app.add_middleware(Guards, tokens=server.tokens, limits=server.limits, log=server.log, figures=server.figures)
    limits = server.limits

    @app.get("/livez")
    async def livez() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/healthz")
    async def healthz() -> Response:
        source = server.source
        health = {"status": "ok", "scorer": source.name, "artifact": source.digest, "made_of": source.made_of}
        return answer(health, server)

    @app.get("/readyz")
    async def readyz() -> Response:
        ready = server.pool.open and not server.draining
        return answer({"status": "ready" if ready else "not ready"}, server, 200 if ready else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(server.figures.text(), media_type="text/plain; version=0.0.4")

    @app.post("/score")
    async def score(request: Request) -> Response:
        (result,) = await server.score(request, [parsed(request, Item)], limits.deadline)
        status = 200 if result.reward is not None else 503 if result.retryable else 422
        return _native({**result.payload(0)}, request, server, status)

    @app.post("/batch_score")
    async def batch_score(request: Request) -> Response:
        results = await server.score(request, parsed(request, Batch).items, limits.deadline)
        payload = {"results": [one.payload(i) for i, one in enumerate(results)]}
        return _native(payload, request, server, 503 if all(result.retryable for result in results) else 200)

    @app.post("/get_reward")
    async def get_reward(request: Request) -> Response:
        items = doors.openrlhf_items(parsed(request, doors.OpenRLHFRequest))
        results = await server.score(request, items, limits.deadline)
        return answer(doors.openrlhf_answer(results), server, source=request.state.source)

    @app.post("/classify")
    async def classify(request: Request) -> Response:
        body = parsed(request, doors.VerlRequest)
        results = await server.score(request, doors.verl_items(body), limits.deadline)
        return answer(doors.classify_answer(results, body.model), server, source=request.state.source)

    @app.post("/v1/embeddings")
    async def embeddings(request: Request) -> Response:
        body = parsed(request, doors.VerlRequest)
        results = await server.score(request, doors.verl_items(body), limits.deadline)
        return answer(doors.embeddings_answer(results, body.model), server, source=request.state.source)

    @app.post("/remote_rm")
    async def remote_rm(request: Request) -> Response:
        item = doors.slime_item(parsed(request, doors.SlimeRequest))
        results = await server.score(request, [item], limits.slime_deadline)
        return answer(doors.rewards(results)[0], server, source=request.state.source)

    @app.post("/admin/artifact")
    async def swap(request: Request) -> Response:
        body = parsed(request, Swap)
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
            before = former.digest
            server.pool.retire(former)
        request.state.entry["swapped"] = [before, source.digest]
        return answer({"before": before, "artifact": source.digest}, server)

    return app


def _native(payload: Mapping[str, Any], request: Request, server: Server, status: int) -> Response:
    source: Source = request.state.source
    return answer({"artifact": source.digest, **payload}, server, status, source)
