"""Downloads, from a server on loopback that breaks off, limits its rate, or serves something else."""

import bz2
import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading import download as module
from truthgym.datasets.loading.download import download, lines
from truthgym.datasets.loading.http import ATTEMPTS

BODY = bytes(range(256)) * 4000
MD5 = hashlib.md5(BODY).hexdigest()
Server = Callable[..., tuple[str, list[str | None]]]


@pytest.fixture
def serve() -> Iterator[Server]:
    """Serve a body. Each step says what one request meets; later ones are served whole. Gives the address, and the
    ranges that were asked for."""
    started = []

    def start(*steps: str, body: bytes = BODY, ranges: bool = True) -> tuple[str, list[str | None]]:
        asked: list[str | None] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                step = steps[len(asked)] if len(asked) < len(steps) else "whole"
                wanted = self.headers.get("Range")
                asked.append(wanted)
                if step.isdigit():
                    self.send_response(int(step))
                    self.send_header("Retry-After", "0")
                    self.send_header("Content-Length", "0")
                    return self.end_headers()
                begins = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and ranges else 0
                if begins >= len(body):
                    self.send_response(416)
                    self.send_header("Content-Length", "0")
                    return self.end_headers()
                self.send_response(206 if wanted and ranges else 200)
                self.send_header("Content-Length", str(len(body) - begins))
                self.end_headers()
                self.wfile.write(body[begins : begins + 300_000] if step == "cut" else body[begins:])
                return None

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        started.append(server)
        return f"http://127.0.0.1:{server.server_port}/file.bz2", asked

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def fetch(address: str, path: Path, md5: str = MD5) -> Path:
    return download(address, path, lambda: md5, pause=0.001)


def test_a_file_is_downloaded_once(serve: Server, tmp_path: Path) -> None:
    address, asked = serve()
    path = fetch(address, tmp_path / "deep" / "file")
    assert path.read_bytes() == BODY
    assert fetch(address, path) == path
    assert len(asked) == 1
    assert not path.with_name("file.part").exists()


def test_a_cut_connection_is_gone_on_from(serve: Server, tmp_path: Path) -> None:
    address, asked = serve("cut", "cut", "503", "cut")
    assert fetch(address, tmp_path / "file").read_bytes() == BODY
    assert asked[0] is None
    assert asked[1:3] == ["bytes=300000-", "bytes=600000-"]
    assert asked[3:] == ["bytes=600000-", "bytes=900000-"]


def test_what_came_of_an_interrupted_run_is_gone_on_from(serve: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(BODY[:1000])
    address, asked = serve()
    assert fetch(address, tmp_path / "file").read_bytes() == BODY
    assert asked == ["bytes=1000-"]


def test_a_part_that_is_whole_is_only_checked(serve: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(BODY)
    address, _ = serve()
    assert fetch(address, tmp_path / "file").read_bytes() == BODY


def test_a_server_without_ranges_begins_anew(serve: Server, tmp_path: Path) -> None:
    address, asked = serve("cut", ranges=False)
    assert fetch(address, tmp_path / "file").read_bytes() == BODY
    assert asked == [None, "bytes=300000-"]


@pytest.mark.parametrize("busy", ["429", "503", "502"])
def test_a_busy_server_is_asked_again(serve: Server, tmp_path: Path, busy: str) -> None:
    address, asked = serve(busy, busy)
    assert fetch(address, tmp_path / "file").read_bytes() == BODY
    assert len(asked) == 3


def test_a_server_that_stays_busy_is_given_up(serve: Server, tmp_path: Path) -> None:
    address, asked = serve(*["429"] * 50)
    with pytest.raises(BadInput, match=r"cannot be read \(429 Too Many Requests\); check the network .* or use source"):
        fetch(address, tmp_path / "file")
    assert len(asked) == ATTEMPTS
    assert not (tmp_path / "file").exists()


def test_what_has_come_is_kept_when_the_server_is_given_up(serve: Server, tmp_path: Path) -> None:
    address, _ = serve("cut", *["503"] * 50)
    with pytest.raises(BadInput, match="the partial download is kept"):
        fetch(address, tmp_path / "file")
    assert (tmp_path / "file.part").stat().st_size == 300_000


@pytest.mark.parametrize("status", ["404", "403", "410"])
def test_another_status_is_one_error(serve: Server, tmp_path: Path, status: str) -> None:
    address, asked = serve(status)
    with pytest.raises(BadInput, match=f'{address}: the server answered {status} .*; use source="bundled"'):
        fetch(address, tmp_path / "file")
    assert len(asked) == 1


def test_an_error_page_leaves_nothing_behind(serve: Server, tmp_path: Path) -> None:
    address, _ = serve(body=b"<!DOCTYPE html><title>Maintenance</title>")
    with pytest.raises(BadInput, match=f"has the MD5 .*, not {MD5}, and begins with b'<!DOCTYPE html>"):
        fetch(address, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


def test_offline_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"http://127.0.0.1:1/file cannot be read \(.*refused.*use source=\"bundled\""):
        fetch("http://127.0.0.1:1/file", tmp_path / "file")


def test_a_digest_that_cannot_be_had_ends_it_before_anything_is_fetched(serve: Server, tmp_path: Path) -> None:
    address, asked = serve()

    def unknown() -> str:
        raise BadInput("no digest")

    with pytest.raises(BadInput, match="no digest"):
        download(address, tmp_path / "file", unknown)
    assert asked == []


def test_a_place_that_cannot_be_written_to_is_one_error(serve: Server, tmp_path: Path) -> None:
    address, _ = serve()
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(BadInput, match="cannot be written to"):
        fetch(address, tmp_path / "taken" / "file")


def test_two_at_once_download_once(serve: Server, tmp_path: Path) -> None:
    address, asked = serve()
    threads = [threading.Thread(target=fetch, args=(address, tmp_path / "file")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "file").read_bytes() == BODY
    assert len(asked) == 1


@pytest.mark.parametrize("packed", [True, False])
def test_lines_are_read_with_their_places(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("x.jsonl.bz2" if packed else "x.jsonl")
    # Two streams one after the other are one file to bzip2.
    path.write_bytes(bz2.compress(b"{}\n\n") + bz2.compress(b"[1]") if packed else b"{}\n\n[1]")
    assert list(lines(path)) == [(f"{path.name} line 1", b"{}\n"), (f"{path.name} line 3", b"[1]")]


def test_a_truncated_file_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "x.bz2"
    path.write_bytes(bz2.compress(b"\n".join(b'{"a": %d}' % i for i in range(100_000)))[:-50])
    with pytest.raises(BadInput, match=r"x.bz2, after line \d+: .*incomplete: remove .*x.bz2 and try again"):
        list(lines(path))


def test_a_web_page_under_the_name_of_a_packed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.bz2"
    path.write_text("<!DOCTYPE html>")
    with pytest.raises(BadInput, match="x.bz2, after line 0: Invalid data stream"):
        list(lines(path))


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"{}\n" + b"x" * 5000)
    with pytest.raises(BadInput, match=r"x.jsonl line 2: longer than 1000 bytes"):
        list(lines(path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="There is no file"):
        list(lines(tmp_path / "x.bz2"))
