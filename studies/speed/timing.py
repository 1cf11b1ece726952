"""CPU time, function calls and memory of this process, and ratios of what runs in turn."""

import cProfile
import pstats
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def cpu_seconds(step: Callable[[], object]) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


def function_calls(step: Callable[[], object]) -> int:
    """Of Python functions: steadier than CPU time."""
    profile = cProfile.Profile()
    profile.runcall(step)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def in_turn(ways: Mapping[str, Callable[[], object]], runs: int) -> dict[str, list[float]]:
    """CPU seconds of each way, run in turn so often."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, way in ways.items():
            spent[name].append(cpu_seconds(way))
    return spent


def ratio(over: Sequence[float], under: Sequence[float]) -> str:
    """Of the medians, with the least and the most of single pairs."""
    pairs = [a / b for a, b in zip(over, under, strict=True)]
    median = statistics.median(over) / statistics.median(under)
    return f"{median:.2f} (single pairs {min(pairs):.2f} to {max(pairs):.2f})"


def most_memory() -> float:
    """MB that the process held at most. Linux alone tells it so."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
