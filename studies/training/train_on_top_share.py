"""Train on selected trajectories of a log and compare the trained model with its base.

    python -m studies.training.train_on_top_share trained/study --seeds 0 1 2

For each seed, a tiny model answers the questions of urns' train split several times; each selection of these
trajectories becomes a dataset, on which a model is trained; base and trained models answer the questions of the test
split. The table at the end shows the metrics of the logs. With the defaults a seed takes about ten minutes of one core.

Complete steps are skipped, so the same command resumes an interrupted study. The logs of each model are in logs/MODEL.
"""

import argparse
import math
import os
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from inspect_ai.log import EvalLog
from inspect_ai.util import DisplayType

from examples.data_mixes import TRAINING, brier_scores, evaluate, held_out_questions
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.tasks import urns
from truthgym.training.conversion.options import Selection
from truthgym.training.convert import convert
from truthgym.training.evaluations import add_evaluations
from truthgym.training.files import markdown_table
from truthgym.training.tiny import STEPS, tiny
from truthgym.training.train import sft
from truthgym.training.trainers.model_card import read_card

SELECTIONS = {
    "all": Selection(everything=True),  # control: training on all of its own answers
    "random tenth": Selection(everything=True),  # control: as few rows as the top tenth, see `study`
    "top tenth": Selection(score="brier_score", top=0.1),
    "top half": Selection(score="brier_score", top=0.5),
    "best of each question": Selection(score="brier_score", best_per_question=True),
    "aligned": Selection(aligned=True),
}
Pairs = dict[str, list[tuple[EvalLog, EvalLog]]]
"""By selection: the logs of each base and of the model trained from it, both on the test split."""
METRICS = ("brier", "brier_of_mean", "calibration_slope", "resolution", "share_scored", "brier_imputed")


def study(
    out: Path, seed: int, n: int, epochs: int, steps: int, display: DisplayType | None, pairs: Pairs
) -> list[list[str]]:
    """Train one tiny model on each selection of its answers. Returns the rows of the table."""
    base = out / f"tiny-{seed}"
    if not base.is_dir():
        tiny(base, seed=seed, steps=steps)
    logs = out / "logs" / base.name
    train = urns(n=n, split="train", paradigms={"brier": {"figures": "all"}})
    test = urns(n=held_out_questions(n), split="test", paradigms={"brier": {"figures": "all"}})
    answers = evaluate(train, f"hf/{base}", logs / "train", epochs, display)
    before = evaluate(test, f"hf/{base}", logs / "test", epochs, display)
    table = [row(base.name, "", before, "")]
    for name, selection in SELECTIONS.items():
        dataset = out / "data" / f"{base.name}-{name.replace(' ', '-')}"
        result = convert([answers.location.removeprefix("file://")], "sft", dataset, selection, overwrite=True)
        if name == "random tenth":
            rows = (dataset / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
            drawn = random.Random(seed).sample(rows, round(len(rows) / 10))
            (dataset / "train.jsonl").write_text("".join(drawn), encoding="utf-8")
            result.rows["train"] = len(drawn)
        options = {"model_name_or_path": str(base), "dataset_name": str(dataset), "output_dir": str(out), "seed": seed}
        folder = sft(options | TRAINING)
        after = evaluate(test, f"hf/{folder}", out / "logs" / folder.name / "test", epochs, display)
        add_evaluations(folder, [log.location.removeprefix("file://") for log in (before, after)])
        pairs[name].append((before, after))
        (found,) = (entry for entry in read_card(folder).evals if entry.get("score") == "brier/brier_score")
        change = f"{found['difference']:+.4f} [{found['lower']:+.4f}, {found['upper']:+.4f}]"
        table.append(row(f"{folder.name}, {name}", f"{result.rows['train']:,}", after, change))
    return table


def row(name: str, rows: str, log: EvalLog, change: str) -> list[str]:
    assert log.results
    metrics = {key: metric.value for key, metric in log.results.scores[0].metrics.items()}
    interval = f" [{metrics['brier_lower']:.4f}, {metrics['brier_upper']:.4f}]"
    return [name, rows, *(f"{metrics[key]:.4f}{interval * (key == 'brier')}" for key in METRICS), change]


def over_seeds(pairs: Sequence[tuple[EvalLog, EvalLog]], unread: float = math.nan) -> str:
    """Trained minus base: the mean over questions of the mean difference over seeds, with its 95 % interval."""
    changes: dict[str, list[float]] = defaultdict(list)
    for before, after in pairs:
        then, now = brier_scores(before, unread), brier_scores(after, unread)
        for question in then.keys() & now.keys():
            changes[question].append(now[question] - then[question])
    mean = mean_estimate([sum(some) / len(some) for some in changes.values()], list(changes))
    return f"{mean.estimate:+.4f} [{mean.lower:+.4f}, {mean.upper:+.4f}]"


def main(out: Path, seeds: list[int], n: int, epochs: int, steps: int, display: DisplayType | None) -> None:
    truth = evaluate(
        urns(n=held_out_questions(n), split="test", paradigms={"brier": {"figures": "all"}}),
        "reference/bayesian",
        out / "logs" / "bayesian",
        1,
        display,
    )
    table = [row("reference/bayesian", "", truth, "")]
    pairs: Pairs = defaultdict(list)
    for seed in seeds:
        table += study(out, seed, n, epochs, steps, display, pairs)
    head = ["model", "rows", *METRICS, "trained minus base"]
    print(markdown_table(head, table))
    for name, logs in pairs.items():
        change, penalised = over_seeds(logs), over_seeds(logs, 1)
        print(f"{name}: trained minus base over {len(logs)} seeds {change}; with unread answers as wrong {penalised}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for models, datasets and logs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="seeds of the tiny models")
    parser.add_argument("--n", type=int, default=907, help="train questions; the test split has a third as many")
    parser.add_argument("--epochs", type=int, default=4, help="answers to each question")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of the tiny models' warm start")
    parser.add_argument("--display", choices=get_args(DisplayType), help="Inspect's display")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(args.out, args.seeds, args.n, args.epochs, args.steps, args.display)
