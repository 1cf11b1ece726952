"""What is made once is made once, and a failure is nobody else's."""

import anyio

from truthgym.scorers.judges.asking import AsyncOnce


def test_those_who_ask_at_the_same_time_share_one_making() -> None:
    calls, once = [], AsyncOnce[int]()

    async def make() -> int:
        calls.append(1)
        await anyio.sleep(0.01)
        return len(calls)

    async def main() -> list[int]:
        found: list[int] = []

        async def ask() -> None:
            found.append(await once.get("k", make))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(ask)
        return found

    assert anyio.run(main) == [1] * 5
    assert anyio.run(main) == [1] * 5, "another event loop finds it too"
    assert calls == [1]


def test_a_failure_reaches_only_whom_it_was_made_for() -> None:
    tries, once = [], AsyncOnce[str]()

    async def make() -> str:
        tries.append(1)
        await anyio.sleep(0.01)
        if len(tries) == 1:
            raise RuntimeError("cut off")
        return "made"

    async def main() -> list[str]:
        found: list[str] = []

        async def ask() -> None:
            try:
                found.append(await once.get("k", make))
            except RuntimeError as error:
                found.append(str(error))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(ask)
        return found

    assert sorted(anyio.run(main)) == ["cut off", "made", "made", "made"]
    assert len(tries) == 2


def test_one_who_is_stopped_leaves_the_making_to_the_next() -> None:
    tries, once = [], AsyncOnce[str]()

    async def make() -> str:
        tries.append(1)
        await anyio.sleep(10 if len(tries) == 1 else 0)
        return "made"

    async def main() -> str:
        async def stopped() -> None:
            with anyio.move_on_after(0.01):
                await once.get("k", make)

        async with anyio.create_task_group() as group:
            group.start_soon(stopped)
            await anyio.sleep(0)
            return await once.get("k", make)
        raise AssertionError

    assert anyio.run(main) == "made"
    assert len(tries) == 2
