import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from truthgym.ui.app import app
from truthgym.ui.processes.launcher import LAUNCHER, STARTED, lives, read

ADDRESS = "http://127.0.0.1:7580"


def client_of(folder: Path, token: str | None = None, host: str = "127.0.0.1") -> TestClient:
    """A browser that opened a page of the server: it sends the origin with every form."""
    headers = {"origin": ADDRESS, "sec-fetch-site": "same-origin", "accept": "text/html"}
    return TestClient(app(folder, token, host), base_url=ADDRESS, headers=headers, follow_redirects=False)


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return client_of(tmp_path)


def kill_all(folder: Path) -> None:
    """Kill the process groups of a folder's runs that still live. The number of one that ended may be another's."""
    for path in [path for name in (LAUNCHER, STARTED) for path in folder.glob(f"runs/*/{name}")]:
        if lives(path):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(read(path)["pid"], signal.SIGKILL)
