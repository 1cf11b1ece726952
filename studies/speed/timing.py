"""CPU time, function calls and memory, of this process or of one of its own, and ratios of what runs in turn."""

import argparse
import cProfile
import json
import pstats
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil


class Usage(NamedTuple):
    """What a process used."""

    cpu: float
    """Seconds."""
    memory: float
    """MB at most."""
    rows: int


def arguments(description: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def cpu_seconds(step: Callable[[], object]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def function_calls(step: Callable[[], object]) -> int:
    """Of Python functions: steadier than CPU time."""
    profile = cProfile.Profile()
    profile.runcall(step)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def in_turn(steps: Mapping[str, Callable[[], object]], runs: int) -> dict[str, list[float]]:
    """CPU seconds of each step, run in turn so often."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(runs):
        for name, step in steps.items():
            seconds[name].append(cpu_seconds(step))
    return seconds


def ratio(over: Sequence[float], under: Sequence[float]) -> str:
    """Of the medians, with the least and the most of single pairs in brackets."""
    pairs = [a / b for a, b in zip(over, under, strict=True)]
    median = statistics.median(over) / statistics.median(under)
    return f"{median:.2f} ({min(pairs):.2f} to {max(pairs):.2f})"


def most_memory() -> float:
    """MB that this process held at most. Linux alone tells it so."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def resident_memory(process: int) -> float:
    """MB that a process holds."""
    return float(psutil.Process(process).memory_info().rss) / 2**20


def in_own_process(module: str, *words: object) -> Usage:
    """What `python -m MODULE --measure WORDS` prints at its end with `print_usage`."""
    command = [sys.executable, "-m", module, "--measure", *map(str, words)]
    return Usage(*json.loads(subprocess.check_output(command, text=True).splitlines()[-1]))


def print_usage(cpu: float, rows: int) -> None:
    print(json.dumps(Usage(cpu, most_memory(), rows)))
