from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from truthgym.ui.app import app

ADDRESS = "http://127.0.0.1:7580"


def client_of(folder: Path, token: str | None = None, host: str = "127.0.0.1") -> TestClient:
    """A browser that opened a page of the server: it sends the origin with every form."""
    headers = {"origin": ADDRESS, "sec-fetch-site": "same-origin", "accept": "text/html"}
    return TestClient(app(folder, token, host), base_url=ADDRESS, headers=headers, follow_redirects=False)


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return client_of(tmp_path)
