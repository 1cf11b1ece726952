"""The limits of a server, and the refusals that they lead to."""

from dataclasses import dataclass
from logging import getLogger
from traceback import format_tb

LOGGER = getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """Limits of a server. Times are in seconds."""

    body_bytes: int = 2_000_000
    batch_items: int = 64
    item_characters: int = 128_000
    """Of all texts of an item together."""
    header_bytes: int = 8_000
    connections: int = 1500
    """Open at the same time. More are refused with 503."""
    concurrency: int = 100
    """Items that are scored at the same time."""
    requests_per_minute: float = 0.0
    """Of each judge; 0 for no limit."""
    tokens_per_minute: float = 0.0
    """Of each judge, read and written; 0 for no limit."""
    queue: int = 400
    """Items that are scored or wait. More are refused with 503."""
    body_time: float = 10.0
    """For the body of a request to arrive."""
    item_time: float = 60.0
    """For one attempt at an item."""
    deadline: float = 150.0
    """For a request; below the 180 that OpenRLHF waits."""
    slime_deadline: float = 100.0
    """For a request of slime, which waits 120."""
    retries: int = 2
    """Further attempts at an item whose judge failed."""
    breaker_failures: int = 10
    """Judge failures in a row after which the server is not ready."""
    breaker_time: float = 5.0
    """How long it then refuses new items before it tries one."""
    cache_items: int = 10_000
    """Results that are kept for a repeated request."""
    notice: float = 2.0
    """After SIGTERM the server takes requests for so long, and says on /readyz that it is not ready."""
    drain: float = 30.0
    """For open requests to end after that; the others are answered with 503."""


def log_traceback(what: str, error: BaseException) -> None:
    """Write where an error was raised to stderr: its type and the lines of code, without a text of any request."""
    lines = "".join(format_tb(error.__traceback__))
    LOGGER.error("%s: %s\n%s", what, type(error).__name__, lines)


class Refusal(Exception):
    """A request is answered with an error. `message` is for the client and holds no secret."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after


def overloaded(message: str) -> Refusal:
    """The refusal that every trainer tries again: verl raises at once on 429 and every other 4xx."""
    return Refusal(503, "overloaded", message, retry_after=1)
