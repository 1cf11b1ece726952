"""What `truthgym sweep` costs, and whether it loses samples when processes are killed.

    python -m studies.speed.sweep cost      # CPU of a unit, a sample and merging, and from them of a million samples
    python -m studies.speed.sweep kills     # kills processes of units and the sweep at random, and counts the samples

All on a mock model whose replies sleep. `kills` exits with 1 if a sample is lost or doubled.
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
        questions = [(number, None) for number in range(samples)]
        merged = cpu_seconds(lambda: merge_shards([log], str(folder / "merged.eval"), questions, {}))
        read = cpu_seconds(lambda: list(read_eval_log_samples(log, all_samples_required=True)))
        size = Path(log).stat().st_size / 1e6
    print(f"a log of {size:.1f} MB, {samples} samples: CPU of merging / reading with Inspect = {merged / read:.2f}")
    parts = {"processes": 50 * used[2] / 2, "units": 1000 * unit, "samples": 1e6 * sample,
             "merging": 1e6 * merged / samples}  # fmt: skip
    print("a million samples as 100 tasks in 1,000 shards on 50 workers, in CPU hours: "
          + ", ".join(f"{name} {seconds / 3600:.2f}" for name, seconds in parts.items())
          + f"; all but the samples / samples = {sum(parts.values()) / parts['samples'] - 1:.2f}")  # fmt: skip


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
    parser.add_argument("measure", choices=["cost", "kills"])
    cost() if parser.parse_args().measure == "cost" else kills()
