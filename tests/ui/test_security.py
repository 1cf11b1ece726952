import socket
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.ui.conftest import ADDRESS, client_of
from truthgym.datasets.errors import BadInput
from truthgym.serve.service.guard import Limits
from truthgym.ui.app import app, read_token, serve

TOKEN = "0123456789abcdef"


def test_a_page_and_its_files_are_served_with_a_strict_policy(client: TestClient) -> None:
    for path in ("/", "/static/htmx.min.js", "/static/style.css", "/static/page.js"):
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert "script-src 'self';" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_page_has_no_inline_script_and_loads_nothing_from_elsewhere(client: TestClient) -> None:
    text = client.get("/").text
    assert "<script>" not in text
    assert not [part for part in text.split('"') if part.startswith(("http:", "https:", "//"))]


@pytest.mark.parametrize("host", ["evil.example:7580", "127.0.0.1.evil.example", "192.168.1.5", "", "a:b"])
def test_another_host_is_refused(client: TestClient, host: str) -> None:
    """As of a page whose name someone's DNS points to this machine."""
    assert client.get("/", headers={"host": host}).status_code == 421
    for known in ("127.0.0.1:7580", "LOCALHOST", "[::1]:7580"):
        assert client.get("/", headers={"host": known}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://127.0.0.1:8080"},
        {"origin": ADDRESS, "sec-fetch-site": "cross-site"},
    ],
)
def test_what_changes_something_must_come_from_a_page_of_this_server(
    client: TestClient, headers: dict[str, str]
) -> None:
    assert client.post("/login", data={"token": "x"}, headers=headers).status_code == 403
    assert client.post("/login", data={"token": "x"}).status_code == 303


def test_without_the_token_there_is_nothing(tmp_path: Path) -> None:
    client = client_of(tmp_path, TOKEN, "0.0.0.0")
    answer = client.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert client.get("/runs").headers["location"] == "/login"
    assert client.get("/", headers={"accept": "*/*"}).status_code == 401
    assert client.post("/compose", data={"verb": "eval"}).status_code == 401
    assert client.get("/static/page.js", headers={"accept": "*/*"}).status_code == 401
    for path in ("/reports/r/index.html", "/reports/r/x/charts.js", "/reports/r/charts.json", "/x/charts.js"):
        assert client.get(path, headers={"accept": "*/*"}).status_code == 401, path
    assert client.post("/login", data={"token": "wrong"}).status_code == 401
    assert "truthgym_ui" not in client.cookies


def test_the_token_opens_the_page_by_form_or_header(tmp_path: Path) -> None:
    client = client_of(tmp_path, TOKEN, "0.0.0.0")
    assert client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    answer = client.post("/login", data={"token": TOKEN})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    assert TOKEN not in cookie
    assert client.get("/").status_code == 200
    client.cookies.clear()
    assert client.get("/").status_code == 303


def test_a_server_on_every_address_takes_addresses_and_no_names(tmp_path: Path) -> None:
    client = client_of(tmp_path, TOKEN, "0.0.0.0")
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/", headers=headers | {"host": "192.168.1.5:7580"}).status_code == 200
    assert client.get("/", headers=headers | {"host": "evil.example"}).status_code == 421


def test_a_large_body_is_refused(tmp_path: Path) -> None:
    page = app(tmp_path, limits=Limits(body_bytes=100))
    client = TestClient(page, base_url=ADDRESS, headers={"origin": ADDRESS})
    assert client.post("/login", data={"token": "x" * 200}).status_code == 413
    assert client.get("/", headers={"x": "y" * 9000}).status_code == 431


def test_an_open_host_without_a_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"--host 0\.0\.0\.0 is open to other machines and there is no token"):
        serve(tmp_path, "0.0.0.0")


def test_a_short_token_is_refused_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("hunter2\n")
    with pytest.raises(BadInput, match="at least 16") as caught:
        read_token(file)
    assert "hunter2" not in str(caught.value)
    file.write_text(f"{TOKEN}\nmore\n")
    assert read_token(file) == TOKEN
    file.write_bytes(bytes(range(128, 256)))
    with pytest.raises(BadInput, match="openssl rand"):
        read_token(file)


def test_a_port_in_use_is_one_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(BadInput, match=f"--port {port} is in use on 127.0.0.1"):
            serve(tmp_path, port=port)
