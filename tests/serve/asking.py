"""Asks a server's application without a network."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from truthgym.scorers.rubrics.reward import Artifact, Content, RubricReward
from truthgym.serve.server import Server, application
from truthgym.serve.service.scoring import JUDGE_FAILED, Item, Result, Source
from truthgym.serve.spec import RewardSpec

JUDGE = {"grader": "reference/judge"}
MODEL_GRADER = RewardSpec(scorer="graded", options={"grader": "model"}, roles=JUDGE)
BRIER = RewardSpec(scorer="graded")
JSON = {"content-type": "application/json"}


def server(spec: RewardSpec = BRIER, **options: Any) -> Server:
    return Server(Source(spec), **options)


def item(response: str, **fields: Any) -> dict[str, Any]:
    return {"prompt": "Will it rain?", "response": response, "target": "yes", **fields}


@asynccontextmanager
async def web(served: Server, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    app = application(served)
    transport = httpx.ASGITransport(app)
    client = httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers)
    async with app.router.lifespan_context(app), client:
        yield client


def ask(served: Server, *requests: tuple[str, Any], together: Any = False, **headers: str) -> list[httpx.Response]:
    """Send requests (path and JSON, or bytes; None is a GET), one after another or all at once."""

    async def send_all() -> list[httpx.Response]:
        async with web(served) as http:

            def send(path: str, body: Any) -> Any:
                if body is None:
                    return http.get(path, headers=headers)
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                return http.post(path, content=content, headers={**JSON, **headers})

            if together:
                return list(await asyncio.gather(*(send(*request) for request in requests)))
            return [await send(*request) for request in requests]

    return asyncio.run(send_all())


def artifact(folder: Path, reward: RubricReward, **options: Any) -> RewardSpec:
    """A specification of a rubric artifact, which is written to the folder."""
    path = folder / "rm.json"
    path.write_text(json.dumps(Artifact.of(Content(reward=reward)).model_dump(mode="json")))
    return RewardSpec(scorer="rubric", options={"rubric": str(path)}, **options)


def rewards(response: httpx.Response) -> list[Any]:
    return [result["reward"] for result in response.json()["results"]]


class Stub:
    """A scorer in place of a source's own: replies by text, fails on request, and counts."""

    def __init__(self, served: Server, failures: Sequence[str] = (), seconds: float = 0.0) -> None:
        self.calls: list[str] = []
        self.failures = list(failures)

        async def score(item: Item) -> Result:
            self.calls.append(item.response)
            await asyncio.sleep(seconds)
            if item.response in self.failures:
                self.failures.remove(item.response)
                return JUDGE_FAILED
            return Result(score=float(len(item.response)), reward=float(len(item.response)))

        served.source.score = score  # type: ignore[method-assign]
