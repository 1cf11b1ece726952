"""Runs units as the elements of a Slurm job array.

Each element is `python -m truthgym.sweep.slurm UNITS NUMBER`, on a folder that all machines share.
"""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from shutil import which

from truthgym.datasets.errors import BadInput
from truthgym.sweep.units.unit import Outcome, Unit, run_unit

POLL = 1.0
"""Seconds between looks for outcomes."""


def run(units: Sequence[Unit], workers: int, options: Sequence[str] = ()) -> Iterator[Outcome]:
    """Submit units as one array, of which so many run at a time, and yield each outcome as it is written.

    Args:
        units: Their files stand in a folder that all machines share.
        workers: Elements that run at the same time.
        options: Further options of `sbatch`, such as --gpus=1.

    Raises:
        BadInput: There is no `sbatch`, or it refuses the job.
    """
    if which("sbatch") is None:
        raise BadInput("--on slurm needs the command sbatch, which is not on this machine; log in to the cluster first")
    folder = Path(units[0].state).parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    listed = folder / f"units-{time.time_ns()}.json"  # another array may still read its own
    listed.write_text(json.dumps([asdict(unit) for unit in units]), encoding="utf-8")
    for unit in units:
        Path(f"{unit.state}.ended").unlink(missing_ok=True)
    array = f"--array=0-{len(units) - 1}%{workers}"
    command = [sys.executable, "-m", "truthgym.sweep.slurm", str(listed)]
    script = f"#!/bin/sh\nexec {shlex.join(command)} $SLURM_ARRAY_TASK_ID\n"
    job = subprocess.Popen(
        ["sbatch", "--wait", array, f"--output={folder}/slurm-%a.txt", f"--chdir={Path.cwd()}", *options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert job.stdin is not None
    job.stdin.write(script)
    job.stdin.close()
    waiting = list(units)
    while waiting:
        over = job.poll() is not None
        for unit in [one for one in waiting if Path(f"{one.state}.ended").exists()]:
            waiting.remove(unit)
            ended = json.loads(Path(f"{unit.state}.ended").read_text(encoding="utf-8"))
            yield Outcome(unit, **ended)
        if over:
            break
        time.sleep(POLL)
    said = job.stdout.read().strip() if job.stdout else ""
    if len(waiting) == len(units) and job.returncode:
        raise BadInput(f"sbatch ended with status {job.returncode}: {said}")
    yield from (Outcome(unit, "", f"no outcome was written; see {folder}/slurm-*.txt ({said})") for unit in waiting)


def main() -> None:
    """Run the unit of this number, and write its outcome."""
    listed, number = sys.argv[1:]
    unit = Unit(**json.loads(Path(listed).read_text(encoding="utf-8"))[int(number)])
    outcome = run_unit(unit)
    ended = {key: value for key, value in asdict(outcome).items() if key != "unit"}
    new = Path(f"{unit.state}.ended.new")
    new.write_text(json.dumps(ended), encoding="utf-8")
    new.replace(f"{unit.state}.ended")
    sys.exit(1 if outcome.error else 0)


if __name__ == "__main__":
    main()
