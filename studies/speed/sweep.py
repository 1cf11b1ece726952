"""What `truthgym sweep` costs, and whether it loses samples when processes are killed.

    python -m studies.speed.sweep cost      # CPU of a unit, a sample and merging, and from them of a million samples
    python -m studies.speed.sweep kills     # kills processes of units and the sweep at random, and counts the samples
    python -m studies.speed.sweep tokens    # tokens a second from a server on this machine, beside Inspect alone

The first two are on a mock model whose replies sleep. `kills` exits with 1 if a sample is lost or doubled.
"""

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_samples

from studies.speed.timing import arguments, cpu_seconds
from truthgym.sweep.units.child import merge_shards

SCRIPT = """
import asyncio, sys
from inspect_ai import Task, eval_set, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.solver import solver

tasks, samples, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

@solver
def waits(seconds):
    async def solve(state, generate):
        await asyncio.sleep(seconds)
        state.metadata["text"] = str(state.sample_id) * 2000
        return state
    return solve

@scorer(metrics=[mean()])
def place():
    async def score(state, target):
        return Score(value=state.sample_id)
    return score

@task
def waiting(number):
    dataset = MemoryDataset([Sample(input=str(n), id=n) for n in range(samples)])
    return Task(dataset, solver=waits(seconds), scorer=place())

eval_set([waiting(number) for number in range(tasks)], "logs", model="mockllm/model", display="none", max_samples=4)
"""

SERVER = """
import asyncio, json, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

usage = {"prompt_tokens": 100, "completion_tokens": 2000, "total_tokens": 2100}
message = {"role": "assistant", "content": "truth " * 2000}
reply = json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "m", "usage": usage,
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

async def answer(request):
    await request.body()
    await asyncio.sleep(0.2)
    return Response(reply, media_type="application/json")

app = Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""
"""A reply of 2,000 tokens after 0.2 s, to each request."""
ASKING = """
import sys
from inspect_ai import Task, eval_set, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate

tasks, samples = int(sys.argv[1]), int(sys.argv[2])

@task
def asking(number):
    dataset = MemoryDataset([Sample(input=str(n), target="truth", id=n) for n in range(samples)])
    return Task(dataset, solver=generate(), scorer=includes())

eval_set([asking(number) for number in range(tasks)], "logs", model="openai-api/local/m", display="none",
         model_base_url="http://127.0.0.1:" + sys.argv[3] + "/v1", max_connections=400, max_samples=400,
         max_tasks=tasks)
