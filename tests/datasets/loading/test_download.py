"""Downloads, from a server on loopback that breaks off, limits its rate, or serves something else."""

import bz2
import gzip
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fixtures import Answer, Request, Serve, Server
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading import row_files
from truthgym.datasets.loading.download import (
    ATTEMPTS,
    check_secret,
    download,
    get_json,
    hub_file,
    limited,
    lines,
    parquet_files,
    read_pages,
)

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
    assert [(request.path, request.query) for request in server.asked] == [("/notes", {"offset": "10", "limit": "5"})]


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
        ((302, {"Location": "https://example.org"}, b""), 1, ["302 Found"]),
        ((200, {}, b"<!DOCTYPE html><html>Welcome"), 1, ["not JSON", "'<!"]),
        ((200, {}, b"[" + b"9" * 5000 + b"]"), 1, ["not JSON", "out of range"]),
        ((200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(70 * 2**20))), 1, ["larger than 67108864 bytes"]),
        ((200, {"Content-Encoding": "gzip, gzip"}, gzip.compress(b"{}")), 1, ["compressed as 'gzip, gzip'"]),
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
    monkeypatch.setattr("truthgym.datasets.loading.download.MAX_PAGES", 5)
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


BODY = bytes(range(256)) * 4000
MD5 = hashlib.md5(BODY).hexdigest()
Start = Callable[..., Server]


@pytest.fixture
def start(serve: Serve) -> Start:
    """Serve a body. Each step says how one request is answered: a status, or "cut". Later ones are served whole."""

    def start(*steps: str, body: bytes = BODY, ranges: bool = True, headers: dict[str, str] | None = None) -> Server:
        waiting = list(steps)

        def answer(request: Request) -> Answer:
            step = waiting.pop(0) if waiting and request.method == "GET" else ""
            if step.isdigit():
                return int(step), {"Retry-After": "0"}, b""
            wanted = request.headers.get("Range") if ranges else None
            begins = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
            if begins >= len(body):
                return 416, {}, b""
            known = {"Content-Length": str(len(body) - begins), **(headers or {})}
            if begins:
                known["Content-Range"] = f"bytes {begins}-{len(body) - 1}/{len(body)}"
            return (206 if wanted else 200), known, body[begins : begins + 300_000] if step == "cut" else body[begins:]

        return serve(answer)

    return start


def ranges(server: Server) -> list[str | None]:
    return [request.headers.get("Range") for request in server.asked if request.method == "GET"]


def fetch(server: Server, path: Path, md5: str = MD5) -> Path:
    return download(f"{server.address}/file.bz2", path, lambda: md5)


def test_a_file_is_downloaded_once(start: Start, tmp_path: Path) -> None:
    server = start()
    path = fetch(server, tmp_path / "deep" / "file")
    assert path.read_bytes() == BODY
    assert fetch(server, path) == path
    assert len(server.asked) == 1
    assert not path.with_name("file.part").exists()


@pytest.mark.parametrize(
    ("steps", "part", "ranged", "asked"),
    [
        (["cut", "cut", "503", "cut"], 0, True, [None, 300_000, 600_000, 600_000, 900_000]),
        ([], 1000, True, [1000]),
        ([], len(BODY), True, [len(BODY)]),  # only checked
        (["429", "503", "502"], 0, True, [None] * 4),
        (["cut"], 0, False, [None, 300_000]),  # begins anew
    ],
    ids=["cut", "interrupted", "whole", "busy", "no ranges"],
)
def test_a_download_is_resumed(
    start: Start, tmp_path: Path, steps: list[str], part: int, ranged: bool, asked: list[int | None]
) -> None:
    if part:
        (tmp_path / "file.part").write_bytes(BODY[:part])
    server = start(*steps, ranges=ranged)
    assert fetch(server, tmp_path / "file").read_bytes() == BODY
    assert ranges(server) == [begins and f"bytes={begins}-" for begins in asked]


@pytest.mark.parametrize(
    ("steps", "times", "part"), [(["429"] * 50, ATTEMPTS, 0), (["cut", *["503"] * 50], ATTEMPTS, 300_000)]
)
def test_a_server_that_stays_busy_is_given_up(
    start: Start, tmp_path: Path, steps: list[str], times: int, part: int
) -> None:
    server = start(*steps)
    with pytest.raises(BadInput, match=r"cannot be read .*the partial download is kept.* or use source"):
        fetch(server, tmp_path / "file")
    assert len(server.asked) == times
    kept = tmp_path / "file.part"
    assert (kept.stat().st_size if kept.exists() else 0) == part


