"""Runs units as tasks of a Ray cluster, and serves models to them from its GPUs."""

import ctypes
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import cycle
from pathlib import Path
from signal import SIGKILL
from typing import Any
from urllib.request import urlopen

from truthgym.datasets.errors import BadInput
from truthgym.sweep.units.unit import ATTEMPTS, Outcome, Unit, run_unit

SERVED = "vllm/"
"""Provider whose models are served from GPUs if there are any: one server for many units."""
SERVE = (sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "{model}", "--port", "{port}")
"""Command that serves a model."""
READY = 1800
"""Seconds that a server may take to load its model."""
CONNECT = 10
"""Seconds to wait for a cluster."""
PR_SET_PDEATHSIG = 1
"""Number of the option in Linux's prctl.h."""


def run(units: Sequence[Unit], workers: int, address: str = "", gpus: float = 0.0,
        serve: Sequence[str] = SERVE) -> Iterator[Outcome]:  # fmt: skip
    """Run units on a cluster, so many at a time, and yield each as it ends.

    A unit whose worker or machine is lost goes to another one, from its finished samples, at most three times.

    Args:
        units: What to run. Their log folder and their own files are where all machines see them.
        workers: Units that run at the same time.
        address: Address of a running cluster; by default one is started here.
        gpus: GPUs of each unit. Models of `vllm/` are served instead, on so many GPUs, to all their units.
        serve: Command that serves a model, with {model} and {port}.

    Raises:
        BadInput: Ray is not installed, the cluster cannot be reached, or a machine does not see the log folder.
    """
    try:
        ray: Any = import_module("ray")  # its types differ from version to version
    except ImportError:
        raise BadInput("--on ray needs Ray: pip install 'truthgym[ray]'") from None
    connect(ray, address)
    see_folder(ray, str(Path(units[0].state).parent))
    served = sorted({unit.model for unit in units if gpus and unit.model.startswith(SERVED)})
    yield from place(ray, [unit for unit in units if unit.model not in served], workers, gpus)
    for model in served:
        asking = [unit for unit in units if unit.model == model]
        count = max(1, min(int(ray.cluster_resources().get("GPU", 0) // gpus), len(asking)))
        remote = ray.remote(num_gpus=gpus, num_cpus=0)(Server)
        servers = [remote.remote(model.removeprefix(SERVED), list(serve)) for _ in range(count)]
        try:
            urls = cycle(ray.get([server.address.remote() for server in servers]))
            asking = [
                replace(unit, environment={"VLLM_BASE_URL": next(urls), "VLLM_API_KEY": "none"}) for unit in asking
            ]
            yield from place(ray, asking, workers, 0.0)
        finally:
            for server in servers:
                ray.kill(server)


def place(ray: Any, units: Sequence[Unit], workers: int, gpus: float) -> Iterator[Outcome]:  # noqa: ANN401  # a module
    """Run units, and give one whose worker died to another."""
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(run_unit)
    waiting, lost = list(reversed(units)), dict.fromkeys((unit.state for unit in units), 0)
    running: dict[Any, Unit] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            unit = waiting.pop()
            running[remote.remote(unit)] = unit
        done, _ = ray.wait(list(running), num_returns=1)
        unit = running.pop(done[0])
        try:
            yield ray.get(done[0])
        except ray.exceptions.RayError as error:
            lost[unit.state] += 1
            if lost[unit.state] == ATTEMPTS:
                yield Outcome(unit, "", f"its worker was lost {ATTEMPTS} times: {str(error).splitlines()[0]}")
            else:
                waiting.append(replace(unit, search=True))


def connect(ray: Any, address: str) -> None:  # noqa: ANN401  # a module
    """Join the cluster at an address, or start one here."""
    if ray.is_initialized():
        return
    try:
        host, _, port = address.rpartition(":")
        if port.isdigit():  # Ray itself would wait for minutes
            socket.create_connection((host.split("/")[-1], int(port)), timeout=CONNECT).close()
        if address:
            ray.init(address=address, log_to_driver=False)
        else:
            ray.init(log_to_driver=False, include_dashboard=False)
    except (OSError, RuntimeError, ValueError) as error:
        raise BadInput(
            f"There is no Ray cluster at {address or 'this machine'} ({str(error).splitlines()[0]}); start one with "
            "`ray start --head`, and give its address as --address HOST:6379"
        ) from None


def see_folder(ray: Any, folder: str) -> None:  # noqa: ANN401  # a module
    """Refuse a cluster with a machine that does not see the folder of the sweep."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    Path(folder).mkdir(parents=True, exist_ok=True)
    marker = Path(folder, "seen")
    marker.touch()
    looks = ray.remote(num_cpus=0)(lambda: marker.exists())
    nodes = [node for node in ray.nodes() if node["Alive"]]
    seen = ray.get([
        looks.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        for node in nodes
    ])  # fmt: skip
    blind = [node["NodeManagerAddress"] for node, sees in zip(nodes, seen, strict=True) if not sees]
    marker.unlink()
    if blind:
        raise BadInput(
            f"{', '.join(blind)} cannot see {folder}; put the log folder on a network file system that all mount"
        )


class Server:
    """A model's server, which ends with this object."""

    def __init__(self, model: str, command: Sequence[str]) -> None:
        with socket.socket() as free:
            free.bind(("", 0))
            self.port = free.getsockname()[1]
        parts = [part.format(model=model, port=self.port) for part in command]
        # Ray kills the object's process; the kernel then kills the server.
        self.process = subprocess.Popen(parts, preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL))
        deadline = time.monotonic() + READY
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise BadInput(f"{' '.join(parts)} does not serve {model}; try the command by hand on this machine")
            time.sleep(0.5)

    def answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/v1/models", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def address(self) -> str:
        ray: Any = import_module("ray")
        return f"http://{ray.util.get_node_ip_address()}:{self.port}/v1"
