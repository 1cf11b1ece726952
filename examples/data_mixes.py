"""How should sources of training data be mixed? A real run for each ratio, and the ratios that no other one beats.

    python examples/data_mixes.py trained/mixes --seeds 0 1 2
    python examples/data_mixes.py trained/mine --model MODEL --task truthgym/questions \
        --task-args '{source: mine.jsonl}' --dataset data/people data/synthetic --ratios 1:0 1:1 0:1 \
        --learning-rate 1e-5 --max-tokens 512

A simulated teacher answers the questions of urns' train split in three ways: `direct`, with a noise of 0.2; by
`critique_revise` (a draft, its critique and a revision: synthetic data, of which only the revision is learned), with
0.05; and as a `react` agent, with 0.2. The last paragraph of each answer is learned. For each ratio of these sources a
tiny model is trained on the same number of rows, and answers the test split directly and as an agent. The table has the
mean Brier score of both over seeds, with its interval, and marks the Pareto front.

`--model` trains your own model, `--task` asks another task that `brier` scores, and each folder of `--dataset`, as
`truthgym convert --to sft` writes it, is a source in place of the teacher's.

Complete steps are skipped, so the same command resumes an interrupted study.
"""

import argparse
import json
import math
import os
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

from inspect_ai import Task, eval, task_with
from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log, read_eval_log_sample_summaries
from inspect_ai.model import get_model
from inspect_ai.solver import Solver
from inspect_ai.util import DisplayType, registry_create

from truthgym.analysis.tables.markdown import with_interval
from truthgym.evallog.errors import bad_input
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.solvers.critique_revise import critique_revise
from truthgym.solvers.direct import direct
from truthgym.solvers.run_agent import run_agent
from truthgym.training.conversion.options import Selection
from truthgym.training.conversion.writer import DatasetFolder
from truthgym.training.convert import convert
from truthgym.training.files import markdown_table
from truthgym.training.tiny import STEPS, tiny
from truthgym.training.train import sft
from truthgym.training.trainers.options import mapping_option

