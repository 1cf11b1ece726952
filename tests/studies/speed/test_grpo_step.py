"""The times of a step's parts: each without the parts inside it."""

from types import SimpleNamespace
from typing import Any

from studies.speed.grpo_step import STEP, Clock, table


def test_a_part_has_no_time_of_the_parts_inside_it() -> None:
    clock: Any = Clock()
    at = [0.0]
    clock.now, clock.since = (lambda: at[0]), 0.0

    def spend(seconds: float) -> float:
        at[0] += seconds
        return at[0]

    owner = SimpleNamespace(inner=lambda: spend(3))
    clock.time(owner, "inner", "generate")
    owner.outer = lambda: (spend(1), owner.inner(), spend(2))
    clock.time(owner, "outer", "eval")
    spend(4)
    owner.outer()
    clock.switch()
    assert dict(clock.seconds) == {STEP: 4, "eval": 3, "generate": 3}
    shown = table({part: seconds / 10 for part, seconds in clock.seconds.items()})
    assert "| generation | the model | 30.0 % |" in shown
