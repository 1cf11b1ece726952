"""Limits of a judge's provider: requests and tokens a minute, and the pause that a refusal (429) asks for.

Inspect limits how many calls are open, and with `adaptive_connections` makes them fewer after a 429. It limits neither
requests nor tokens a minute, and does not wait as long as `Retry-After` says. The status with which a call was refused
is noted for the item that is being scored.
"""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from inspect_ai.model import Model, ModelOutput

ATTEMPT: ContextVar[tuple[asyncio.Timeout, float, float] | None] = ContextVar("attempt", default=None)
"""The time limit of the attempt at an item, its seconds, which begin when its last call may be made, and its end."""
STATUSES: ContextVar[list[int] | None] = ContextVar("statuses", default=None)
"""The HTTP statuses with which the judge's calls for an item were refused; 0 for a failure without a status."""
ITEM, SETUP = (400, 413, 422), (401, 403, 404)
"""Statuses whose cause is what was asked, and those whose cause is the key, the address or the model."""
WITHHELD = ("content_filter", "model_length")
"""Inspect's stop reasons of a reply that the provider withheld for what was asked: it had the status 400."""
PAUSE, LONGEST, LONGEST_ASKED = 2.0, 60.0, 300.0
"""Seconds after a 429 that names no time: doubled with each further one, up to the longest. And the longest that a
provider's `Retry-After` is followed: then a call asks again, since a quota may be raised and a header wrong."""


@dataclass
class Rate:
    """When the calls of a model may be made: evenly spread, in the order in which they are asked for."""

    requests: float = 0.0
    """A minute; 0 for no limit."""
    tokens: float = 0.0
    """A minute, read and written; 0 for no limit. What a call uses is known after it: until then it counts as the mean
    of those before it, and the next calls wait longer if it was more."""
    paused_until: float = field(default=0.0, init=False)
    _next_request: float = field(default=0.0, init=False)
    _next_token: float = field(default=0.0, init=False)
    _mean: float = field(default=0.0, init=False)
    """Tokens of a call."""
    _refusals: int = field(default=0, init=False)
    """In a row."""

    def claim(self, now: float) -> tuple[float, float]:
        """When the next call may be made, and the tokens that it counts as until they are known. Times in seconds."""
        start = max(now, self.paused_until)
        if self.requests:
            start = max(start, self._next_request)
            self._next_request = start + 60 / self.requests
        if self.tokens:
            start = max(start, self._next_token)
            self._next_token = start + self._mean * 60 / self.tokens
        return start, self._mean

    def settle(self, claimed: float, used: float | None) -> None:
        """Count the tokens that a call has used; None if it failed, and used none."""
        if self.tokens:
            self._next_token += ((used or 0.0) - claimed) * 60 / self.tokens
        if used is not None:
            self._refusals = 0
            self._mean = used if not self._mean else 0.9 * self._mean + 0.1 * used

    def refuse(self, now: float, retry_after: float | None) -> None:
        """Make no call for as long as the provider asks, at most `LONGEST_ASKED` seconds."""
        seconds = min(retry_after or min(PAUSE * 2**self._refusals, LONGEST), LONGEST_ASKED)
        self._refusals += 1
        self.paused_until = max(self.paused_until, now + seconds)

    async def wait(self) -> float:
        """Wait until a call may be made. The attempt's time begins then. Returns the tokens that it counts as."""
        clock = asyncio.get_running_loop().time
        while True:
            start, claimed = self.claim(clock())
            if (attempt := ATTEMPT.get()) and start > clock():
                timeout, seconds, end = attempt
                timeout.reschedule(min(max(timeout.when() or 0.0, start + seconds), end))
            await asyncio.sleep(max(0.0, start - clock()))
            if clock() >= self.paused_until:
                return claimed
            self.settle(claimed, None)  # refused meanwhile: the calls that wait are spread anew


class Rates:
    """The rate of each model of a server, by its name."""

    def __init__(self, requests: float = 0.0, tokens: float = 0.0) -> None:
        self.requests, self.tokens = requests, tokens
        self._by_model: dict[str, Rate] = {}

    def rate_of(self, model: str) -> Rate:
        return self._by_model.setdefault(model, Rate(self.requests, self.tokens))

    def pause(self, now: float) -> float:
        """The seconds until every model may be called."""
        return max((rate.paused_until - now for rate in self._by_model.values()), default=0.0)


def status_of(error: BaseException) -> int:
    """The HTTP status of a provider's error; 0 if it has none."""
    places = (error, getattr(error, "response", None))
    statuses = (getattr(place, name, None) for place in places for name in ("status_code", "status", "code"))
    return next((status for status in statuses if isinstance(status, int)), 0)


def _note(status: int) -> None:
    statuses = STATUSES.get()
    if statuses is not None:
        statuses.append(status)


def limit(model: Model, rate: Rate) -> Model:
    """Make a model's calls wait for their rate. The model must not be shared with code that knows no rate."""
    call = model.api.generate

    @wraps(call)
    async def generate(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        claimed = await rate.wait()
        used = None
        client = getattr(model.api, "client", None)
        if client is not None and hasattr(
            client, "max_retries"
        ):  # a provider's own client repeats a call too, and knows no rate
            client.max_retries = 0
        try:
            result = await call(*args, **kwargs)
            output = result[0] if isinstance(result, tuple) else result
            if isinstance(output, ModelOutput):
                used = float(output.usage.total_tokens if output.usage else 0)
                if output.stop_reason in WITHHELD:
                    _note(ITEM[0])
            elif isinstance(output, Exception):  # some providers return what Inspect then raises
                _note(status_of(output))
        except Exception as error:
            _note(status_of(error))
            decision = model.api.should_retry(error)
            if getattr(decision, "kind", "") == "rate_limit":
                rate.refuse(asyncio.get_running_loop().time(), getattr(decision, "retry_after", None))
            raise
        finally:
            rate.settle(claimed, used)
        return result

    model.api.generate = generate  # type: ignore[method-assign]
    return model
