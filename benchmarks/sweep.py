"""What `truthgym sweep` costs, and whether it loses samples when processes are killed.

    python benchmarks/sweep.py cost      # CPU seconds for each further unit; bytes merged a second against a plain copy
    python benchmarks/sweep.py busy      # share of the time in which 8 workers wait for replies, as they should
    python benchmarks/sweep.py kills     # kills processes of units and the sweep at random, and counts the samples

All on a mock model whose replies sleep. `kills` exits with 1 if a sample is lost or doubled.
"""

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from inspect_ai.log import EvalSample, list_eval_logs, read_eval_log, read_eval_log_samples

from truthgym.sweep.units.merge import merge

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


def cost() -> None:
    used = {}
    for tasks in (2, 12):
        with tempfile.TemporaryDirectory() as name:
            used[tasks] = cpu_of(Path(name), tasks, 4, 0, "--workers", 1)
    print(f"CPU seconds: {used[2]:.1f} with 2 units, {(used[12] - used[2]) / 10:.2f} for each further one")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sweep(folder, 1, 400, 0, "--workers", 1).wait()
        log = list_eval_logs(str(folder / "logs"))[0].name.removeprefix("file://")
        start = time.process_time()
        shutil.copyfile(log, folder / "copy.eval")
        copied = time.process_time() - start
        questions = [(one, None) for one in range(400)]
        start = time.process_time()
        merge([log], str(folder / "merged.eval"), questions)
        merged = time.process_time() - start
        start = time.process_time()
        whole: list[EvalSample] = list(read_eval_log_samples(log, all_samples_required=True))
        read = time.process_time() - start
        size = Path(log).stat().st_size / 1e6
        print(
            f"{size:.1f} MB, {len(whole)} samples: merging took {merged:.2f} CPU s, reading its samples {read:.2f}, a "
            f"plain copy {copied:.3f}"
        )


def busy(workers: int = 8, units: int = 32, samples: int = 40, seconds: float = 12.0) -> None:
    with tempfile.TemporaryDirectory() as name:
        start = time.monotonic()
        if sweep(Path(name), units, samples, seconds, "--workers", workers).wait():
            raise SystemExit("the sweep failed")
        wall = time.monotonic() - start
        logs = [read_eval_log(one, header_only=True) for one in list_eval_logs(f"{name}/logs")]
    waited = units * samples / 4 * seconds  # four samples at a time
    print(f"{len(logs)} units of {samples / 4 * seconds:.0f} s of waiting, {workers} workers: {wall:.0f} s, "
          f"{waited / wall:.2f} of {workers} workers busy on average")  # fmt: skip


def kills(count: int = 20, seed: int = 0) -> None:
    """Kill a random process of a sweep until so many were killed, start the sweep again if it ended, and count."""
    rng = random.Random(seed)
    arguments = (4, 60, 0.4, "--workers", 2, "--shards", 3)
    with tempfile.TemporaryDirectory() as name:
        folder, killed = Path(name), dict.fromkeys(("sweep", "unit"), 0)
        running = sweep(folder, *arguments)
        while sum(killed.values()) < count:
            time.sleep(rng.uniform(2, 9))
            alive = running.poll() is None
            children = psutil.Process(running.pid).children() if alive else []
            victim = rng.choice([None, *children, *children])
            if not alive:
                running = sweep(folder, *arguments)
            elif victim is None:
                running.kill()
                running.wait()
                killed["sweep"] += 1
                running = sweep(folder, *arguments)
            else:
                os.kill(victim.pid, 9)
                killed["unit"] += 1
        while running.wait():
            running = sweep(folder, *arguments)
        lost = doubled = 0
        logs = [read_eval_log(one) for one in list_eval_logs(f"{folder}/logs")]
        complete = [log for log in logs if log.status == "success"]
        for log in complete:
            seen = [one.id for one in log.samples or []]
            lost += len(set(range(60)) - set(seen))
            doubled += len(seen) - len(set(seen))
    print(f"killed {killed}; {len(complete)} of 4 tasks complete, {lost} samples lost, {doubled} doubled")
    if lost or doubled or len(complete) != 4:
        raise SystemExit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cost", "busy", "kills"])
    {"cost": cost, "busy": busy, "kills": kills}[parser.parse_args().what]()
