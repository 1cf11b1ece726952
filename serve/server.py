"""A reward server: any scorer over HTTP, for trainers that run elsewhere.

truthgym serve --scorer graded -S grader=model --model-role grader=reference/judge
"""

import asyncio
import signal
from pathlib import Path
from socket import socket
from types import FrameType

from truthgym.serve.service.app import Server, application
from truthgym.serve.service.guards import RequestLog, check_bind, read_tokens
from truthgym.serve.service.limits import Limits
from truthgym.serve.service.scoring import Rates, Source
from truthgym.serve.spec import RewardSpec


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
    """Serve a scorer until SIGTERM or SIGINT. Requests that are open then are answered first.

    Args:
        spec: The scorer with its options and models.
        host: Where to listen. Other than loopback only with a token.
        port: The port; 0 chooses a free one.
        tokens: File of hashed tokens, see `guards.read_tokens`.
        specs: Folder of specifications between which an admin may switch.
        log: File of the request log.
        log_text: Whether it holds prompts and replies.
        canary: Share of the items, 0 to 1, that are scored a second time with a request for full marks.
        limits: The limits.

    Raises:
        BadInput: A specification that cannot be loaded; a host that is open without a token.
    """
    import uvicorn

    limits = limits or Limits()
    known = read_tokens(tokens)
    check_bind(host, known)
    rates = Rates(limits.requests_per_minute, limits.tokens_per_minute)
    served = Server(Source(spec, limits.concurrency, rates), known, limits, specs, RequestLog(log, log_text), canary)
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
        http="h11",
        h11_max_incomplete_event_size=8192,  # headers that arrive in several parts; `Guards` limits the others
        limit_concurrency=limits.connections,
        timeout_keep_alive=30,  # longer than a client keeps an idle connection: its next request would find it closed
        timeout_graceful_shutdown=int(limits.drain),
        server_header=False,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises it again after the shutdown; the exit status is 0
    Web(config).run()
