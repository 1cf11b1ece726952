"""Types of the fixtures in `conftest.py`, for the tests that take them."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import ChatMessage, Model, ModelOutput

from truthgym.datasets.loading.domain import bundled_file
from truthgym.datasets.loading.row_files import read_rows

QUIET: dict[str, Any] = {"display": "log", "log_realtime": False}
"""For `eval`, without what is only for eyes. With display "none", Inspect would still lay out the table of results."""

Reply = str | ModelOutput | Callable[[list[ChatMessage]], str | ModelOutput]
"""A mock model's reply, or a function from the conversation to the reply."""
Heard = list[list[ChatMessage]]
"""The conversations that a mock model was sent, one per call."""

Plain = Callable[[list[ChatMessage]], str]
Says = Callable[[Reply], Model]
Thinks = Callable[..., ModelOutput]
Rain = Callable[..., Sample]
Listens = Callable[..., tuple[Model, Heard]]
Solve = Callable[..., EvalSample]
Number = Callable[[EvalSample, str, str], float]
Reason = Callable[[EvalSample, str], str]


class Run(Protocol):
    """Runs a task as `inspect eval` does and returns its log, which must have succeeded."""

    def __call__(self, task: Task | str, model: str | Model = ..., **arguments: Any) -> EvalLog: ...


class Fails(Protocol):
    """Runs a task that must fail and returns the error in its log."""

    def __call__(self, task: Task | str, model: str | Model = ..., **arguments: Any) -> str: ...


def metrics(log: EvalLog, scorer: int = -1) -> dict[str, float]:
    """The metrics of one of a log's scorers, by name."""
    assert log.results
    return {name: metric.value for name, metric in log.results.scores[scorer].metrics.items()}


def weights(folder: Path) -> dict[str, Any]:
    """The weights of a trained model, by name."""
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def same_weights(one: Path, other: Path) -> bool:
    """Whether two folders hold models with the same weights."""
    import torch

    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def write_rows(path: Path, *rows: object) -> str:
    """Write a .jsonl file and return its path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@dataclass(frozen=True)
class Request:
    """A request to a `Server`."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body. The length of the body is a header unless the answer has another one."""


@dataclass
class Server:
    """A server on loopback."""

    answer: Callable[[Request], Answer]
    first: list[Answer] = field(default_factory=list)
    """Answers that come before those of `answer`."""
    asked: list[Request] = field(default_factory=list)
    address: str = ""

    def start(self, port: int = 0) -> ThreadingHTTPServer:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None: ...

            def handle_one(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = Request(self.command, parts.path, query, dict(self.headers), body)
                server.asked.append(request)
                status, headers, content = server.first.pop(0) if server.first else server.answer(request)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = do_PUT = handle_one

        started = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.address = f"http://127.0.0.1:{started.server_port}"
        return started


@contextmanager
def serving(answer: Callable[[Request], Answer]) -> Iterator[Server]:
    """A server on loopback until the end of the block."""
    server = Server(answer)
    http = server.start()
    yield server
    http.shutdown()
    http.server_close()


Serve = Callable[[Callable[[Request], Answer]], Server]


def bundled_rows(name: str) -> list[dict[str, Any]]:
    """The rows of a bundled file."""
    return [row for _, row in read_rows(bundled_file(name))]


def second_reading(domain: str) -> dict[str, dict[str, Any]]:
    """What a second reader answered about rows of a bundled set, by their ids."""
    path = Path(__file__).parent / "datasets" / "readings" / f"{domain}.jsonl"
    return {row["id"]: row for _, row in read_rows(path)}


def card_line(domain: str) -> str:
    """The data card of a domain as one line, in which a sentence is found wherever its lines break."""
    return " ".join(bundled_file(domain).with_suffix(".md").read_text(encoding="utf-8").split())
