"""The limits of a server, and the refusals that they lead to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of a server. Times are in seconds."""

    body_bytes: int = 2_000_000
    batch_items: int = 64
    item_characters: int = 128_000
    """Of the prompt and the reply together."""
    concurrency: int = 100
    """Items that are scored at the same time."""
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
    drain: float = 30.0
    """For open requests to end after SIGTERM."""


class Refusal(Exception):
    """A request is answered with an error. `message` is for the client and holds no secret."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after


def overloaded(message: str) -> Refusal:
    """The refusal that every trainer tries again: verl raises at once on 429 and every other 4xx."""
    return Refusal(503, "overloaded", message, retry_after=1)
