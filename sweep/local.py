"""Runs units as processes of this machine."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from truthgym.sweep.units.unit import STOPPED, Outcome, Unit, run_unit


def run(units: Sequence[Unit], workers: int) -> Iterator[Outcome]:
    """Run units, so many at a time, and yield each as it ends. A unit's process ends with this one."""
    pool = ThreadPoolExecutor(workers)
    try:
        yield from (one.result() for one in as_completed([pool.submit(run_unit, unit) for unit in units]))
    finally:
        STOPPED.set()
        pool.shutdown(cancel_futures=True)
        STOPPED.clear()