"""
PORT = 18123

INTERRUPTED = (4, 60, 2, "--workers", 2, "--shards", 3)
"""Tasks, samples of each and seconds of each sample, and options of the sweep in which processes are killed."""


def sweep(folder: Path, *arguments: object) -> subprocess.Popen[bytes]:
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "truthgym.cli.main", "sweep", "script.py", *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE)


def cpu_of(folder: Path, *arguments: object) -> float:
    """CPU seconds of a sweep with all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if sweep(folder, *arguments).wait():
        raise SystemExit("the sweep failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cost(samples: int = 1000) -> None:
    used = {}
    for tasks in (2, 12):
        with tempfile.TemporaryDirectory() as name:
            used[tasks] = cpu_of(Path(name), tasks, 4, 0, "--workers", 1)
    unit = (used[12] - used[2]) / 10
    print(f"CPU s: {used[2]:.1f} for a sweep of 2 units with one worker, {unit:.2f} for each further unit of 4 samples")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sample = (cpu_of(folder, 1, samples, 0, "--workers", 1) - used[2] + unit) / samples
        log = list_eval_logs(str(folder / "logs"))[0].name.removeprefix("file://")
        questions = list(range(samples))
        merged = cpu_seconds(lambda: merge_shards([log], str(folder / "merged.eval"), questions, {}))
        read = cpu_seconds(lambda: list(read_eval_log_samples(log, all_samples_required=True)))
        size = Path(log).stat().st_size / 1e6
    print(f"a log of {size:.1f} MB, {samples} samples: CPU of merging / reading with Inspect = {merged / read:.2f}")
    parts = {"processes": 50 * used[2] / 2, "units": 1000 * unit, "samples": 1e6 * sample,
             "merging": 1e6 * merged / samples}  # fmt: skip
    print("a million samples as 100 tasks in 1,000 shards on 50 workers, in CPU hours: "
          + ", ".join(f"{name} {seconds / 3600:.2f}" for name, seconds in parts.items())
          + f"; all but the samples / samples = {sum(parts.values()) / parts['samples'] - 1:.2f}")  # fmt: skip


def tokens(tasks: int = 4, samples: int = 1000) -> None:
    """Tokens a second of Inspect alone and of sweeps with two and four workers, one after the other."""
    environment = {**os.environ, "LOCAL_API_KEY": "none"}
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(PORT)])
    rates: dict[int, float] = {}
    try:
        time.sleep(5)
        for workers in (0, 2, 4):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "script.py").write_text(ASKING, encoding="utf-8")
                script = ["script.py", str(tasks), str(samples), str(PORT)]
                command = (
                    ["-m", "truthgym.cli.main", "sweep", *script, "--workers", str(workers)] if workers else script
                )
                start = time.monotonic()
                subprocess.run([sys.executable, *command], cwd=folder, env=environment, check=True)
                rates[workers] = 2000 * tasks * samples / (time.monotonic() - start)
            name = f"{workers} workers" if workers else "Inspect alone"
            print(f"{name}: {rates[workers]:,.0f} tokens a second, / Inspect alone = {rates[workers] / rates[0]:.2f}")
    finally:
        server.kill()


def kills(count: int = 20, seed: int = 0) -> None:
    """Kill a random process of sweeps until so many were killed, start each again until it is complete, and count.

    `sweep` is the command, `script` the process that lists and merges, `unit` one that runs samples. Two in three are
    killed once a unit has begun a log, the others wherever they are.
    """
    rng = random.Random(seed)
    killed, lost, doubled, sweeps = dict.fromkeys(("sweep", "script", "unit"), 0), 0, 0, 0
    while sum(killed.values()) < count:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            running = sweep(folder, *INTERRUPTED)
            while running.poll() != 0:
                if running.poll() is not None:
                    running = sweep(folder, *INTERRUPTED)
                if sum(killed.values()) == count:
                    running.wait()
                    continue
                before = set(folder.glob("logs/**/*.eval"))
                for _ in range(rng.choice([0, 240, 240])):
                    if running.poll() is not None or set(folder.glob("logs/**/*.eval")) - before:
                        break
                    time.sleep(0.5)
                time.sleep(rng.uniform(1, 10))
                children = psutil.Process(running.pid).children() if running.poll() is None else []
                if children:
                    victim = rng.choice([None, *children, *children])
                    try:
                        words = " ".join(victim.cmdline()) if victim else ""
                    except psutil.Error:  # it has just ended
                        continue
                    os.kill(victim.pid if victim else running.pid, 9)
                    killed["unit" if "/.sweep/" in words else "script" if victim else "sweep"] += 1
                    print(f"killed {killed}", flush=True)
            sweeps += 1
            logs = [read_eval_log(info) for info in list_eval_logs(f"{folder}/logs")]
            complete = [log for log in logs if log.status == "success"]
            lost += 60 * (4 - len(complete))
            for log in complete:
                seen = [sample.id for sample in log.samples or []]
                lost += len(set(range(60)) - set(seen))
                doubled += len(seen) - len(set(seen))
    print(f"killed {killed} in {sweeps} sweeps of 4 tasks: {lost} samples lost, {doubled} doubled")
    if lost or doubled:
        raise SystemExit(1)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("measure", choices=["cost", "kills", "tokens"])
    measure = parser.parse_args().measure
    cost() if measure == "cost" else kills() if measure == "kills" else tokens()
