"""How should sources of training data be mixed? A real run for each ratio, and the ratios that no other one beats.

    python examples/data_mixes.py trained/mixes --seeds 0 1 2

A simulated teacher answers the questions of urns' train split in three ways: `direct`, with a noise of 0.2; by
`critique_revise` (a draft, its critique and a revision: synthetic data, of which only the revision is learned), with
0.05; and as a `react` agent, with 0.2. The last paragraph of each answer is learned. For each ratio of these sources a
tiny model is trained on the same number of rows, and answers the test split directly and as an agent. The table has the
mean Brier score of both over seeds, with its interval, and marks the Pareto front.

Complete steps are skipped, so the same command resumes an interrupted study.
"""

import argparse
import csv
import json
import math
import os
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from inspect_ai import Task, eval, task_with
from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log, read_eval_log_sample_summaries
from inspect_ai.model import get_model
from inspect_ai.solver import Solver
from inspect_ai.util import DisplayType

from truthgym.evallog.errors import bad_input
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.solvers.critique_revise import critique_revise
from truthgym.solvers.direct import direct
from truthgym.solvers.run_agent import run_agent
from truthgym.tasks import urns
from truthgym.training.conversion.options import Selection
from truthgym.training.conversion.writer import DatasetFolder
from truthgym.training.convert import convert
from truthgym.training.files import markdown_table
from truthgym.training.tiny import STEPS, tiny
from truthgym.training.train import sft

SOURCES: dict[str, Callable[[], Solver]] = {"direct": direct, "revised": critique_revise, "react": run_agent}
ASKED = ("direct", "react")
"""How trained models are asked: the two axes."""
RATIOS = ("1:0:0", "0:1:0", "0:0:1", "1:1:0", "1:0:1", "0:1:1", "1:1:1")
"""Parts of direct, revised and react."""
NOISE = {"direct": 0.2, "revised": 0.05, "react": 0.2}
"""Of the teacher's answers, planted: the sources differ in quality as well as in form."""
MESSAGE_LIMIT = 8
"""Of an agent."""
TRAINING = {
    "learning_rate": 5e-4,  # suits half a million parameters; the rates of large models would change nothing
    "per_device_train_batch_size": 32,
    "max_steps": 200,  # the same for each selection, whatever its number of rows
    "logging_steps": 20,
    "save_strategy": "no",
    "disable_tqdm": True,
    "use_cpu": True,
}
MAX_TOKENS = 12
"""Of an answer. One in the requested format has six."""


def evaluate(task: Task, model: str, log_dir: Path, epochs: int, display: DisplayType | None) -> EvalLog:
    """Evaluate a model, or read the header of its log if there is one."""
    for file in list_eval_logs(str(log_dir)) if log_dir.is_dir() else []:
        log = read_eval_log(file, header_only=True)
        if log.status == "success":
            return log
    (log,) = eval(
        task,
        model=model,
        model_args={"device": "cpu"} if model.startswith("hf/") else {},
        log_dir=str(log_dir),
        epochs=epochs,
        max_tokens=MAX_TOKENS,
        max_connections=64,  # the batch size
        max_samples=64,
        seed=0,
        log_realtime=False,
        display=display,
    )
    if log.status != "success":
        raise SystemExit(f"{log.location}: {log.error.message if log.error else log.status}")
    return log


def mixed(sources: Mapping[str, Sequence[str]], ratio: Sequence[int], rows: int, seed: int) -> list[str]:
    """Draw rows of each source in a ratio, in random order.

    Args:
        sources: The rows of each source.
        ratio: The part of each source, 0 or more.
        rows: How many in all.
        seed: Seed of the draw. A source with too few rows repeats them.

    Raises:
        BadInput: The parts are not one for each source, or none is above 0; or a source that has a part has no row.
    """
    if len(ratio) != len(sources) or min(ratio) < 0 or not sum(ratio):
        raise bad_input(f"The ratio {ratio} cannot be used; give {len(sources)} parts, one of them above 0")
    rng = random.Random(seed)
    drawn: list[str] = []
    for place, (name, lines) in enumerate(sources.items()):
        number = round(rows * sum(ratio[: place + 1]) / sum(ratio)) - len(drawn)
        if number and not lines:
            raise bad_input(f"The source {name} has no row, and the ratio {ratio} needs {number}; leave it out")
        whole, rest = divmod(number, max(1, len(lines)))
        drawn += [*lines] * whole + rng.sample([*lines], rest)
    rng.shuffle(drawn)
    return drawn


def pareto_front(points: Mapping[str, Sequence[float]]) -> list[str]:
    """The names of the points that no other one beats: none is at least as low on all axes and lower on one.

    >>> pareto_front({"a": (0.1, 0.3), "b": (0.2, 0.2), "c": (0.2, 0.3)})
    ['a', 'b']
    """
    return [
        name
        for name, point in points.items()
        if not any(
            all(x <= y for x, y in zip(other, point, strict=True)) and tuple(other) != tuple(point)
            for other in points.values()
        )
    ]


def asked(n: int, split: str, mode: str) -> Task:
    """The task on n questions in a mode."""
    solver, limit = SOURCES[mode](), MESSAGE_LIMIT if mode == "react" else None
    return task_with(urns(n=n, split=split, paradigms="brier"), solver=solver, message_limit=limit)


