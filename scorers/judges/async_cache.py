"""What is made once and shared by all samples of a run, however many of them ask for it at the same time."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import current_token

T = TypeVar("T")


class Once(Generic[T]):
    """Remembers what was made. Whoever asks while it is being made waits for it.

    Where the making fails, or the sample that it was made for is stopped, nothing is remembered, and the next who asks
    makes it anew: one sample's failure is not another's.
    """

    def __init__(self) -> None:
        self.made: dict[Hashable, T] = {}
        self._locks: dict[tuple[object, Hashable], anyio.Lock] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """What was made under a key, or what `make` makes now."""
        # A lock belongs to one event loop; a scorer may serve several, one run after another.
        async with self._locks.setdefault((current_token(), key), anyio.Lock()):
            if key not in self.made:
                self.made[key] = await make()
        return self.made[key]
