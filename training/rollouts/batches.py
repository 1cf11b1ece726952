"""Batches: requests of many samples at work wait for each other, so that a local model serves them together."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from truthgym.training.rollouts.sampling import Engine, Generated, Request

QUIET = 1.0
"""Seconds without a new request after which those that wait are served, though samples at work may bring more."""


@dataclass(eq=False)
class Waiting:
    """A request, and what becomes of it."""

    request: Request
    done: anyio.Event = field(default_factory=anyio.Event)
    generated: Generated | None = None
    error: Exception | None = None
    taken: bool = False
    """Whether it is being served."""


class Batches:
    """Serves requests when all samples at work wait, so that what is served together never depends on timing."""

    def __init__(self, engine: Engine, samples: int) -> None:
        """Begin.

        Args:
            engine: What generates.
            samples: How many samples are at work or will be.
        """
        self.engine = engine
        self.samples = samples
        self.served = 0
        self._waiting: list[Waiting] = []
        self._serving = anyio.Lock()

    async def __call__(self, request: Request) -> Generated:
        """Generate for one request. What the engine raises is raised for each request of the batch."""
        waiting = Waiting(request)
        self._waiting.append(waiting)
        try:
            await self._serve_if_all_wait()
            await self._served(waiting)
        finally:
            if waiting in self._waiting:  # its sample's time is up
                self._waiting.remove(waiting)
        if waiting.error is not None:
            raise waiting.error
        assert waiting.generated is not None
        return waiting.generated

    async def ended(self) -> None:
        """Tell that a sample has ended: those that wait may now be all there are."""
        self.samples -= 1
        await self._serve_if_all_wait()

    async def _served(self, waiting: Waiting) -> None:
        """Wait until a request is served, and serve those that wait where no more come."""
        while not waiting.done.is_set():
            count = self.served, len(self._waiting)
            with anyio.move_on_after(None if waiting.taken else QUIET):  # thousands would else wake each second
                await waiting.done.wait()
            still = not waiting.done.is_set() and count == (self.served, len(self._waiting))
            if still and self._waiting and self._waiting[0] is waiting and not self._serving.locked():
                await self._serve()  # the others are at something slow, such as a tool

    async def _serve_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self.samples:
            return
        samples = {waiting.request.key[:-1] for waiting in self._waiting}  # one may ask for several replies at once
        if len(samples) >= self.samples:
            await self._serve()

    async def _serve(self) -> None:
        """Serve those that wait, in the order of their keys."""
        with anyio.CancelScope(shield=True):  # a sample whose time is up must not take the others' replies along
            async with self._serving:
                batch, self._waiting = sorted(self._waiting, key=lambda waiting: waiting.request.key), []
                if batch:
                    await self._generate(batch)

    async def _generate(self, batch: Sequence[Waiting]) -> None:
        self.served += 1
        for waiting in batch:
            waiting.taken = True
        try:
            made = await anyio.to_thread.run_sync(self.engine, [waiting.request for waiting in batch])
            for waiting, generated in zip(batch, made, strict=True):
                waiting.generated = generated
        except Exception as error:  # whatever it is, each sample must hear of it
            for waiting in batch:
                waiting.error = error
        for waiting in batch:
            waiting.done.set()
