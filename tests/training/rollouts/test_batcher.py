"""Batching of concurrent samples' requests: alike whatever the timing, and at once for a server."""

from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest
from anyio.abc import TaskGroup

from truthgym.training.rollouts import sampling
from truthgym.training.rollouts.sampling import Batcher, Generated, Request


class LengthEngine:
    """Generates the length of each prompt, and keeps which samples it served together."""

    end_ids, context_length = (2,), None

    def __init__(self, concurrent: bool = False) -> None:
        self.served: list[list[str]] = []
        self.concurrent = concurrent

    def __call__(self, requests: Sequence[Request]) -> list[Generated]:
        self.served.append([str(one.key[1]) for one in requests])
        if any(not one.prompt_ids for one in requests):
            raise ValueError("an empty prompt")
        return [Generated([len(request.prompt_ids)], [-1.0]) for request in requests]


def of_sample(sample: str, count: int = 0, length: int = 1) -> Request:
    return Request(("task", sample, 1, count), [5] * length, 4)


def served(
    samples: int, work: Callable[[Batcher, TaskGroup], Awaitable[None]], concurrent: bool = False
) -> list[list[str]]:
    """Let samples at work ask, and tell which of them were served together."""
    engine = LengthEngine(concurrent)

    async def run() -> None:
        async with anyio.create_task_group() as group:
            await work(Batcher(engine, samples), group)

    anyio.run(run)
    return engine.served


def test_waiting_samples_are_served_together_in_key_order() -> None:
    async def sample(batcher: Batcher, name: str, calls: int, wait: float) -> None:
        await anyio.sleep(wait)
        for count in range(calls):
            reply = await batcher(of_sample(name, count, 1 + count))
            assert reply.ids == [1 + count]
        await batcher.sample_ended()

    async def work(batcher: Batcher, group: TaskGroup) -> None:
        for name, calls, wait in (("c", 1, 0.0), ("b", 3, 0.02), ("a", 2, 0.01)):
            group.start_soon(sample, batcher, name, calls, wait)

    assert served(3, work) == [["a", "b", "c"], ["a", "b"], ["b"]]


def test_a_server_gets_each_request_at_once() -> None:
    async def work(batcher: Batcher, group: TaskGroup) -> None:
        with anyio.fail_after(0.5):  # half of what a batch waits for the other samples
            for count in range(2):
                assert (await batcher(of_sample("a", count))).ids == [1]

    assert served(3, work, concurrent=True) == [["a"], ["a"]]


def test_concurrent_requests_of_a_sample_count_once() -> None:
    async def work(batcher: Batcher, group: TaskGroup) -> None:
        group.start_soon(batcher, of_sample("a", 0))
        group.start_soon(batcher, of_sample("a", 1))
        await anyio.sleep(0.05)
        assert batcher.batches == 0
        group.start_soon(batcher, of_sample("b", 0))

    assert served(2, work) == [["a", "a", "b"]]


def test_idle_requests_are_served_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "IDLE_SECONDS", 0.05)

    async def work(batcher: Batcher, group: TaskGroup) -> None:
        group.start_soon(batcher, of_sample("a"))
        group.start_soon(batcher, of_sample("b"))

    assert served(3, work) == [["a", "b"]]


def test_a_cancelled_request_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "IDLE_SECONDS", 0.2)

    async def work(batcher: Batcher, group: TaskGroup) -> None:
        with anyio.move_on_after(0.01) as gone:
            await batcher(of_sample("a"))
        assert gone.cancelled_caught
        group.start_soon(batcher, of_sample("b"))
        await anyio.sleep(0.01)
        assert batcher.batches == 0

    assert served(3, work) == [["b"]]


def test_an_engine_error_reaches_its_batch_only() -> None:
    errors: list[str] = []

    async def sample(batcher: Batcher, name: str, length: int) -> None:
        try:
            await batcher(of_sample(name, length=length))
        except ValueError as error:
            errors.append(f"{name}: {error}")
        assert (await batcher(of_sample(name, 1))).ids == [1]

    async def work(batcher: Batcher, group: TaskGroup) -> None:
        group.start_soon(sample, batcher, "a", 0)
        group.start_soon(sample, batcher, "b", 1)

    assert served(2, work) == [["a", "b"], ["a", "b"]]
    assert sorted(errors) == ["a: an empty prompt", "b: an empty prompt"]
