"""Run the closed loop over several seeds, and tell in how many of them the model truly got better.

    python examples/loop_over_seeds.py loops --seeds 0 1 2 3 4 --page docs/loop_urns.md

For each seed a tiny model is made, asked held-out questions of urns, trained by reinforcement on other questions, and
asked the held-out ones again. What is done already is not done again: an interrupted study goes on with the same
command. The page is made of the reports and logs of the loops; the table beside it holds the Brier score of every
held-out question, from which its figures can be computed anew.
"""

import argparse
import csv
import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.training.artifacts import markdown_table
from truthgym.training.closed_loop.measures import BRIER, measure_log
from truthgym.training.loop import loop
from truthgym.training.tiny import tiny

QUESTIONS, HELD_OUT = 3000, 6000
"""Questions that are made; three fifths of them are trained on, a fifth is held out."""
TRAIN = {
    "per_device_train_batch_size": 128,
    "gradient_accumulation_steps": 1,
    "num_generations": 4,  # 32 questions a step: the luck of outcomes weighs more than that of answers
    "learning_rate": 1e-3,  # for half a million parameters; that of large models would leave them as they are
    "max_steps": 100,
}
COLUMNS = ("seed", "question", "event", "start", "trained", "constant")
"""Of the table: Brier scores, means over a question's epochs; that of the best constant answer beside them."""
NEEDED = 4


def run(seed: int, folder: Path) -> Path:
    """One seed: its tiny model and its loop."""
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
    known = [(sample.metadata_as(UrnQuestion).posterior[-1], sample.target == "yes") for sample in held_out]
    return sum((belief - outcome) ** 2 for belief, outcome in known) / len(known)


def page(folders: Mapping[int, Path], place: Path) -> str:
    """Write the page and the table beside it, and return the page."""
    rows, held, logs = [], [], []
    better, beaten = [], []
    for seed, folder in sorted(folders.items()):
        told = json.loads((folder / "report.json").read_text(encoding="utf-8"))["tasks"]["truthgym/urns"]
        start, end = told[0], told[-1]
        better.append(end["from_start"]["upper"] < 0)
        beaten.append(end["from_constant"]["upper"] < 0)
        rows.append([str(seed), f"{exact(seed):.4f}", *_figures(start, end)])
        logs += [
            [str(seed), str(row["round"]), row["eval_id"], sha256((folder / row["log"]).read_bytes()).hexdigest()[:16]]
            for row in (start, end)
        ]
        held += _questions(seed, folder, start, end)
    with place.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *held])
    head = ["seed", "Brier: exact", "Brier: start", "Brier: trained", "trained minus start",
            "trained minus best constant", "questions", "smallest visible", "in form", "tokens", "nats", "sd within",
            "calibration slope", "martingale score", "excess movement"]  # fmt: skip
    both = sum(map(all, zip(better, beaten, strict=True)))
    text = TEXT.format(
        better=sum(better), beaten=sum(beaten), both=both, seeds=len(rows), table=markdown_table(head, rows),
        csv=place.with_suffix(".csv").name,
        logs=markdown_table(["seed", "round", "log", "SHA-256"], logs), needed=NEEDED,
        verdict="met" if both >= NEEDED else "not met",
        questions=QUESTIONS, held_out=HELD_OUT, options=" ".join(f"--{key} {value:g}" for key, value in TRAIN.items()),
    )  # fmt: skip
    place.write_text(text, encoding="utf-8")
    return text


def _figures(start: Mapping[str, Any], end: Mapping[str, Any]) -> list[str]:
    def both(name: str, places: int) -> str:
        return f"{start[name]['value']:.{places}f} → {end[name]['value']:.{places}f}"

    def between(name: str) -> str:
        told = end[name]
        return f"{told['value']:+.4f} [{told['lower']:+.4f}, {told['upper']:+.4f}]"

    def bounded(row: Mapping[str, Any], name: str) -> str:
        if row.get(name) is None:
            return "not identified"
        return f"{row[name]:.3f} [{row[f'{name}_lower']:.3f}, {row[f'{name}_upper']:.3f}]"

    return [
        f"{start['mean']['value']:.4f}",
        f"{end['mean']['value']:.4f}",
        between("from_start"),
        between("from_constant"),
        str(end["from_start"]["n"]),
        f"{end['from_start']['mde']:.4f}",
        both("parse_rate", 3),
        both("tokens", 1),
        both("reply_nll", 2),
        f"{start['sd_within']:.3f} → {end['sd_within']:.3f}",
        f"{start['calibration_slope']:.2f} → {end['calibration_slope']:.2f}",
        f"{bounded(start, 'martingale_score')} → {bounded(end, 'martingale_score')}",
        f"{bounded(start, 'excess_movement')} → {bounded(end, 'excess_movement')}",
    ]


def _questions(seed: int, folder: Path, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[list[str]]:
    from inspect_ai.log import read_eval_log

    from truthgym.training.evaluations import mean

    found = []
    for row in (start, end):
        log = read_eval_log(str(folder / row["log"]), header_only=True)
        found.append(measure_log(log, (folder / row["log"]).parent))
    return [
        [str(seed), question, event, *(f"{mean(one.values[BRIER][question][2]):.6f}" for one in found),
         f"{mean(found[-1].constant[question][2]):.6f}"]
        for question, (_, event, _) in sorted(found[-1].values[BRIER].items())
    ]  # fmt: skip


TEXT = """# The loop on urns: does the model truly get better?

Made by `python examples/loop_over_seeds.py loops`. The guide is [loop.md](loop.md).

In **{better} of {seeds}** seeds the trained model's held-out Brier score is below the start's by a paired interval
that excludes zero, in {beaten} of {seeds} below that of the best constant answer, the held-out questions' own share of
yes, and in {both} of {seeds} below both. The aim, both in {needed} of 5, is {verdict}.

For each seed `truthgym tiny` makes a model of half a million parameters. `truthgym loop --method grpo` asks it a fifth
of {held_out} generated questions twice, trains it by reinforcement on three fifths of {questions} others
(`{options}`; the reward is `brier`), and asks the held-out ones again. "Exact" is the
Brier score of exact Bayesian reasoning on the same questions, from the posterior that each of them has.

{table}

The differences are question by question, clustered by event, with 95 % intervals; smallest visible is the true
difference that a run of this size would find with probability 0.8. What would show a hack stands to the right, start →
trained: answers in form, tokens of an answer, its entropy in nats, the belief's standard deviation within a question,
the calibration slope (1 is calibrated), the [martingale score](martingale.md) (0 is rational; not identified where a
model's prior is too noisy to be its own instrument) and excess movement (0 is Bayesian).

Not in the table is the share of the beliefs which `martingale` asks for beside the answer that could be read: the
reward is for the answer alone, and each loop's `report.md` tells where that share fell.

The Brier score of every held-out question is in [{csv}]({csv}); a test computes the differences anew from it. The logs
that they come from:

{logs}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is not done yet, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="Where models and loops lie.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--page", type=Path, default=Path("docs/loop_urns.md"))
    parser.add_argument("--only-page", action="store_true", help="Make the page of loops that have run.")
    given = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a tiny model is slower on more
    if given.only_page:
        folders = {seed: given.folder / f"urns-{seed}" for seed in given.seeds}
    else:
        folders = {seed: run(seed, given.folder) for seed in given.seeds}
    print(page(folders, given.page))


if __name__ == "__main__":
    main()
