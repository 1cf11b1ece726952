"""HTTP: JSON from APIs that limit their rate, break off, or answer with an error page; and the retries of downloads."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from truthgym.datasets.errors import BadInput, shown

if TYPE_CHECKING:
    import httpx
    from tenacity import Retrying

ATTEMPTS = 6
MAX_DELAY = 120.0
"""Most seconds between two attempts, even if the server asks for more."""
RETRY_STATUS = (408, 425, 429, 500, 502, 503, 504)
"""HTTP statuses after which a request is repeated."""
FALLBACK = 'use source="bundled"'


def is_url(location: str) -> bool:
    """Whether a location is an HTTP address, not a path."""
    return location.startswith(("http://", "https://"))


class RetryLater(Exception):
    """The server asked to repeat the request later."""

    def __init__(self, response: "httpx.Response") -> None:
        super().__init__(f"{response.status_code} {response.reason_phrase}")
        after = response.headers.get("Retry-After", "")
        self.after = float(after) if after.isdigit() else 0.0
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


def get_json(
    client: "httpx.Client",
    address: str,
    parameters: Mapping[str, str | int] | None = None,
    *,
    fallback: str = FALLBACK,
    pause: float = 1.0,
) -> Any:  # noqa: ANN401 (JSON)
    """Get JSON. See `retries` for when the server is busy or the connection breaks off.

    Args:
        client: The client, with headers and timeouts.
        address: URL, absolute or relative to the client's base URL.
        parameters: Parameters of the query.
        fallback: What the user can do if it fails, for the message.
        pause: Seconds before the second attempt.

    Raises:
        BadInput: The request fails, or the response is not JSON. Names the address and the response.
    """
    import httpx

    try:
        response = retries(pause)(_get, client, address, dict(parameters or {}))
    except (httpx.HTTPError, httpx.InvalidURL, RetryLater) as error:
        why = f"{error}, {ATTEMPTS} times" if isinstance(error, RetryLater) else str(error) or type(error).__name__
        raise BadInput(
            f"{client.base_url.join(address)} cannot be read ({why}); check the network, or {fallback}"
        ) from None
    if response.status_code != 200:
        status = f"{response.status_code} {response.reason_phrase}"
        raise BadInput(f"{response.url}: the server answered {status} ({response.text[:80]!r}); {fallback}")
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{response.url}: not JSON ({error}), but {response.text[:80]!r}; try again later, or {fallback}"
        ) from None


def get_page(
    client: "httpx.Client",
    address: str,
    parameters: Mapping[str, str | int],
    name: str,
    *,
    fallback: str = FALLBACK,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Get a JSON object that lists objects under a name.

    Returns:
        The object, and the list.

    Raises:
        BadInput: As `get_json`, or the response has another shape.
    """
    page = get_json(client, address, parameters, fallback=fallback)
    listed = page.get(name) if isinstance(page, dict) else None
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        place = client.base_url.join(address)
        raise BadInput(f"{place}: expected a list of objects under {name!r}, got {shown(page)}; {fallback}")
    return page, listed


def _get(client: "httpx.Client", address: str, parameters: dict[str, str | int]) -> "httpx.Response":
    response = client.get(address, params=parameters or None)
    if response.status_code in RETRY_STATUS:
        raise RetryLater(response)
    return response
