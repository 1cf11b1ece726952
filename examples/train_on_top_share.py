"""Train on a share of a log's trajectories, and evaluate what came of it beside its base.

    python examples/train_on_top_share.py trained/study --seeds 0 1 2

For each seed a tiny model answers the questions of urns' train split several times; each selection of these
trajectories becomes a dataset, and a model trained on it; base and trained models answer the questions of the test
split. The table at the end is made of the figures in the logs. With the defaults a seed takes some ten minutes of one
core.

What is done already is not done again: an interrupted study goes on with the same command. The logs of
each model lie in logs/MODEL.
"""

import argparse
import math
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from inspect_ai import Task, eval
from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log, read_eval_log_sample_summaries
from inspect_ai.util import DisplayType

from truthgym.scorers.statistics.interval import mean_headline
from truthgym.tasks import urns
from truthgym.training.conversion.selection import Selection
from truthgym.training.convert import convert
from truthgym.training.evaluations import add_evaluations
from truthgym.training.sft import sft
from truthgym.training.tiny import STEPS, tiny
from truthgym.training.trainers.model_card import read_card

SELECTIONS = {
    "all": Selection(everything=True),  # the control: what training on one's own answers does by itself
    "top tenth": Selection(score="brier_score", top=0.1),
    "top half": Selection(score="brier_score", top=0.5),
    "best of each question": Selection(score="brier_score", best_per_question=True),
    "aligned": Selection(aligned=True),
}
TRAINING = {
    "learning_rate": 5e-4,  # for half a million parameters; that of large models would leave them as they are
    "per_device_train_batch_size": 32,
    "max_steps": 200,  # the same for each selection, however many rows it has
    "logging_steps": 20,
    "save_strategy": "no",
    "disable_tqdm": True,
    "use_cpu": True,
}
ANSWER = 12
"""Tokens. An answer in form has six."""
Pairs = dict[str, list[tuple[EvalLog, EvalLog]]]
"""By selection: the logs of each base and of what was trained from it, both on the test split."""
FIGURES = ("brier", "brier_of_mean", "calibration_slope", "resolution", "share_scored")


def ask(task: Task, model: str, log_dir: Path, epochs: int, display: DisplayType | None) -> EvalLog:
    """Evaluate, or read the log of the same evaluation where it is there."""
    for found in list_eval_logs(str(log_dir)) if log_dir.is_dir() else []:
        log = read_eval_log(found, header_only=True)
        if log.status == "success":
            return log
    (log,) = eval(
        task,
        model=model,
        model_args={"device": "cpu"} if model.startswith("hf/") else {},
        log_dir=str(log_dir),
        epochs=epochs,
        max_tokens=ANSWER,
        max_connections=64,  # answers of one batch
        max_samples=64,
        seed=0,
        log_realtime=False,
        display=display,
    )
    if log.status != "success":
        raise SystemExit(f"{log.location}: {log.error.message if log.error else log.status}")
    return log


def study(
    out: Path, seed: int, n: int, epochs: int, steps: int, display: DisplayType | None, pairs: Pairs
) -> list[list[str]]:
    """One tiny model, trained on each selection of what it said. Returns the rows of the table."""
    base = out / f"tiny-{seed}"
    if not base.is_dir():
        tiny(base, seed=seed, steps=steps)
    place = out / "logs" / base.name
    train = urns(n=n, split="train", paradigms="brier")
    test = urns(n=n, split="test", paradigms="brier")
    said = ask(train, f"hf/{base}", place / "train", epochs, display)
    before = ask(test, f"hf/{base}", place / "test", epochs, display)
    table = [row(base.name, "", before, "")]
    for name, selection in SELECTIONS.items():
        dataset = out / "data" / f"{base.name}-{name.replace(' ', '-')}"
        made = convert([said.location.removeprefix("file://")], "sft", dataset, selection, overwrite=True)
        given = {"model_name_or_path": str(base), "dataset_name": str(dataset), "output_dir": str(out), "seed": seed}
        folder = sft(given | TRAINING)
        after = ask(test, f"hf/{folder}", out / "logs" / folder.name / "test", epochs, display)
        add_evaluations(folder, [log.location.removeprefix("file://") for log in (before, after)])
        pairs[name].append((before, after))
        (found,) = (told for told in read_card(folder).evals if told.get("score") == "brier/brier_score")
        change = f"{found['difference']:+.4f} [{found['lower']:+.4f}, {found['upper']:+.4f}]"
        table.append(row(f"{folder.name}, {name}", f"{made.rows['train']:,}", after, change))
    return table


def row(name: str, rows: str, log: EvalLog, change: str) -> list[str]:
    """A line of the table: figures as the log has them."""
    assert log.results
    metrics = {key: metric.value for key, metric in log.results.scores[0].metrics.items()}
    interval = f" [{metrics['brier_lower']:.4f}, {metrics['brier_upper']:.4f}]"
    return [name, rows, *(f"{metrics[key]:.4f}{interval * (key == 'brier')}" for key in FIGURES), change]


def over_seeds(pairs: Sequence[tuple[EvalLog, EvalLog]]) -> str:
    """Trained minus base: the mean over the questions of each one's mean difference over the seeds."""
    changes: dict[str, list[float]] = defaultdict(list)
    for before, after in pairs:
        then, now = brier_scores(before), brier_scores(after)
        for question in then.keys() & now.keys():
            changes[question].append(now[question] - then[question])
    told = mean_headline([sum(held) / len(held) for held in changes.values()], list(changes))
    return f"{told.estimate:+.4f} [{told.lower:+.4f}, {told.upper:+.4f}]"


def brier_scores(log: EvalLog) -> dict[str, float]:
    """Mean Brier score of each question over the epochs, where an answer could be read."""
    held: dict[str, list[float]] = defaultdict(list)
    for sample in read_eval_log_sample_summaries(log.location):
        values = (sample.scores or {})["brier"].value
        assert isinstance(values, dict)
        held[str(sample.id)].append(float(str(values["brier_score"])))
    kept = {question: [value for value in values if not math.isnan(value)] for question, values in held.items()}
    return {question: sum(values) / len(values) for question, values in kept.items() if values}


def main(out: Path, seeds: list[int], n: int, epochs: int, steps: int, display: DisplayType | None) -> None:
    """Run the study, or what is left of it, and print its table."""
    truth = ask(urns(n=n, split="test", paradigms="brier"), "reference/bayesian", out / "logs" / "bayesian", 1, display)
    table = [row("reference/bayesian", "", truth, "")]
    pairs: Pairs = defaultdict(list)
    for seed in seeds:
        table += study(out, seed, n, epochs, steps, display, pairs)
    head = ["model", "rows", *FIGURES, "trained minus base"]
    for line in [head, ["---"] * len(head), *table]:
        print(f"| {' | '.join(line)} |")
    for name, logs in pairs.items():
        print(f"{name}: trained minus base over {len(logs)} seeds {over_seeds(logs)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the study: models, datasets, logs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the tiny models")
    parser.add_argument("--n", type=int, default=1500, help="questions, of which 0.6 are train and 0.2 test")
    parser.add_argument("--epochs", type=int, default=4, help="times that each question is asked")
    parser.add_argument("--steps", type=int, default=STEPS, help="of the tiny models' warm start")
    parser.add_argument("--display", choices=get_args(DisplayType), help="Inspect's display")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(given.out, given.seeds, given.n, given.epochs, given.steps, given.display)
