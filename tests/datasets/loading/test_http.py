"""JSON from an API, over a real connection to a server on loopback that misbehaves as servers do."""

import gzip
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.fixtures import Answer, Serve, Server
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading import download
from truthgym.datasets.loading.download import ATTEMPTS, check_secret, get_json, limited, read_pages

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
        ((200, {}, b'["half a character: \\ud83d"]'), 1, ["not JSON", "hex escape"]),
        ((200, {}, b"[" + b"9" * 5000 + b"]"), 1, ["not JSON", "out of range"]),
        ((429, {"Retry-After": "\u00b2"}, b""), ATTEMPTS, ["429 Too Many Requests"]),
        ((200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(70 * 2**20))), 1, ["larger than 67108864 bytes"]),
        ((200, {"Content-Encoding": "gzip, gzip"}, gzip.compress(b"{}")), 1, ["compressed as 'gzip, gzip'"]),
        ((200, {}, b"[" * 100_000), 1, ["not JSON", "recursion"]),
        ((200, {"Content-Length": "500"}, b"[{"), ATTEMPTS, ["cannot be read", "closed connection"]),
    ],
    ids=lambda value: "",
)
def test_a_lasting_failure_is_one_error(connect: Connect, answer: Answer, times: int, parts: list[str]) -> None:
    client, server = connect(answer)
    with pytest.raises(BadInput) as error:
        get_json(client, "/notes", fallback="use another")
    for part in [*parts, server.address]:
        assert part in str(error.value)
    assert len(server.asked) == times


def test_no_network_is_one_error_with_a_remedy(serve: Serve) -> None:
    match = r"http://127.0.0.1:9/notes cannot be read \(.*\); check the network, or stop"
    with httpx.Client(base_url="http://127.0.0.1:9", trust_env=False) as client, pytest.raises(BadInput, match=match):
        get_json(client, "/notes", fallback="stop")


def test_a_server_that_sends_a_byte_at_a_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    response = httpx.Response(200, request=httpx.Request("GET", "http://example.org/a"))
    with pytest.raises(BadInput, match="http://example.org/a: 0 bytes came in 61 seconds"):
        list(limited(response, iter([b"x"] * 500), 10**6))


def following(page: dict[str, Any], _: object) -> dict[str, str] | None:
    return {"after": page["next"]} if page.get("next") else None


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (lambda k: {"items": [{}], "next": str(k)}, "more than 5 pages"),
        (lambda k: {"items": [{}], "next": "a"}, "page after .* came twice"),
        (lambda k: {"items": {}}, "expected a list of objects under 'items'"),
        (lambda k: {"items": [1]}, "expected a list of objects"),
        (lambda k: [], r"expected .* got \[\]"),
    ],
)
def test_a_listing_ends(serve: Serve, monkeypatch: pytest.MonkeyPatch, answer: Any, match: str) -> None:
    monkeypatch.setattr(download, "MAX_PAGES", 5)
    server = serve(lambda _: (200, {}, json.dumps(answer(len(server.asked))).encode()))
    with httpx.Client(base_url=server.address, trust_env=False) as client, pytest.raises(BadInput, match=match):
        list(read_pages(client, "/list", {}, "items", following))
    assert len(server.asked) <= 5


@pytest.mark.parametrize("secret", ["", "two words", "nul\0", "gehéim", "line\nbreak"])
def test_a_bad_token_is_not_shown(secret: str) -> None:
    with pytest.raises(BadInput, match="TOKEN is not a token") as error:
        check_secret("TOKEN", secret)
    assert not secret or secret not in str(error.value)
    assert check_secret("TOKEN", " abc\n") == "abc"
