"""Real traces for the hacking monitor: GRPO runs on the true score.

    python -m studies.training.monitor_traces trained/clean --seeds 72 --steps 24
    make rewards                        # each run tested by the others: docs/reward_methods.md

A clean run trains a tiny model on its Brier score, with other questions and another order for each seed. Its trace is
what TRL logs at each step. Runs that are complete are not repeated.
"""

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from studies.study import write_csv
from truthgym.training.files import STATE_FILE
from truthgym.training.tiny import tiny

Row = dict[str, str | float]
SIGNALS = ("completions/mean_length", "entropy", "kl", "reward", "rewards/brier/mean", "rewards/reward_model/mean")


def clean_run(work: Path, base: Path, seed: int, questions: int, steps: int) -> Path:
    from truthgym.training.train import grpo

    options: dict[str, Any] = {
        "model_name_or_path": str(base), "task": ["truthgym/urns"], "reward": ["brier"], "output_dir": str(work),
        "task_args": {"n": questions, "seed": 1000 * seed, "paradigms": "brier"}, "logging_steps": 1,
        "max_steps": steps, "learning_rate": 5e-4, "per_device_train_batch_size": 32, "gradient_accumulation_steps": 1,
        "beta": 0.04, "num_generations": 4, "max_completion_length": 12, "seed": seed,
        "validation_steps": 0, "use_cpu": True, "save_strategy": "no", "disable_tqdm": True, "report_to": "none",
    }  # fmt: skip
    return grpo(options)


def trace(folder: Path, group: str) -> Iterator[Row]:
    entries = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))["log_history"]
    for entry in entries:
        if "entropy" in entry:
            yield {"group": group, "step": entry["step"], **{name: entry.get(name, "") for name in SIGNALS}}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the runs")
    parser.add_argument("--table", type=Path, default=Path("studies/training/monitor.csv"))
    parser.add_argument("--seeds", type=int, default=12, help="how many clean runs")
    parser.add_argument("--questions", type=int, default=192, help="of each run")
    parser.add_argument("--steps", type=int, default=48, help="of each run")
    args = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    base = args.out / "tiny"
    if not base.is_dir():
        tiny(base)
    rows: list[Row] = []
    for seed in range(args.seeds):
        done = list((args.out / str(seed)).glob(f"*/{STATE_FILE}"))
        folder = done[0].parent if done else clean_run(args.out / str(seed), base, seed, args.questions, args.steps)
        rows += [{"seed": seed, **row} for row in trace(folder, "grpo on the Brier score")]
    write_csv(rows, args.table)


if __name__ == "__main__":
    main()