SOURCES: dict[str, Callable[[], Solver]] = {"direct": direct, "revised": critique_revise, "react": run_agent}
ASKED = ("direct", "react")
"""How trained models are asked: the two axes."""
RATIOS = ("1:0:0", "0:1:0", "0:0:1", "1:1:0", "1:0:1", "0:1:1", "1:1:1")
"""Parts of direct, revised and react, or of the three folders of `--dataset`."""
NOISE = {"direct": 0.2, "revised": 0.05, "react": 0.2}
"""Of the teacher's answers, planted: the sources differ in quality as well as in form."""
MESSAGE_LIMIT = 8
"""Of an agent."""
TRAINING: dict[str, Any] = {
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
OWN = {"max_tokens": 512, "learning_rate": 1e-4}
"""The same options of a model of your own, whatever its name."""


def evaluate(
    task: Task, model: str, log_dir: Path, epochs: int, display: DisplayType | None, max_tokens: int = MAX_TOKENS
) -> EvalLog:
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
        max_tokens=max_tokens,
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


def asked(given: argparse.Namespace, n: int, split: str, mode: str) -> Task:
    """The task on n questions in a mode."""
    solver, limit = SOURCES[mode](), MESSAGE_LIMIT if mode == "react" else None
    task = registry_create("task", given.task, **given.task_args, n=n, split=split, paradigms="brier")
    return task_with(task, solver=solver, message_limit=limit)


def taught(given: argparse.Namespace, mode: str, seed: int) -> list[str]:
    """The rows of a source: the teacher's trajectories in a mode, of whose answers only the last paragraph is kept."""
    data = given.out / "data" / f"teacher-{seed}-{mode}"
    if not data.is_dir():
        teacher = get_model("reference/bayesian", noise=NOISE[mode], seed=seed)
        folder, task = str(given.out / "logs" / f"teacher-{seed}" / mode), asked(given, given.n, "train", mode)
        (log,) = eval(
            task, model=teacher, log_dir=folder, epochs=given.epochs, log_realtime=False, display=given.display
        )
        if log.status != "success":
            raise SystemExit(f"{log.location}: {log.error.message if log.error else log.status}")
        convert([log.location.removeprefix("file://")], "sft", data, Selection(score="brier_score", top=1.0))
    rows = read_rows(data)
    for row in rows:
        row["completion"][0]["content"] = row["completion"][0]["content"].rpartition("\n\n")[2]
    return [json.dumps(row) for row in rows]


def read_rows(data: Path) -> list[dict[str, Any]]:
    """Prompts and completions of a dataset.

    Raises:
        BadInput: The folder has no such rows.
    """
    file = data / "train.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []
    if not rows or not {"prompt", "completion"} <= rows[0].keys():
        raise bad_input(f"{data} has no rows of prompt and completion; make them with truthgym convert --to sft")
    return [{name: row[name] for name in ("prompt", "completion")} for row in rows]


def one_seed(given: argparse.Namespace, seed: int) -> dict[str, list[float]]:
    """The mean Brier scores of the base and of the model of each ratio, unread answers counted as wrong (1)."""
    base = given.model or str(given.out / f"tiny-{seed}")
    if not given.model and not Path(base).is_dir():
        tiny(Path(base), seed=seed, steps=given.steps)
    own = {str(folder): [json.dumps(row) for row in read_rows(folder)] for folder in given.dataset}
    sources = own or {mode: taught(given, mode, seed) for mode in SOURCES}
    models = {"base": base}
    for name in given.ratios:
        data = given.out / "data" / f"{Path(base).name}-{seed}-mix-{name.replace(':', '-')}"
        with DatasetFolder(data, overwrite=True) as folder:
            for line in mixed(sources, [int(part) for part in name.split(":")], given.rows, seed):
                folder.write("train", json.loads(line))
            folder.finish({"kind": "sft", "rows": dict(folder.counts)}, folder.out.name, f"A mix of sources, {name}.")
        options = {"model_name_or_path": base, "dataset_name": str(data), "output_dir": str(given.out), "seed": seed}
        rates = {"learning_rate": given.learning_rate, "max_steps": given.max_steps}
        models[name] = str(sft(options | TRAINING | rates))
    found: dict[str, list[float]] = defaultdict(list)
    for (name, model), mode in product(models.items(), ASKED):
        task, place = asked(given, held_out_questions(given.n), "test", mode), Path(model).name
        log_dir = given.out / "logs" / place / f"test-{mode}"
        scores = brier_scores(evaluate(task, f"hf/{model}", log_dir, 1, given.display, given.max_tokens), 1.0)
        found[name].append(sum(scores.values()) / len(scores))
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
        return with_interval(mean.estimate, mean.lower, mean.upper, 4)

    means = {name: [mean_estimate([one[name][k] for one in each]) for k in range(len(ASKED))] for name in each[0]}
    points = {name: [mean.estimate for mean in of] for name, of in means.items() if name != "base"}
    front = pareto_front(points)
    return [[name, *map(shown, of), "yes" if name in front else ""] for name, of in means.items()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for models, datasets and logs")
    parser.add_argument("--model", help="folder or name of the model to train [default: a tiny one of each seed]")
    parser.add_argument("--task", default="truthgym/urns", help="a task that brier scores")
    parser.add_argument("--task-args", default="", help="its arguments, as YAML: '{likelihood_ratio: 3.0}'")
    parser.add_argument("--dataset", type=Path, nargs="+", default=[], help="folders of rows, each a source")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of draws and training")
    parser.add_argument("--ratios", nargs="+", default=RATIOS, metavar="D:R:A", help="parts of each source")
    parser.add_argument("--n", type=int, default=300, help="train questions; the test split has a third as many")
    parser.add_argument("--epochs", type=int, default=2, help="answers to each train question, in each mode")
    parser.add_argument("--rows", type=int, default=300, help="rows of each mix")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of the tiny models' warm start")
    parser.add_argument("--max-steps", type=int, default=100, help="steps of training on each mix")
    parser.add_argument("--learning-rate", type=float, help="[default: 5e-4 of tiny, else 1e-4]")
    parser.add_argument("--max-tokens", type=int, help="of an answer [default: 12 of tiny, else 512]")
    parser.add_argument("--display", choices=get_args(DisplayType), help="Inspect's display")
    given = parser.parse_args()
    tiny_model = {"max_tokens": MAX_TOKENS, "learning_rate": TRAINING["learning_rate"]}
    for name, usual in (OWN if given.model else tiny_model).items():
        if getattr(given, name) is None:
            setattr(given, name, usual)
    given.task_args = mapping_option("--task-args", given.task_args)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    each = [one_seed(given, seed) for seed in given.seeds]
    names = " : ".join(folder.name for folder in given.dataset) or " : ".join(SOURCES)
    print(markdown_table([names, *(f"Brier, asked as {mode}" for mode in ASKED), "Pareto front"], table(each)))
