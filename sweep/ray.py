"""Runs units as tasks of a Ray cluster."""

import socket
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.sweep.units.unit import ATTEMPTS, Outcome, Unit, private, run_unit


def run(units: Sequence[Unit], workers: int, address: str = "", gpus: float = 0.0) -> Iterator[Outcome]:
    """Run so many units at a time, and yield each as it ends; one whose worker is lost goes to another."""
    try:
        ray: Any = import_module("ray")  # its types differ from version to version
    except ImportError:
        raise BadInput("--on ray needs Ray: pip install 'truthgym[ray]'") from None
    connect(ray, address)
    check_machines(ray, Path(units[0].state).parent, gpus)
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=ATTEMPTS - 1)(run_unit)
    waiting, running = list(reversed(units)), dict[Any, Unit]()
    while waiting or running:
        while waiting and len(running) < workers:
            unit = waiting.pop()
            running[remote.remote(unit)] = unit
        (ended,), _ = ray.wait(list(running), num_returns=1)
        unit = running.pop(ended)
        try:
            yield ray.get(ended)
        except ray.exceptions.RayError as error:
            yield Outcome(unit, "", f"its worker was lost: {first_line(error)}")


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def connect(ray: Any, address: str) -> None:  # noqa: ANN401  # a module
    """Join the cluster at an address, or start one here."""
    if ray.is_initialized():
        return
    try:
        host, _, port = address.rpartition(":")
        if port.isdigit():  # Ray itself would wait for minutes
            socket.create_connection((host.split("/")[-1], int(port)), timeout=10).close()
        if address:
            ray.init(address=address, log_to_driver=False)
        else:
            ray.init(log_to_driver=False, include_dashboard=False)
    except (OSError, RuntimeError, ValueError) as error:
        raise BadInput(
            f"There is no Ray cluster at {address or 'this machine'} ({first_line(error)}); start one with "
            "`ray start --head`, and give its address as --address HOST:6379"
        ) from None


def check_machines(ray: Any, folder: Path, gpus: float) -> None:  # noqa: ANN401  # a module
    """Refuse a cluster without a machine of so many GPUs, for which Ray would wait, or with one that sees no folder."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"]]
    present = [node["Resources"].get("GPU", 0) for node in nodes]
    if gpus > max(present):
        raise BadInput(
            f"--gpus-per-worker {gpus:g}: no machine of the cluster has so many; they have "
            f"{', '.join(map(str, present))}"
        )
    private(folder)
    marker = folder / "seen"
    marker.touch()
    looks = ray.remote(num_cpus=0)(lambda: marker.exists())
    seen = ray.get([
        looks.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        for node in nodes
    ])  # fmt: skip
    marker.unlink()
    if blind := [node["NodeManagerAddress"] for node, sees in zip(nodes, seen, strict=True) if not sees]:
        raise BadInput(
            f"{', '.join(blind)} cannot see {folder}; put the log folder on a network file system that all mount"
        )