def taught(out: Path, mode: str, seed: int, n: int, epochs: int, display: DisplayType | None) -> list[str]:
    """The rows of a source: the teacher's trajectories in a mode, of whose answers only the last paragraph is kept."""
    data = out / "data" / f"teacher-{seed}-{mode}"
    if not data.is_dir():
        teacher = get_model("reference/bayesian", noise=NOISE[mode], seed=seed)
        folder = str(out / "logs" / f"teacher-{seed}" / mode)
        task = asked(n, "train", mode)
        (log,) = eval(task, model=teacher, log_dir=folder, epochs=epochs, log_realtime=False, display=display)
        if log.status != "success":
            raise SystemExit(f"{log.location}: {log.error.message if log.error else log.status}")
        convert([log.location.removeprefix("file://")], "sft", data, Selection(score="brier_score", top=1.0))
    rows = [json.loads(line) for line in (data / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["completion"][0]["content"] = row["completion"][0]["content"].rpartition("\n\n")[2]
    return [json.dumps({name: row[name] for name in ("prompt", "completion")}) for row in rows]


def one_seed(
    out: Path,
    seed: int,
    ratios: Sequence[str],
    n: int,
    epochs: int,
    rows: int,
    steps: int,
    max_steps: int,
    display: DisplayType | None,
) -> dict[str, list[float]]:
    """The mean Brier scores of the base and of the model of each ratio, unread answers counted as wrong (1)."""
    base = out / f"tiny-{seed}"
    if not base.is_dir():
        tiny(base, seed=seed, steps=steps)
    sources = {mode: taught(out, mode, seed, n, epochs, display) for mode in SOURCES}
    models = {"base": base}
    for name in ratios:
        ratio = [int(part) for part in name.split(":")]
        data = out / "data" / f"{base.name}-mix-{name.replace(':', '-')}"
        with DatasetFolder(data, overwrite=True) as folder:
            for line in mixed(sources, ratio, rows, seed):
                folder.write("train", json.loads(line))
            folder.finish({"kind": "sft", "rows": dict(folder.counts)}, folder.out.name, f"A mix of sources, {name}.")
        options = {"model_name_or_path": str(base), "dataset_name": str(data), "output_dir": str(out), "seed": seed}
        models[name] = sft(options | TRAINING | {"max_steps": max_steps})
    found: dict[str, list[float]] = {}
    for name, model in models.items():
        logs = [
            evaluate(
                asked(held_out_questions(n), "test", mode),
                f"hf/{model}", out / "logs" / model.name / f"test-{mode}", 1, display,
            )
            for mode in ASKED
        ]  # fmt: skip
        scores = [brier_scores(log, 1.0) for log in logs]
        found[name] = [sum(each.values()) / len(each) for each in scores]
    return found


def brier_scores(log: EvalLog, unread: float = math.nan) -> dict[str, float]:
    """Mean Brier score of each question over its epochs."""
    scores: dict[str, list[float]] = defaultdict(list)
    for sample in read_eval_log_sample_summaries(log.location):
        values = (sample.scores or {})["brier"].value
        assert isinstance(values, dict)
        score = float(str(values["brier_score"]))
        score = unread if math.isnan(score) else score
        if not math.isnan(score):
            scores[str(sample.id)].append(score)
    return {question: sum(some) / len(some) for question, some in scores.items()}


def held_out_questions(n: int) -> int:
    """The number of test questions beside n train questions."""
    return round(n * 297 / 907)


def table(each: Sequence[Mapping[str, Sequence[float]]]) -> list[list[str]]:
    """For each ratio the mean over seeds of the Brier score in each mode, and whether no other ratio beats it."""

    def shown(mean: Estimate) -> str:
        return f"{mean.estimate:.4f} [{mean.lower:.4f}, {mean.upper:.4f}]"

    means = {name: [mean_estimate([one[name][k] for one in each]) for k in range(len(ASKED))] for name in each[0]}
    points = {name: [mean.estimate for mean in of] for name, of in means.items() if name != "base"}
    front = pareto_front(points)
    return [[name, *map(shown, of), "yes" if name in front else ""] for name, of in means.items()]


def write(seeds: Sequence[int], each: Sequence[Mapping[str, Sequence[float]]], file: Path) -> None:
    """Write a row for each seed and mix, with its Brier score in each mode."""
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["seed", "mix", *ASKED])
        for seed, found in zip(seeds, each, strict=True):
            writer.writerows([seed, name, *(f"{score:.5f}" for score in scores)] for name, scores in found.items())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for models, datasets and logs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the tiny models")
    parser.add_argument("--ratios", nargs="+", default=RATIOS, metavar="D:R:A", help="parts of each source")
    parser.add_argument("--n", type=int, default=300, help="train questions; the test split has a third as many")
    parser.add_argument("--epochs", type=int, default=2, help="answers to each train question, in each mode")
    parser.add_argument("--rows", type=int, default=300, help="rows of each mix")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of the tiny models' warm start")
    parser.add_argument("--max-steps", type=int, default=100, help="steps of training on each mix")
    parser.add_argument("--display", choices=get_args(DisplayType), help="Inspect's display")
    parser.add_argument("--table", type=Path, help="write the scores of each seed to a .csv")
    args = vars(parser.parse_args())
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    seeds, file = args.pop("seeds"), args.pop("table")
    each = [one_seed(seed=seed, **args) for seed in seeds]
    if file:
        write(seeds, each, file)
    lines = table(each)
    head = ["direct : revised : react", *(f"Brier, asked as {mode}" for mode in ASKED), "Pareto front"]
    print(markdown_table(head, lines))
