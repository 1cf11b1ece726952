"""Runs units as tasks of a Ray cluster, and serves models to them from its GPUs."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from truthgym.datasets.errors import BadInput
from truthgym.sweep.units.child import end_with_thread
from truthgym.sweep.units.unit import ATTEMPTS, Outcome, Unit, private, run_unit

SERVED = "vllm/"
"""Provider whose models are served from GPUs if there are any: one server for many units."""
SERVE = (sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "{model}", "--port", "{port}")
"""Command that serves a model."""
READY = 1800
"""Seconds that a server may take to load its model."""
CONNECT = 10
"""Seconds to wait for a cluster."""


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
        BadInput: Ray is not installed, the cluster cannot be reached or has too few GPUs, a machine does not see the
            log folder, a unit needs two models of `vllm/`, or a model's server does not start.
    """
    try:
        ray: Any = import_module("ray")  # its types differ from version to version
    except ImportError:
        raise BadInput("--on ray needs Ray: pip install 'truthgym[ray]'") from None
    served = {unit.state: served_model(unit) if gpus else "" for unit in units}
    connect(ray, address)
    places = places_for(ray, gpus) if gpus else 0
    see_folder(ray, str(Path(units[0].state).parent))
    yield from place(ray, [unit for unit in units if not served[unit.state]], workers, gpus)
    for model in sorted(set(served.values()) - {""}):
        asking = [unit for unit in units if served[unit.state] == model]
        remote = ray.remote(num_gpus=gpus, num_cpus=0, max_restarts=-1, max_task_retries=ATTEMPTS)(Server)
        name = model.removeprefix(SERVED)
        servers = [remote.remote(name, list(serve)) for _ in range(min(places, len(asking)))]
        for server in servers:
            server.address.remote()  # so that all load their model at the same time
        turns = cycle(servers)
        try:
            yield from place(ray, asking, workers, 0.0, partial(serve_to, ray, turns))
        finally:
            for server in servers:
                ray.kill(server)


def places_for(ray: Any, gpus: float) -> int:  # noqa: ANN401  # a module
    """How many units or servers of so many GPUs the machines of a cluster have room for. Ray would wait for ever."""
    there = [node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"]]
    places = int(sum(one // gpus for one in there))
    if not places:
        raise BadInput(
            f"--gpus-per-worker {gpus:g}: no machine of the cluster has so many; they have {', '.join(map(str, there))}"
        )
    return places


def served_model(unit: Unit) -> str:
    """The model that a unit needs served, for itself or for a role."""
    models = sorted({one for one in (unit.model, *unit.roles) if one.startswith(SERVED)})
    if len(models) > 1:
        raise BadInput(
            f"{unit.name} needs {' and '.join(models)}, but Inspect asks one server for all models of vllm/; serve one "
            "of them yourself and name it openai-api/..., or leave out --gpus-per-worker"
        )
    return models[0] if models else ""


def serve_to(ray: Any, servers: Iterator[Any], unit: Unit) -> Unit:  # noqa: ANN401  # a module and its actors
    """The unit with the address of the next server, which is started anew if it died."""
    try:
        address = ray.get(next(servers).address.remote())
    except ray.exceptions.RayTaskError as error:
        raise BadInput(str(error.cause)) from None
    return replace(unit, environment={"VLLM_BASE_URL": address, "VLLM_API_KEY": "none"})


def place(ray: Any, units: Sequence[Unit], workers: int, gpus: float,  # noqa: ANN401  # a module
          prepare: Callable[[Unit], Unit] = lambda unit: unit) -> Iterator[Outcome]:  # fmt: skip
    """Run units, each prepared just before, and give one that failed or whose worker died to another worker."""
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(run_unit)
    waiting, attempts = list(reversed(units)), dict.fromkeys((unit.state for unit in units), 0)
    running: dict[Any, Unit] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            unit = waiting.pop()
            running[remote.remote(prepare(unit), 1)] = unit
        done, _ = ray.wait(list(running), num_returns=1)
        unit = running.pop(done[0])
        attempts[unit.state] += 1
        try:
            outcome = ray.get(done[0])
        except ray.exceptions.RayError as error:
            outcome = Outcome(unit, "", f"its worker was lost: {first_line(error)}")
        if outcome.error and attempts[unit.state] < ATTEMPTS:
            waiting.append(replace(unit, search=True))
        else:
            yield outcome


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


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
            f"There is no Ray cluster at {address or 'this machine'} ({first_line(error)}); start one with "
            "`ray start --head`, and give its address as --address HOST:6379"
        ) from None


def see_folder(ray: Any, folder: str) -> None:  # noqa: ANN401  # a module
    """Refuse a cluster with a machine that does not see the folder of the sweep."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    private(Path(folder))
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
        self.model, self.command = model, command
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with socket.socket() as free:
            free.bind(("", 0))
            self.port = free.getsockname()[1]
        parts = [part.format(model=self.model, port=self.port) for part in self.command]
        # Ray kills the object's process; the kernel then kills the server.
        self.process = subprocess.Popen(parts, preexec_fn=end_with_thread)
        deadline = time.monotonic() + READY
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise BadInput(f"{' '.join(parts)} does not serve {self.model}; try it by hand on this machine")
            time.sleep(0.5)

    def answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/v1/models", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def address(self) -> str:
        """Where the server answers. It is started if it does not run."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        ray: Any = import_module("ray")
        return f"http://{ray.util.get_node_ip_address()}:{self.port}/v1"
