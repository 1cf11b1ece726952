"""Batches: what samples at work ask for is generated together, and no one waits for ever."""

from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest
from anyio.abc import TaskGroup

from truthgym.training.rollouts import batches
from truthgym.training.rollouts.batches import Batches
from truthgym.training.rollouts.sampling import Generated, Request


class Engine:
    """Generates the length of each prompt, and keeps which samples it served together."""

    def __init__(self) -> None:
        self.served: list[list[str]] = []

    def __call__(self, requests: Sequence[Request]) -> list[Generated]:
        self.served.append([str(one.key[1]) for one in requests])
        if any(not one.prompt_ids for one in requests):
            raise ValueError("an empty prompt")
        return [Generated([len(one.prompt_ids)], [-1.0]) for one in requests]


def request(sample: str, count: int = 0, length: int = 1) -> Request:
    return Request(("task", sample, 1, count), [5] * length, 4)


def served(samples: int, work: Callable[[Batches, TaskGroup], Awaitable[None]]) -> list[list[str]]:
    """Let samples at work ask, and tell which of them were served together."""
    engine = Engine()

    async def run() -> None:
        async with anyio.create_task_group() as group:
            await work(Batches(engine, samples), group)

    anyio.run(run)
    return engine.served


def test_samples_that_all_wait_are_served_together_in_order_of_their_keys() -> None:
    async def sample(held: Batches, name: str, calls: int, wait: float) -> None:
        await anyio.sleep(wait)
        for count in range(calls):
            made = await held(request(name, count, 1 + count))
            assert made.ids == [1 + count]
        await held.ended()

    async def work(held: Batches, group: TaskGroup) -> None:
        for name, calls, wait in (("c", 1, 0.0), ("b", 3, 0.02), ("a", 2, 0.01)):
            group.start_soon(sample, held, name, calls, wait)

    assert served(3, work) == [["a", "b", "c"], ["a", "b"], ["b"]]


def test_a_sample_that_asks_for_several_replies_at_once_is_one_sample() -> None:
    async def work(held: Batches, group: TaskGroup) -> None:
        group.start_soon(held, request("a", 0))
        group.start_soon(held, request("a", 1))
        await anyio.sleep(0.05)
        assert held.served == 0
        group.start_soon(held, request("b", 0))

    assert served(2, work) == [["a", "a", "b"]]


def test_what_waits_long_enough_is_served_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "QUIET", 0.05)

    async def work(held: Batches, group: TaskGroup) -> None:
        group.start_soon(held, request("a"))
        group.start_soon(held, request("b"))

    assert served(3, work) == [["a", "b"]]


def test_a_request_whose_sample_gave_up_holds_up_no_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "QUIET", 0.2)

    async def work(held: Batches, group: TaskGroup) -> None:
        with anyio.move_on_after(0.01) as gone:
            await held(request("a"))
        assert gone.cancelled_caught
        group.start_soon(held, request("b"))
        await anyio.sleep(0.01)
        assert held.served == 0

    assert served(3, work) == [["b"]]


def test_an_error_of_the_engine_is_told_to_each_that_waits_and_others_are_served() -> None:
    errors: list[str] = []

    async def sample(held: Batches, name: str, length: int) -> None:
        try:
            await held(request(name, length=length))
        except ValueError as error:
            errors.append(f"{name}: {error}")
        assert (await held(request(name, 1))).ids == [1]

    async def work(held: Batches, group: TaskGroup) -> None:
        group.start_soon(sample, held, "a", 0)
        group.start_soon(sample, held, "b", 1)

    assert served(2, work) == [["a", "b"], ["a", "b"]]
    assert sorted(errors) == ["a: an empty prompt", "b: an empty prompt"]
