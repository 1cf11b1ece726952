"""JSON from an API, over a real connection to a server on loopback that misbehaves as servers do."""

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.fixtures import Answer, Serve, Server
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.http import ATTEMPTS, get_json

Connect = Callable[..., tuple[httpx.Client, Server]]
GOOD: Answer = (200, {}, b'[{"a": 1}]')


@pytest.fixture
def connect(serve: Serve) -> Iterator[Connect]:
    """A client of a server that gives one answer after the other, the last again and again."""
    clients = []

    def start(*answers: Answer) -> tuple[httpx.Client, Server]:
        server = serve(lambda _: answers[-1])
        server.first = list(answers)
        client = httpx.Client(base_url=server.address, trust_env=False)
        clients.append(client)
        return client, server

    yield start
    for client in clients:
        client.close()


def test_json_is_read(connect: Connect) -> None:
    client, server = connect(GOOD)
    assert get_json(client, "/notes", {"offset": 10, "limit": 5}) == [{"a": 1}]
    assert [(one.path, one.query) for one in server.asked] == [("/notes", {"offset": "10", "limit": "5"})]


@pytest.mark.parametrize(
    "first",
    [
        (429, {"Retry-After": "0"}, b"slow down"),
        (503, {}, b"<html>busy</html>"),
        (200, {"Content-Length": "500"}, b'[{"a": 1}, {"a"'),  # the connection breaks off in the middle
    ],
    ids=["rate limit", "busy", "cut off"],
)
def test_a_passing_failure_is_retried(connect: Connect, first: Answer) -> None:
    client, server = connect(first, first, GOOD)
    assert get_json(client, "/notes") == [{"a": 1}]
    assert len(server.asked) == 3


def test_the_server_decides_the_delay(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    client, _ = connect((429, {"Retry-After": "7"}, b""), (429, {"Retry-After": "9999"}, b""), (503, {}, b""), GOOD)
    monkeypatch.setattr("tenacity.nap.time.sleep", waited.append)
    get_json(client, "/notes", pause=2)
    assert waited == [7, 120, 8]


@pytest.mark.parametrize(
    ("answer", "times", "parts"),
    [
        ((429, {}, b""), ATTEMPTS, ["429 Too Many Requests", "check the network"]),
        ((404, {}, b"<html>Not here</html>"), 1, ["404 Not Found", "<html>Not here</html>"]),
        ((403, {}, b"no"), 1, ["403 Forbidden", "'no'"]),
        ((302, {"Location": "https://example.org"}, b""), 1, ["302 Found"]),
        ((200, {}, b"<!DOCTYPE html><html>Welcome"), 1, ["not JSON", "'<!"]),
        ((200, {}, b""), 1, ["not JSON"]),
        ((200, {}, b"[" * 100_000), 1, ["not JSON", "recursion"]),
        ((200, {"Content-Length": "500"}, b"[{"), ATTEMPTS, ["cannot be read", "closed connection"]),
    ],
    ids=lambda value: "",
)
def test_a_lasting_failure_is_one_error(connect: Connect, answer: Answer, times: int, parts: list[str]) -> None:
    client, server = connect(answer)
    with pytest.raises(BadInput) as error:
        get_json(client, "/notes", fallback="use another")
    for part in [*parts, "use another", server.address]:
        assert part in str(error.value)
    assert len(server.asked) == times


def test_no_network_is_one_error_with_a_remedy(serve: Serve) -> None:
    match = r"http://127.0.0.1:9/notes cannot be read \(.*\); check the network, or stop"
    with httpx.Client(base_url="http://127.0.0.1:9", trust_env=False) as client, pytest.raises(BadInput, match=match):
        get_json(client, "/notes", fallback="stop")