def test_another_status_is_one_error(start: Start, tmp_path: Path) -> None:
    server = start("410")
    with pytest.raises(BadInput, match=f'{server.address}.*: the server answered 410 .*; use source="bundled"'):
        fetch(server, tmp_path / "file")
    assert len(server.asked) == 1


def test_an_error_page_leaves_nothing_behind(start: Start, tmp_path: Path) -> None:
    server = start(body=b"<!DOCTYPE html><title>Maintenance</title>")
    with pytest.raises(BadInput, match=f"has the MD5 .*, not {MD5}, and begins with b'<!DOCTYPE html>"):
        fetch(server, tmp_path / "file")
    assert not list(tmp_path.glob("file*[!k]"))


def test_a_download_has_a_limit(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truthgym.datasets.loading.download.MAX_DOWNLOAD", 300_000)
    with pytest.raises(BadInput, match="larger than 300000 bytes"):
        fetch(start(), tmp_path / "file")


def test_without_an_md5_nothing_is_fetched(start: Start, tmp_path: Path) -> None:
    server = start()

    def unknown() -> str:
        raise BadInput("no digest")

    with pytest.raises(BadInput, match="no digest"):
        download(server.address, tmp_path / "file", unknown)
    assert server.asked == []


def test_an_unwritable_place_is_one_error(start: Start, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(BadInput, match="cannot be written to"):
        fetch(start(), tmp_path / "taken" / "file")


def test_two_at_once_download_once(start: Start, tmp_path: Path) -> None:
    server = start()
    threads = [threading.Thread(target=fetch, args=(server, tmp_path / "file")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "file").read_bytes() == BODY
    assert len(server.asked) == 1


REVISION = "0123456789abcdef" * 2 + "01234567"
HUB = {"ETag": f'"{sha256(BODY).hexdigest()}"', "X-Repo-Commit": REVISION, "Accept-Ranges": "bytes"}


def from_hub(server: Server) -> Path:
    return hub_file("mine", "anna/set", REVISION, "data/a.bin", server.address)


@pytest.mark.parametrize(
    "answer",
    [
        (404, {"X-Error-Code": "EntryNotFound"}, b""),
        (500, {}, b"<html>down</html>"),
        (200, {}, b"<html>Sign in to this network</html>"),
        (200, {**HUB, "Content-Length": "5000"}, b"PAR1 and a bit"),
    ],
    ids=["not found", "down", "page", "cut off"],
)
def test_a_hub_file_that_cannot_be_had(serve: Serve, tmp_path: Path, answer: Answer) -> None:
    with pytest.raises(BadInput) as error:
        from_hub(serve(lambda _: answer))
    for part in ("mine: data/a.bin of anna/set", REVISION, 'use source="bundled"'):
        assert part in str(error.value)
    assert not [path for path in tmp_path.rglob("blobs/*") if not path.name.endswith(".incomplete")]


def test_offline_hub_is_one_error(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(BadInput, match='cannot be downloaded .* try again .* use source="bundled"'):
        from_hub(serve(lambda _: (200, {}, b"")))


def test_a_folder_without_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="mine: the folder .* has no .parquet file; give one that has"):
        parquet_files("mine", "anna/set", REVISION, ["a.parquet"], str(tmp_path))


@pytest.mark.parametrize("packed", [True, False])
def test_lines_are_read_with_their_places(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("x.jsonl.bz2" if packed else "x.jsonl")
    # Two streams one after the other are one file to bzip2.
    path.write_bytes(bz2.compress(b"{}\n\n") + bz2.compress(b"[1]") if packed else b"{}\n\n[1]")
    assert list(lines(path)) == [(f"{path.name} line 1", b"{}\n"), (f"{path.name} line 3", b"[1]")]


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("x.bz2", bz2.compress(json.dumps(["a"] * 9).encode() * 9999)[:-50], "After x.bz2.*incomplete: remove"),
        ("x.bz2", b"<!DOCTYPE html>", "After x.bz2: Invalid data stream"),
        ("x.jsonl", b"{}\n" + b"x" * 5000, "line 2: longer than 1000 bytes"),
        ("x.bz2", None, "There is no file"),
    ],
    ids=["truncated", "page", "long line", "none"],
)
def test_unreadable_lines_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: Any, match: str
) -> None:
    monkeypatch.setattr(row_files, "MAX_BYTES", 1000 if name == "x.jsonl" else 10**7)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=match):
        list(lines(tmp_path / name))
