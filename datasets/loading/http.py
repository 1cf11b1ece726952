"""HTTP: JSON from APIs that limit their rate, break off, or answer with an error page; and the retries of downloads.

What a server sends is read within limits of size, time and pages: no answer can fill the memory. Headers that come byte
by byte are limited by httpx alone: to 100 KiB, and to the client's timeout between two bytes.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from truthgym.datasets.errors import BadInput, shown
from truthgym.datasets.loading.row_files import MAX_BYTES

if TYPE_CHECKING:
    import httpx
    from tenacity import Retrying

ATTEMPTS = 6
MAX_DELAY = 120.0
"""Most seconds between two attempts, even if the server asks for more."""
MIN_RATE = 1000
"""Least bytes a second, on average over a response that takes longer than `GRACE`."""
GRACE = 60.0
"""Seconds."""
MAX_PAGES = 2000
"""Most pages of one listing. The largest listing that is known, of Metaculus, has some hundreds."""
RETRY_STATUS = (408, 425, 429, 500, 502, 503, 504)
"""HTTP statuses after which a request is repeated."""
FALLBACK = 'use source="bundled"'
ACCEPT = {"Accept-Encoding": "gzip"}
"""Of the compressions that httpx unpacks, the one whose chunks cannot become very large."""


def is_url(location: str) -> bool:
    """Whether a location is an HTTP address, not a path."""
    return location.startswith(("http://", "https://"))


def check_secret(place: str, secret: str) -> str:
    """A token without the white space around it. The token is never shown."""
    if not re.fullmatch(r"[!-~]+", secret.strip()):
        raise BadInput(f"{place} is not a token: it must be one word of ASCII characters; copy it again")
    return secret.strip()


class RetryLater(Exception):
    """The server asked to repeat the request later."""

    def __init__(self, response: "httpx.Response") -> None:
        super().__init__(f"{response.status_code} {response.reason_phrase}")
        after = response.headers.get("Retry-After", "")
        self.after = float(after) if re.fullmatch("[0-9]{1,9}", after) else 0.0
        """Seconds to wait, from the header `Retry-After`."""


def retries(pause: float) -> "Retrying":
    """Six attempts, with waits of `pause`, 2 `pause`, 4 `pause`, ... seconds between them, or as the server asks.

    A wait is at most 120 seconds. What remains after the last attempt is raised: RetryLater or httpx.TransportError.
    """
    import httpx
    from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        after = error.after if isinstance(error, RetryLater) else 0.0
        return min(MAX_DELAY, max(after, pause * 2.0 ** (state.attempt_number - 1)))

    retry = retry_if_exception_type((httpx.TransportError, RetryLater))
    return Retrying(stop=stop_after_attempt(ATTEMPTS), wait=wait, retry=retry, reraise=True)


def limited(response: "httpx.Response", chunks: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Yield the chunks of a response while they come fast enough and are not too many."""
    began, size = time.monotonic(), 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise BadInput(f"{response.url}: the response is larger than {most} bytes; ask for less")
        yield chunk
        seconds = time.monotonic() - began
        if seconds > GRACE and response.num_bytes_downloaded < MIN_RATE * seconds:
            raise BadInput(
                f"{response.url}: {response.num_bytes_downloaded} bytes came in {seconds:.0f} seconds; try again later"
            )


def get_json(
    client: "httpx.Client",
    address: str,
    parameters: Mapping[str, str | int] | None = None,
    *,
    post: Mapping[str, str] | None = None,
    fallback: str = FALLBACK,
    pause: float = 1.0,
) -> Any:  # noqa: ANN401 (JSON)
    """Get JSON. See `retries` for when the server is busy or the connection breaks off."""
    import httpx

    method, query = "POST" if post else "GET", dict(parameters or {}) or None
    try:
        request = client.build_request(method, address, params=query, json=post, headers=ACCEPT)
        response, content = retries(pause)(_send, client, request)
    except (httpx.HTTPError, httpx.InvalidURL, RetryLater) as error:
        why = f"{error}, {ATTEMPTS} times" if isinstance(error, RetryLater) else str(error) or type(error).__name__
        raise BadInput(
            f"{client.base_url.join(address)} cannot be read ({why}); check the network, or {fallback}"
        ) from None
    start = content[:80].decode(errors="replace")
    if response.status_code != 200:
        status = f"{response.status_code} {response.reason_phrase}"
        raise BadInput(f"{response.url}: the server answered {status} ({start!r}); {fallback}")
    try:
        return from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise BadInput(f"{response.url}: not JSON ({error}), but {start!r}; try again later, or {fallback}") from None


def _send(client: "httpx.Client", request: "httpx.Request") -> tuple["httpx.Response", bytes]:
    response = client.send(request, stream=True)
    try:
        if response.status_code in RETRY_STATUS:
            raise RetryLater(response)
        if response.headers.get("Content-Encoding", "gzip") not in ("gzip", "identity"):
            raise BadInput(f"{response.url}: compressed as {response.headers['Content-Encoding']!r}, which is not read")
        return response, b"".join(limited(response, response.iter_bytes(), MAX_BYTES))
    finally:
        response.close()


def read_pages(
    client: "httpx.Client",
    address: str,
    query: Mapping[str, str | int],
    name: str,
    following: Callable[[dict[str, Any], list[dict[str, Any]]], Mapping[str, str | int] | None],
    *,
    fallback: str = FALLBACK,
) -> Iterator[dict[str, Any]]:
    """Yield the objects that the pages of an API list."""
    place = client.base_url.join(address)
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        page = get_json(client, address, query, fallback=fallback)
        objects = page.get(name) if isinstance(page, dict) else None
        if not isinstance(objects, list) or not all(isinstance(one, dict) for one in objects):
            raise BadInput(f"{place}: expected a list of objects under {name!r}, got {shown(page)}; {fallback}")
        yield from objects
        change = following(page, objects) if objects else None
        if not change:
            return
        if (key := str(change)) in seen:
            raise BadInput(f"{place}: the page after {key} came twice; try again later, or {fallback}")
        seen.add(key)
        query = {**query, **change}
    raise BadInput(f"{place}: more than {MAX_PAGES} pages; ask for less, or {fallback}")
