"""What do the tables of a report cost, beside Inspect's `samples_df` of the same logs?

python -m studies.speed.report --logs 20 --samples 500

A log is made first (urns by chain of thought, scored by brier and martingale), and cloned as other runs of the same
samples, of which `samples_df` gives one row each. Each way of reading then runs in a process of its own, in turn: CPU
time with imports, and the most memory that the process held.
"""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from studies.speed.log_copies import add_header, copy_samples
from studies.speed.timing import arguments, in_own_process, print_usage

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
    (folder / "logs").mkdir()
    header = copy_samples(Path(log.location.removeprefix("file://")), folder / "samples.eval", samples)
    for number in range(logs):
        clone = folder / "logs" / f"2026-01-01T00-00-00-00-00_urns_{number:04}.eval"
        add_header(folder / "samples.eval", header, clone, f"run{number:04}")
    size = sum(log.stat().st_size for log in (folder / "logs").iterdir())
    print(f"{logs} logs of {samples} samples, {size / 1e6:.0f} MB")


def main(logs: int, samples: int, ways: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), logs, samples)
        usage = {way: in_own_process("studies.speed.report", way, Path(folder, "logs")) for way in ways}
    imports = usage["imports"].cpu if "imports" in usage else math.nan
    full = usage["samples_df(full=True)"].cpu if "samples_df(full=True)" in usage else math.nan
    print("| way | rows | CPU s | beyond imports | MB | samples_df(full=True) / this, beyond imports |")
    print("|---|---|---|---|---|---|")
    for way, (seconds, memory, rows) in usage.items():
        beyond = seconds - imports
        ratio = "-" if way == "imports" else f"{(full - imports) / beyond:.1f}"
        print(f"| {way} | {rows:,} | {seconds:.1f} | {beyond:.1f} | {memory:.0f} | {ratio} |")


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--samples", type=int, default=500, help="of each log")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        os.environ["INSPECT_LOG_LEVEL"] = "error"
        rows = read(*args.measure)
        print_usage(time.process_time(), rows)  # with imports
    else:
        main(args.logs, args.samples, args.ways)
