"""JSON from an API, over a real connection to a server on loopback that misbehaves as servers do."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.http import ATTEMPTS, get_json

Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[httpx.Client, list[str]]]]:
    """Serve one answer after the other, the last again and again. Gives a client, and the paths that were asked for."""
    started = []

    def start(*answers: Answer) -> tuple[httpx.Client, list[str]]:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, headers, body = answers[min(len(asked), len(answers) - 1)]
                asked.append(self.path)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        client = httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}", trust_env=False)
        started.append((server, client))
        return client, asked

    yield start
    for server, client in started:
        client.close()
        server.shutdown()
        server.server_close()


GOOD: Answer = (200, {}, b'[{"a": 1}]')


def test_json_is_read(serve: Any) -> None:
    client, asked = serve(GOOD)
    assert get_json(client, "/notes", {"offset": 10, "limit": 5}) == [{"a": 1}]
    assert asked == ["/notes?offset=10&limit=5"]


@pytest.mark.parametrize(
    "first",
    [
        (429, {"Retry-After": "0"}, b"slow down"),
        (503, {}, b"<html>busy</html>"),
        (200, {"Content-Length": "500"}, b'[{"a": 1}, {"a"'),  # the connection breaks off in the middle
    ],
    ids=["rate limit", "busy", "cut off"],
)
def test_a_passing_failure_is_retried(serve: Any, first: Answer) -> None:
    client, asked = serve(first, first, GOOD)
    assert get_json(client, "/notes", pause=0.01) == [{"a": 1}]
    assert len(asked) == 3


def test_the_server_decides_the_delay(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", waited.append)
    client, _ = serve((429, {"Retry-After": "7"}, b""), (429, {"Retry-After": "9999"}, b""), (503, {}, b""), GOOD)
    get_json(client, "/notes", pause=2)
    assert waited == [7, 120, 8]


@pytest.mark.parametrize(
    ("answer", "times", "said"),
    [
        ((429, {}, b""), ATTEMPTS, "cannot be read (429 Too Many Requests, 6 times); check the network, or use source"),
        (
            (404, {}, b"<html>Not here</html>"),
            1,
            "the server answered 404 Not Found ('<html>Not here</html>'); use",
        ),
        ((403, {}, b"no"), 1, "the server answered 403 Forbidden ('no')"),
        (
            (200, {}, b"<!DOCTYPE html><html>Welcome"),
            1,
            "not JSON (Expecting value: line 1 column 1 (char 0)), but '<!",
        ),
        ((200, {}, b""), 1, "not JSON ("),
        ((200, {}, b"[" * 100_000), 1, "not JSON (maximum recursion depth exceeded"),
        ((200, {"Content-Length": "500"}, b"[{"), ATTEMPTS, "cannot be read (peer closed connection"),
    ],
    ids=lambda value: "",
)
def test_a_lasting_failure_is_one_error(serve: Any, answer: Answer, times: int, said: str) -> None:
    client, asked = serve(answer)
    with pytest.raises(BadInput) as refused:
        get_json(client, "/notes", pause=0.001)
    assert said in str(refused.value)
    assert str(client.base_url) in str(refused.value)
    assert len(asked) == times


def test_no_network_is_one_error_with_a_remedy() -> None:
    said = r"http://127.0.0.1:9/notes cannot be read \(.*\); check the network, or stop"
    with httpx.Client(base_url="http://127.0.0.1:9", trust_env=False) as client, pytest.raises(BadInput, match=said):
        get_json(client, "/notes", fallback="stop", pause=0.001)
