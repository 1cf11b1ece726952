from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.fixtures import Answer, Request, Serve, Server


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Serve on loopback. Retries do not wait, and caches are of this test alone."""
    running: list[ThreadingHTTPServer] = []
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda _: None)

    def start(answer: Callable[[Request], Answer]) -> Server:
        server = Server(answer)
        running.append(server.start())
        return server

    yield start
    for http in running:
        http.shutdown()
        http.server_close()
