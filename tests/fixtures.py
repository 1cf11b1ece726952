"""What tests share: mock models, a small question, what is read from a log, and the types of fixtures."""

import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import pytest
from filelock import FileLock
from inspect_ai import Task, eval
from inspect_ai.dataset import Dataset, Sample
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ContentReasoning,
    ContentText,
    Model,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import Score, Scorer
from inspect_ai.solver import Solver

from truthgym.datasets.loading.domain import bundled_file
from truthgym.datasets.loading.row_files import read_rows
from truthgym.datasets.question import Question, question, sample
from truthgym.solvers.prepare import prepare

QUIET: dict[str, Any] = {"display": "log", "log_realtime": False}
"""For `eval`, without what is only for eyes. With display "none", Inspect would still lay out the table of results."""

Reply = str | ModelOutput | Callable[[list[ChatMessage]], str | ModelOutput]
"""A mock model's reply, or a function from the conversation to the reply."""
Heard = list[list[ChatMessage]]
"""The conversations that a mock model was sent, one per call."""

Solve = Callable[..., EvalSample]


class Run(Protocol):
    """Runs a task as `inspect eval` does and returns its log, which must have succeeded."""

    def __call__(self, task: Task | str, model: str | Model = ..., **arguments: Any) -> EvalLog: ...


class Fails(Protocol):
    """Runs a task that must fail and returns the error in its log."""

    def __call__(self, task: Task | str, model: str | Model = ..., **arguments: Any) -> str: ...


def says(reply: Reply) -> Model:
    """A mock model that replies with a text, or with what a function of the conversation returns."""

    def generate(messages: list[ChatMessage], *_: Any) -> ModelOutput:
        output = reply(messages) if callable(reply) else reply
        output = ModelOutput.from_content("mockllm/model", output) if isinstance(output, str) else output
        # Without usage, Inspect would download a tokenizer.
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    return get_model("mockllm/model", custom_outputs=generate, memoize=False)


def plain(messages: list[ChatMessage]) -> str:
    """A reply that states a belief of 0.6 in the requested form, or says nothing if no belief is requested."""
    request = messages[-1].text
    if "whole number from 0 to 100" in request:
        return "60%"
    return r"I think so. \finalBeliefProb{0.6}" if "finalBeliefProb" in request else "Hm."


def listens(reply: Reply = plain) -> tuple[Model, Heard]:
    """A mock model, and the list of the conversations that it is sent, one per call."""
    heard: Heard = []

    def output(messages: list[ChatMessage]) -> str | ModelOutput:
        heard.append(list(messages))
        return reply(messages) if callable(reply) else reply

    return says(output), heard


def thinks(text: str, *reasoning: ContentReasoning) -> ModelOutput:
    """A reasoning model's output: reasoning content, then the reply."""
    message = ChatMessageAssistant(content=[*reasoning, ContentText(text=text)], source="generate")
    return ModelOutput.from_message(message)


def rain(**fields: Any) -> Sample:
    """A small question with three pieces of evidence."""
    evidence = ["It thundered.", "It cleared.", "Clouds came."]
    given = {"domain": "test", "event": "e", "proposition": "It rains.", "evidence": evidence} | fields
    return sample("q", "Will it rain?", "yes", question(Question, "q", **given), "q")


def task_of(
    items: Sample | Sequence[Sample] | Dataset,
    solver: Solver | list[Solver],
    *scorers: Scorer,
    prompt: str | None = None,
    roles: Sequence[str] = (),
    **settings: Any,
) -> Task:
    """A task of some questions, set up as all tasks are."""
    dataset = [items] if isinstance(items, Sample) else items
    return Task(dataset=dataset, setup=prepare(prompt, roles), solver=solver, scorer=list(scorers) or None, **settings)


def samples(log: EvalLog) -> list[EvalSample]:
    """The samples of a log, which has some."""
    assert log.samples
    return log.samples


def score_of(item: EvalSample, scorer: str) -> Score:
    """A scorer's score of a sample."""
    assert item.scores
    return item.scores[scorer]


def values(item: EvalSample, scorer: str) -> dict[str, float]:
    """The numbers of a scorer's score, by their keys."""
    value = score_of(item, scorer).value
    assert isinstance(value, dict)
    return {name: float(number) for name, number in value.items() if isinstance(number, int | float)}


def details(item: EvalSample, scorer: str) -> dict[str, Any]:
    """What a scorer recorded beside its numbers."""
    return score_of(item, scorer).metadata or {}


def number(item: EvalSample, scorer: str, key: str) -> float:
    """One number of a sample's score."""
    return values(item, scorer)[key]


def reason(item: EvalSample, scorer: str) -> str:
    """The reason why a scorer left a sample unscored. All its values must be NaN."""
    assert all(math.isnan(value) for value in values(item, scorer).values())
    return str(details(item, scorer)["reason"])


def evaluate(task: Any, model: Any, folder: Path, **arguments: Any) -> list[EvalLog]:
    """The logs of runs that several tests read. The runs must succeed."""
    logs = eval(task, model=model, log_dir=str(folder), score_display=False, **QUIET, **arguments)
    assert [log.error for log in logs] == [None] * len(logs)
    return logs


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first of pytest's processes makes and the others find. No test changes it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(f"{folder}.lock"):
        if not Path(f"{folder}.made").exists():
            make(folder)
            Path(f"{folder}.made").touch()
    return folder


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
