"""Asks a server's application without a network."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx

from truthgym.serve.server import Server, application
from truthgym.serve.service.scoring import Source
from truthgym.serve.spec import RewardSpec

JUDGE = {"grader": "reference/judge"}
MODEL_GRADER = RewardSpec(scorer="graded", options={"grader": "model"}, roles=JUDGE)
BRIER = RewardSpec(scorer="graded")
JSON = {"content-type": "application/json"}


def server(spec: RewardSpec = BRIER, **options: Any) -> Server:
    return Server(Source(spec), **options)


def item(response: str, **fields: Any) -> dict[str, Any]:
    return {"prompt": "Will it rain?", "response": response, "target": "yes", **fields}


def ask(served: Server, *requests: tuple[str, Any], together: Any = False, **headers: str) -> list[httpx.Response]:
    """Send requests (path and JSON, or bytes; None is a GET), one after another or all at once."""

    async def send_all() -> list[httpx.Response]:
        app = application(served)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://test") as http,
        ):

            def send(path: str, body: Any) -> Any:
                if body is None:
                    return http.get(path, headers=headers)
                if isinstance(body, bytes):
                    return http.post(path, content=body, headers={**JSON, **headers})
                return http.post(path, json=body, headers=headers)

            if together:
                found: list[httpx.Response] = await asyncio.gather(*(send(*one) for one in requests))
                return found
            return [await send(*request) for request in requests]

    return asyncio.run(send_all())


def rewards(response: httpx.Response) -> list[Any]:
    return [result["reward"] for result in response.json()["results"]]


class Stub:
    """A scorer in place of a source's own: replies by text, fails on request, and counts."""

    def __init__(self, served: Server, failures: Sequence[str] = (), seconds: float = 0.0) -> None:
        from truthgym.serve.service.scoring import JUDGE_FAILED, Item, Result

        self.calls: list[str] = []
        self.failures = list(failures)

        async def score(given: Item, draw: int = 0) -> Result:
            self.calls.append(given.response)
            await asyncio.sleep(seconds)
            if given.response in self.failures:
                self.failures.remove(given.response)
                return JUDGE_FAILED
            return Result(score=float(len(given.response)), reward=float(len(given.response)))

        served.source.score = score  # type: ignore[method-assign, assignment]
