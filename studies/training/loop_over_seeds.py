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

from studies.study import write_csv
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


def page(rows: Sequence[Row]) -> str:
    better = [row["from_start_upper"].startswith("-") for row in rows]
    beaten = [row["from_constant_upper"].startswith("-") for row in rows]
    below_both = sum(map(all, zip(better, beaten, strict=True)))
    logs = [[row["seed"], *(row[f"{name}_{end}"] for name in ("round", "log", "sha256"))]
            for row in rows for end in ("start", "trained")]  # fmt: skip
    return TEXT.format(
        better=sum(better), beaten=sum(beaten), both=below_both, seeds=len(rows), target=TARGET,
        verdict="met" if below_both >= TARGET else "not met",
        questions=QUESTIONS, held_out=HELD_OUT, options=" ".join(f"--{key} {value:g}" for key, value in TRAIN.items()),
        table=markdown_table(HEADER, [_cells(row) for row in rows]),
        logs=markdown_table(["seed", "round", "log", "SHA-256"], logs),
    )  # fmt: skip


HEADER = ["seed", "Brier: exact", "Brier: start", "Brier: trained", "trained minus start",
          "trained minus best constant", "questions", "MDE", "parse rate", "tokens", "reply NLL", "within-question SD",
          "calibration slope", "martingale score", "excess movement"]  # fmt: skip


def _cells(row: Row) -> list[str]:
    def interval(name: str, end: str = "") -> str:
        lower, upper = row[f"{name}_lower{end}"], row[f"{name}_upper{end}"]
        return f"{row[name + end]} [{lower}, {upper}]" if row[name + end] else "not identified"

    names = ("parse_rate", "tokens", "reply_nll", "sd_within", "calibration_slope")
    return [
        *(row[name] for name in ("seed", "exact", "mean_start", "mean_trained")),
        interval("from_start"),
        interval("from_constant"),
        row["questions"],
        row["mde"],
        *(f"{row[f'{name}_start']} → {row[f'{name}_trained']}" for name in names),
        *(" → ".join(interval(name, end) for end in ("_start", "_trained"))
          for name in ("martingale_score", "excess_movement")),
    ]  # fmt: skip


TEXT = """# The loop on urns: does the model improve?

Written by `python -m studies.training.loop_over_seeds loops`. The guide is [loop.md](loop.md).

In **{better} of {seeds}** seeds the trained model's held-out Brier score is below the start's by a paired interval that
excludes zero, in {beaten} of {seeds} below that of the best constant answer (the held-out questions' own share of yes),
and in {both} of {seeds} below both. The target, both in {target} of 5, is {verdict}.

For each seed `truthgym tiny` makes a model with half a million parameters. `truthgym loop --method grpo` evaluates it
twice on about {held_out} generated questions, trains it by reinforcement on about {questions} others
(`{options}`; the reward is `brier`), and evaluates it again. "Exact" is the
Brier score of exact Bayesian reasoning on the same questions, from each question's posterior.

{table}

The differences are paired over questions and clustered by event, with 95 % intervals; MDE is the minimum detectable
effect, the true difference that a run of this size would find with probability 0.8. The columns to the right would show
a hack, start → trained: parse rate, tokens of an answer, its entropy (reply NLL in nats), the belief's standard
deviation within a question, the calibration slope (1 is calibrated), the [martingale score](martingale.md) (0 is
rational; not identified if a model's prior is too noisy to be its own instrument) and excess movement (0 is Bayesian).

The reward covers the answer only. The table does not show how many of the beliefs that `martingale` elicits besides the
answer could be parsed; a loop's `report.md` warns if that share fell (added after the loops of November 2026 were run).
In an earlier run of `truthgym loop` with the same settings and 600 questions, it fell from 0.984 to 0.566.

The same figures are in [loop_urns.csv](../studies/training/loop_urns.csv). They come from these logs:

{logs}
"""


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
    args.page.write_text(page(rows), encoding="utf-8")
    print(page(rows))


if __name__ == "__main__":
    main()
