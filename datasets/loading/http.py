"""The web: JSON from an API that limits its rate, breaks off, or answers with an error page."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from truthgym.datasets.errors import BadInput

if TYPE_CHECKING:
    import httpx

ATTEMPTS = 6
LONGEST = 120.0
"""Seconds between two attempts, at most, also where the server asks for more."""
RETRY_STATUS = (408, 425, 429, 500, 502, 503, 504)
"""Statuses that another attempt may not meet."""


class RetryLater(Exception):
    """The server asked to come back later."""

    def __init__(self, answer: "httpx.Response") -> None:
        super().__init__(f"{answer.status_code} {answer.reason_phrase}")
        asked = answer.headers.get("Retry-After", "")
        self.after = float(asked) if asked.isdigit() else 0.0
        """Seconds that it asks for."""


def delay(error: BaseException | None, pause: float, failures: int) -> float:
    """Seconds to wait after so many failures in a row, the last of which was this error: 120 at most.

    >>> [delay(None, 1.0, failures) for failures in (1, 2, 3, 9)]
    [1.0, 2.0, 4.0, 120.0]
    """
    asked = error.after if isinstance(error, RetryLater) else 0.0
    return min(LONGEST, max(asked, pause * 2.0 ** (failures - 1)))


def get_json(
    client: "httpx.Client",
    address: str,
    parameters: Mapping[str, str | int] | None = None,
    *,
    instead: str = 'use source="bundled"',
    pause: float = 1.0,
) -> Any:  # noqa: ANN401 (JSON)
    """Get JSON, again where the server is busy or the connection breaks off: six times at most, ever further apart.

    Args:
        client: The client, with headers and time limits.
        address: Address, whole or from the client's base.
        parameters: Of the query.
        instead: What the user can do where it cannot be had, for the message.
        pause: Seconds before the second attempt; the wait doubles, and is at least what the server asks for in
            `Retry-After`.

    Raises:
        BadInput: It cannot be had, or is no JSON. Names the address and what came.
    """
    import httpx
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

    attempts = Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=lambda state: delay(state.outcome.exception() if state.outcome else None, pause, state.attempt_number),
        retry=retry_if_exception_type((httpx.TransportError, RetryLater)),
        reraise=True,
    )
    try:
        answer = attempts(_get, client, address, dict(parameters or {}))
    except (httpx.HTTPError, httpx.InvalidURL, RetryLater) as error:
        why = f"{error}, {ATTEMPTS} times" if isinstance(error, RetryLater) else str(error) or type(error).__name__
        raise BadInput(
            f"{client.base_url.join(address)} cannot be read ({why}); check the network, or {instead}"
        ) from None
    place = str(answer.url)
    if answer.status_code != 200:
        raise BadInput(
            f"{place}: the server says {answer.status_code} {answer.reason_phrase} ({_shown(answer)}); {instead}"
        )
    try:
        return answer.json()
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{place}: no JSON came ({error}), but {_shown(answer)}; try again later, or {instead}"
        ) from None


def _get(client: "httpx.Client", address: str, parameters: dict[str, str | int]) -> "httpx.Response":
    answer = client.get(address, params=parameters or None)
    if answer.status_code in RETRY_STATUS:
        raise RetryLater(answer)
    return answer


def _shown(answer: "httpx.Response") -> str:
    return repr(answer.text[:80])
