"""Runs units as the elements of a Slurm job array.

Each element is `python -m truthgym.sweep.slurm UNITS ELEMENTS NUMBER`, on a folder that all machines share.
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
from truthgym.sweep.units.unit import Outcome, Unit, private, run_unit

POLL = 1.0
"""Seconds between looks for outcomes."""
SCRIPT = "#!/bin/sh\nexec {command} $SLURM_ARRAY_TASK_ID\n"
LATE = 60.0
"""Seconds that a network file system may take to show what another machine wrote."""
ELEMENTS = 1000
"""Most elements of an array: Slurm's MaxArraySize is 1001 by default. Of more units, an element runs several."""


def run(units: Sequence[Unit], workers: int) -> Iterator[Outcome]:
    """Submit units as one array, of which so many run at a time, and yield each outcome as it is written."""
    if which("sbatch") is None:
        raise BadInput("--on slurm needs the command sbatch, which is not on this machine; log in to the cluster first")
    folder = Path(units[0].state).parent
    private(folder)
    listed = folder / f"units-{time.time_ns()}.json"  # another array may still read its own
    listed.write_text(json.dumps([asdict(unit) for unit in units]), encoding="utf-8")
    for unit in units:
        outcome_file(unit).unlink(missing_ok=True)
    elements = min(len(units), ELEMENTS)
    command = [sys.executable, "-m", "truthgym.sweep.slurm", str(listed), str(elements)]
    array = [f"--array=0-{elements - 1}%{workers}", f"--output={folder}/slurm-%a.txt", f"--chdir={Path.cwd()}"]
    job = subprocess.Popen(
        ["sbatch", "--wait", *array], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert job.stdin is not None
    job.stdin.write(SCRIPT.format(command=shlex.join(command)))
    job.stdin.close()
    waiting = {outcome_file(unit).name: unit for unit in units}
    over = None
    while waiting and (over is None or time.monotonic() < over + LATE):
        if over is None and job.poll() is not None:
            over = time.monotonic()
            printed = job.stdout.read().strip() if job.stdout else ""
            if job.returncode and len(waiting) == len(units) and "Submitted batch job" not in printed:
                raise BadInput(f"sbatch ended with status {job.returncode}: {printed}")
        for path in [path for path in folder.iterdir() if path.name in waiting]:  # a look for each would be remembered
            yield Outcome(waiting.pop(path.name), **json.loads(path.read_text(encoding="utf-8")))
        time.sleep(POLL if waiting else 0)
    for unit in waiting.values():
        yield Outcome(unit, "", f"no outcome was written; see {folder}/slurm-*.txt, and whether all nodes see {folder}")


def outcome_file(unit: Unit) -> Path:
    return Path(f"{unit.state}.ended")


def main() -> None:
    """Run the units of this element, and write their outcomes. Fewer are left where Slurm requeued the element."""
    listed, elements, number = sys.argv[1:]
    units = [Unit(**fields) for fields in json.loads(Path(listed).read_text(encoding="utf-8"))]
    failed = False
    for unit in [unit for unit in units[int(number) :: int(elements)] if not outcome_file(unit).exists()]:
        outcome = run_unit(unit)
        failed = failed or bool(outcome.error)
        new = Path(f"{unit.state}.ended.new")
        new.write_text(
            json.dumps({"log": outcome.log, "error": outcome.error, "seconds": outcome.seconds}), encoding="utf-8"
        )
        new.replace(outcome_file(unit))
    sys.exit(failed)


if __name__ == "__main__":
    main()
