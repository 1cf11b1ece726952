"""Run the closed loop over several seeds and report in how many of them the model improved.

    python -m studies.training.loop_over_seeds loops --seeds 0 1 2 3 4 --page docs/loop_urns.md

For each seed: make a tiny model, evaluate it on held-out questions of urns, train it by reinforcement on other
questions, and evaluate it again. Complete steps are skipped, so the same command resumes an interrupted study. The page
is written from the loops' reports, and a .csv file has the same figures for programs.
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from studies.study import write_csv, write_texts
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.training.files import markdown_table
from truthgym.training.loop import loop
from truthgym.training.tiny import tiny

QUESTIONS, HELD_OUT = 1800, 1200
"""Generated questions to train on, and held-out ones."""
TRAIN = {
    "per_device_train_batch_size": 128,
    "gradient_accumulation_steps": 1,
    "num_generations": 4,  # 32 questions a step: outcomes are noisier than answers
    "learning_rate": 1e-3,  # suits half a million parameters; the rates of large models would change nothing
    "max_steps": 100,
}
TARGET = 4
"""Seeds out of five that should improve on both the start and the best constant answer."""
Row = Mapping[str, str]
"""A seed's figures by name, as in the .csv file. Those of one model end in _start or _trained."""


def run(seed: int, folder: Path) -> Path:
    start = folder / f"tiny{seed}"
    if not start.is_dir():
        tiny(start, seed=seed)
    return loop(
        {
            "model_name_or_path": str(start),
            "task": ["truthgym/urns"],
            "task_args": {"n": QUESTIONS, "seed": seed},
            "train_args": {"paradigms": "brier"},
            "held_out_args": {"n": HELD_OUT},
            "method": "grpo",
            "epochs": 1,
            "held_out_epochs": 2,
            "max_tokens": 12,
            "max_connections": 64,
            "seed": seed,
            "out": str(folder / f"urns-{seed}"),
            "train": TRAIN,
        }
    )


def exact(seed: int) -> float:
    """The Brier score of exact Bayesian reasoning on a seed's held-out questions."""
    held_out = urns(n=HELD_OUT, seed=seed, split="test")
    losses = [(item.metadata_as(UrnQuestion).posterior[-1] - (item.target == "yes")) ** 2 for item in held_out]
    return sum(losses) / len(losses)


def figures(seed: int, folder: Path) -> Row:
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))["tasks"]["truthgym/urns"]
    rounds = {"start": report[0], "trained": report[-1]}
    trained = rounds["trained"]
    row = {"seed": str(seed), "exact": f"{exact(seed):.4f}"}
    for name in ("from_start", "from_constant"):
        row |= {name: f"{trained[name]['value']:+.4f}"}
        row |= {f"{name}_{bound}": f"{trained[name][bound]:+.4f}" for bound in ("lower", "upper")}
    row |= {"questions": str(trained["from_start"]["n"]), "mde": f"{trained['from_start']['mde']:.4f}"}
    for end, measures in rounds.items():
        for name, places in (("mean", 4), ("parse_rate", 3), ("tokens", 1), ("reply_nll", 2)):
            row[f"{name}_{end}"] = f"{measures[name]['value']:.{places}f}"
        for name, places in (("sd_within", 3), ("calibration_slope", 2)):
            row[f"{name}_{end}"] = f"{measures[name]:.{places}f}"
        for name in ("martingale_score", "excess_movement"):
            for part in (name, f"{name}_lower", f"{name}_upper"):
                row[f"{part}_{end}"] = "" if measures.get(name) is None else f"{measures[part]:.3f}"
        digest = sha256((folder / measures["log"]).read_bytes()).hexdigest()[:16]
        row |= {f"round_{end}": str(measures["round"]), f"log_{end}": measures["eval_id"], f"sha256_{end}": digest}
    return row


def texts(rows: Sequence[Row]) -> dict[str, str]:
    """What the page shows, by its name there."""
    better = [row["from_start_upper"].startswith("-") for row in rows]
    beaten = [row["from_constant_upper"].startswith("-") for row in rows]
    both = [a and b for a, b in zip(better, beaten, strict=True)]
    return {
        **{name: f"{sum(seeds)} of {len(rows)}" for name, seeds in
           {"better": better, "beaten": beaten, "both": both}.items()},
        "verdict": "met" if sum(both) >= TARGET else "not met",
        "seeds": markdown_table(HEADER, [_cells(row) for row in rows]),
    }  # fmt: skip


HEADER = ["seed", "Brier: exact", "Brier: start", "Brier: trained", "trained minus start",
          "trained minus best constant", "parse rate", "martingale score"]  # fmt: skip


def _cells(row: Row) -> list[str]:
    def interval(name: str, end: str = "") -> str:
        lower, upper = row[f"{name}_lower{end}"], row[f"{name}_upper{end}"]
        return f"{row[name + end]} [{lower}, {upper}]" if row[name + end] else "not identified"

    return [
        *(row[name] for name in ("seed", "exact", "mean_start", "mean_trained")),
        interval("from_start"),
        interval("from_constant"),
        f"{row['parse_rate_start']} → {row['parse_rate_trained']}",
        " → ".join(interval("martingale_score", end) for end in ("_start", "_trained")),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for models and loops")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--page", type=Path, default=Path("docs/loop_urns.md"))
    parser.add_argument("--table", type=Path, default=Path("studies/training/loop_urns.csv"))
    parser.add_argument("--only-page", action="store_true", help="write the page of loops that have run")
    args = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a tiny model is slower with more threads
    if not args.only_page:
        for seed in args.seeds:
            run(seed, args.folder)
    rows: list[Row] = [figures(seed, args.folder / f"urns-{seed}") for seed in sorted(args.seeds)]
    write_csv(rows, args.table)
    write_texts(args.page, texts(rows))
    print(*texts(rows).values(), sep="\n\n")


if __name__ == "__main__":
    main()
