"""What do the tables of a report cost, beside Inspect's `samples_df` of the same logs?

python -m studies.speed.report --logs 20 --samples 500

A log is made first (urns by chain of thought, scored by brier and martingale), and cloned as other runs of the same
samples, of which `samples_df` gives one row each. Each way of reading then runs in a process of its own, in turn: CPU
time with imports, and the most memory that the process held.
"""

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from studies.speed.timing import most_memory

ZSTD = 93
WAYS = ("answers and beliefs", "overview", "evals_df", "samples_df", "samples_df(full=True)", "imports")


def read(way: str, logs: str) -> int:
    """Read all logs in one way. Gives the number of rows."""
    if way == "imports":
        import pandas  # noqa: F401

        from truthgym.analysis.tables import answers as tables  # noqa: F401

        return 0
    if way == "answers and beliefs":
        from truthgym.analysis.tables.answers import answers
        from truthgym.analysis.tables.beliefs import beliefs

        return len(answers(logs)) + len(beliefs(logs))
    if way == "overview":
        from truthgym.analysis.site.build import build

        with tempfile.TemporaryDirectory() as folder:
            return len(build(logs, Path(folder), ["performance", "catalog", "health"], say=lambda line: None))
    from inspect_ai.analysis import evals_df, samples_df

    readers: dict[str, Callable[[], int]] = {
        "evals_df": lambda: len(evals_df(logs, quiet=True)),
        "samples_df": lambda: len(samples_df(logs, quiet=True)),
        "samples_df(full=True)": lambda: len(samples_df(logs, full=True, quiet=True)),
    }
    return readers[way]()


def make(folder: Path, logs: int, samples: int) -> None:
    """Write the logs: clones of one with 50 questions in two epochs."""
    from inspect_ai import eval, task_with
    from inspect_ai.model import get_model

    from truthgym.tasks import chain_of_thought, urns

    task = task_with(urns(n=50, paradigms="brier,martingale"), solver=chain_of_thought(steps=2))
    model = get_model("reference/bayesian", noise=0.1)
    log = eval(task, model=model, epochs=2, log_dir=str(folder / "first"), log_realtime=False, display="none")[0]
    path = Path(log.location.removeprefix("file://"))
    content = members(path)
    (folder / "logs").mkdir()
    first = folder / "samples.eval"
    header = write_samples(content, first, samples)
    for number in range(logs):
        clone(first, header, folder / "logs" / f"2026-01-01T00-00-00-00-00_urns_{number:04}.eval", number)
    size = sum(one.stat().st_size for one in (folder / "logs").iterdir())
    print(f"{logs} logs of {samples} samples, {size / 1e6:.0f} MB")


def members(path: Path) -> dict[str, bytes]:
    from truthgym.evallog.archive import EvalArchive

    with EvalArchive(path) as archive:
        return {name: archive.read(name) for name in archive.names}


def write_samples(content: dict[str, bytes], path: Path, samples: int) -> dict[str, Any]:
    """A log without its header, with so many samples, each a copy of one of the first log under another id."""
    import zipfile_zstd  # type: ignore[import-untyped]  # noqa: F401  # Inspect brings it: zipfile learns zstd

    names = [name for name in content if name.startswith("samples/")]
    summaries = {
        f"samples/{load['id']}_epoch_{load['epoch']}.json": load for load in json.loads(content["summaries.json"])
    }
    listed = []
    with zipfile.ZipFile(path, "w", ZSTD) as archive:
        for i in range(samples):
            name = names[i % len(names)]
            summary = summaries[name]
            other = {"id": f"{summary['id']}-{i // len(names)}", "uuid": f"copy-{i}"}
            sample = content[name].replace(f'"{summary["id"]}"'.encode(), f'"{other["id"]}"'.encode())
            sample = sample.replace(f'"{summary["uuid"]}"'.encode(), f'"{other["uuid"]}"'.encode())
            listed.append(summary | other)
            archive.writestr(f"samples/{other['id']}_epoch_{summary['epoch']}.json", sample)
        archive.writestr("summaries.json", json.dumps(listed))
        archive.writestr("reductions.json", "[]")
    header: dict[str, Any] = json.loads(content["header.json"])
    header["results"] |= {"total_samples": samples, "completed_samples": samples}
    return header


def clone(samples: Path, header: dict[str, Any], path: Path, number: int) -> None:
    """A log of its own run with these samples. Only the header is compressed again."""
    run = f"run{number:04}"
    header["eval"] |= {"eval_id": run, "task_id": run, "run_id": run}
    shutil.copyfile(samples, path)
    with zipfile.ZipFile(path, "a", ZSTD) as archive:
        archive.writestr("header.json", json.dumps(header))


def measure(way: str, logs: Path) -> tuple[float, float, int]:
    """CPU seconds, MB at most, and rows, of one way in its own process."""
    command = [sys.executable, "-m", "studies.speed.report", "--way", way, "--folder", str(logs)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows, memory = done.stdout.split()[-2:]
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, float(memory), int(rows)


def main(logs: int, samples: int, ways: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), logs, samples)
        found = {way: measure(way, Path(folder, "logs")) for way in ways}
    imports = found["imports"][0] if "imports" in found else math.nan
    full = found["samples_df(full=True)"][0] if "samples_df(full=True)" in found else math.nan
    print("| way | rows | CPU s | beyond imports | MB | samples_df(full=True) / this, beyond imports |")
    print("|---|---|---|---|---|---|")
    for way, (seconds, memory, rows) in found.items():
        own = seconds - imports
        ratio = "-" if way == "imports" else f"{(full - imports) / own:.1f}"
        print(f"| {way} | {rows:,} | {seconds:.1f} | {own:.1f} | {memory:.0f} | {ratio} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--samples", type=int, default=500, help="of each log")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.way:
        os.environ["INSPECT_LOG_LEVEL"] = "error"
        rows = read(asked.way, asked.folder)
        print(rows, most_memory())
    else:
        main(asked.logs, asked.samples, asked.ways)
