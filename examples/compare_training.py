"""Compare ways to train a policy at the same budget, over seeds, and write a page of what each one did.

    python examples/compare_training.py trained/compared --seeds 0 1 2 3 4 --page docs/training_compared.md
    python examples/compare_training.py trained/buffers --arms 'dpo, current' 'dpo, rolling(2)' 'dpo, full'
    python examples/compare_training.py trained/lambda --penalties 0 0.5 1     # of an ensemble
    python examples/compare_training.py trained/mine --model MODEL --task truthgym/questions \
        --task-args '{source: mine.jsonl}' --dataset data/pairs --share 0.2 --page mine.md

For each seed: a tiny model, the same one in all seeds, answers questions, its answers become pairs by their Brier
scores, and a reward model is trained on the pairs. Then each arm trains the tiny model on other questions of the train
split, with the reward model as its only reward: in as many gradient steps, from as many sampled replies, as many of
which are trained on. The Brier score and the reward model compare all of them on the same held-out questions.

Complete steps are skipped, so the same command resumes an interrupted study. `--size smollm2` runs the same arms on
SmolLM2 with fewer questions, `--model` on your own models (several: sizes compared), `--task` on a task that `brier`
scores, `--dataset` with a reward model of your own pairs; `--arms` and `--share` make a study smaller. The arms that
end in ", rubric" are paid by a regression on the same answers' scores, and run only if `--arms` names them.
"""

import argparse
import csv
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import stdev
from typing import Any

from inspect_ai import eval
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_samples
from inspect_ai.util import registry_create
from scipy.stats import spearmanr

from truthgym.analysis.tables.markdown import markdown, with_interval
from truthgym.analysis.tables.saving import between
from truthgym.scorers.statistics.direction import numbers
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.paired import mean
from truthgym.solvers.roles import models_named
from truthgym.tasks import urns
from truthgym.training.conversion.options import Selection
from truthgym.training.convert import convert
from truthgym.training.trainers.options import mapping_option

ROUNDS = 3
EPOCHS = 4
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"questions": 64, "held_out": 200, "max_tokens": 12, "steps": 48, "batch": 32, "rate": 5e-4},
    "smollm2": {"questions": 6, "held_out": 72, "max_tokens": 64, "steps": 18, "batch": 8, "rate": 1e-4},
}
"""Training questions of a round, held-out ones, gradient steps of all rounds, replies in each step, and the
learning rate: those of billions of parameters would change nothing in half a million."""
OWN = SIZES["smollm2"] | {"max_tokens": 512}
"""The same for a model of your own, whatever its name."""
PASSES = 2
"""How often a sampled reply is trained on, on average: steps times batch, divided by the answers of all rounds."""
ARMS: dict[str, dict[str, Any]] = {
    "sft": {"method": "sft", "rounds": 1},
    "dpo": {"method": "dpo", "rounds": 1},
    "dpo, current": {"method": "dpo"},
    "dpo, rolling(2)": {"method": "dpo", "buffer": "rolling(2)"},
    "dpo, full": {"method": "dpo", "buffer": "full"},
    "grpo, groups of 4": {"method": "grpo", "group": 4},
    "grpo, groups of 8": {"method": "grpo", "group": 8},
    "rloo, groups of 4": {"method": "rloo", "group": 4},
    "dpo, LoRA r = 8": {"method": "dpo", "rounds": 1, "lora": 8},
    "dpo, LoRA r = 16": {"method": "dpo", "rounds": 1, "lora": 16},
    "dpo, rubric": {"method": "dpo", "rounds": 1, "rubric": True},
    "grpo, groups of 4, rubric": {"method": "grpo", "group": 4, "rubric": True},
}
"""sft trains on the reply to each question that the reward model likes best; dpo on one pair of a question; the others
on all rollouts. Those with one round ask all questions at once. Those with a rubric differ from the arm of the same
name without it in the reward model only."""
RUBRIC, PENALTY = ", rubric", ", penalty "
MEMBERS = 3
"""Reward models of the ensemble in arms with a penalty."""
LORA_RATE = 10
"""Factor of the learning rate with LoRA, as is usual: at one rate for all, an adapter would hardly move."""
BETA = 0.04
"""Weight of the KL term in grpo and rloo; that of dpo is TRL's 0.1."""
CPU = {"use_cpu": True, "save_strategy": "no", "disable_tqdm": True, "gradient_checkpointing": False}
REWARD, SPREAD, GOLD = "reward_model/reward", "reward_model/spread", "brier/brier_score"
CRITERIA = ("brier/spherical_score",)
"""What the rubric's regression learns. It orders the answers to a question as the Brier score, which made the pairs."""
BASE, START = "the start", "0-held-out"
"""The model that all arms start from, and the folder of a loop with its answers."""
WORDS = Path(__file__).parents[1] / "docs" / "training_compared.md"
"""The page whose words a new one takes."""
Row = Mapping[str, str]
"""An arm's figures by name, as in the .csv file."""


def arm_of(name: str) -> dict[str, Any]:
    """The arm of a name, which may end in the penalty of an ensemble of reward models."""
    arm, found, penalty = name.partition(PENALTY)
    return ARMS[arm] | ({"penalty": float(penalty)} if found else {})


def kind(name: str) -> str:
    """Which reward models pay an arm: "pairs", "rubric" or "ensemble"."""
    arm = arm_of(name)
    return "rubric" if arm.get("rubric") else "ensemble" if "penalty" in arm else "pairs"


@dataclass(frozen=True)
class Study:
    """What all arms have in common."""

    share: float = 1.0
    """Of the questions and steps."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Models of your own by name, in place of `SIZES`."""
    task: str = "truthgym/urns"
    task_args: Mapping[str, Any] = field(default_factory=dict)
    dataset: str = ""
    """Pairs for the reward model, in place of the start's answers."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """`max_tokens` and `rate` in place of a size's own."""

    def numbers(self, size: str) -> dict[str, Any]:
        """The numbers of a size."""
        usual = OWN if size in self.models else SIZES[size]
        scaled = ("questions", "held_out", "steps")
        return {name: max(1, round(number * self.share)) if name in scaled else number
                for name, number in usual.items()} | dict(self.given)  # fmt: skip


def prepare(size: str, seed: int, folder: Path, study: Study, paid: str = "pairs") -> tuple[str, list[str]]:
    """Make the model that all arms start from, and the reward models. Returns their folders.

    A regression on the scores of the answers ("rubric") is trained on the same answers as a model of pairs, in as many
    steps, from as many replies in each. `folder` is of this size and seed.
    """
    from truthgym.training.tiny import tiny
    from truthgym.training.train import reward

    base = folder.parent / size
    if size not in study.models and not base.is_dir():
        tiny(base) if size == "tiny" else make_smollm2(base)
    model, numbers, rubric = study.models.get(size, str(base)), study.numbers(size), paid == "rubric"
    asked, rows = folder / "reward-logs", folder / ("reward-rows" if rubric else "reward-pairs")
    if study.dataset and not rubric:
        rows = Path(study.dataset)
    if not rows.is_dir() and not asked.is_dir():
        temporary = asked.with_name("reward-logs-unfinished")
        shutil.rmtree(temporary, ignore_errors=True)
        # Other questions than those of the arms, whose seeds are 1000 * seed + 0, 1, 2.
        drawn = {"n": 2 * numbers["questions"], "seed": 1000 * seed + 500, "split": "train", "paradigms": "brier"}
        (log,) = eval(
            registry_create("task", study.task, **study.task_args, **drawn),
            model=f"hf/{model}",
            model_args={"device": "cpu"},
            epochs=EPOCHS,
            max_tokens=numbers["max_tokens"],
            max_connections=64,
            max_samples=64,
            seed=seed,
            log_dir=str(temporary),
            log_realtime=False,
            display="none",
        )
        if log.status != "success":
            raise SystemExit(f"{log.location}: {log.error.message if log.error else log.status}")
        temporary.rename(asked)
    if not rows.is_dir():
        selection = Selection(everything=True) if rubric else Selection(score=GOLD)
        convert([asked], "sft" if rubric else "preference", rows, selection)
    options = {
        "model_name_or_path": model,
        "dataset_name": str(rows),
        "output_dir": str(folder / "reward"),
        "learning_rate": numbers["rate"],
        "per_device_train_batch_size": numbers["batch"] // (1 if rubric else 2),  # a pair is two replies
        "max_steps": 2 * numbers["steps"],
        **({"criteria": list(CRITERIA)} if rubric else {}),
        **({"bootstrap": True} if paid == "ensemble" else {}),
        **CPU,
    }
    members = MEMBERS if paid == "ensemble" else 1
    return model, [str(reward(options | {"seed": seed * members + member})) for member in range(members)]


def make_smollm2(base: Path) -> None:
    """SmolLM2 after a few steps on answers of a simulated agent: by itself it hardly answers in the form asked."""
    from truthgym.training.smollm2 import smollm2
    from truthgym.training.train import sft

    raw, logs, rows = (base.with_name(f"{base.name}-{name}") for name in ("raw", "logs", "rows"))
    if not raw.is_dir():
        smollm2(raw)
    if not rows.is_dir():
        task = urns(n=64, seed=900, split="train", paradigms="brier")
        eval(task, model="reference/bayesian", model_args={"noise": 0.2}, log_dir=str(logs), display="none")
        convert([logs], "sft", rows, Selection(everything=True))
    given = {"model_name_or_path": str(raw), "dataset_name": str(rows), "output_dir": str(base.parent / "form"),
             "learning_rate": SIZES["smollm2"]["rate"], "per_device_train_batch_size": 4, "max_steps": 6}  # fmt: skip
    sft(given | CPU).rename(base)


def options(
    name: str, size: str, seed: int, base: str, judges: Sequence[str], out: Path, study: Study
) -> dict[str, Any]:
    """The options of an arm's loop: as many gradient steps, replies sampled and replies trained on in each."""
    arm, numbers = arm_of(name), study.numbers(size)
    by_rollouts = arm["method"] in ("grpo", "rloo")
    rounds = 1 if by_rollouts else arm.get("rounds", ROUNDS)
    steps, batch = max(1, round(numbers["steps"] / rounds)), numbers["batch"]
    train: dict[str, Any] = {"learning_rate": numbers["rate"], "max_steps": steps, **CPU}
    train["per_device_train_batch_size"] = batch // (2 if arm["method"] == "dpo" else 1)  # a pair is two replies
    if by_rollouts:
        train |= {"gradient_accumulation_steps": 1, "num_generations": arm["group"], "num_iterations": PASSES,
                  "beta": BETA, "reward": ["reward_model"], "validation_steps": 0}  # fmt: skip
    if rank := arm.get("lora"):
        train |= {"use_peft": True, "lora_r": rank, "lora_alpha": 2 * rank}
        train["learning_rate"] *= LORA_RATE
    convert: dict[str, Any] = {} if by_rollouts else {"score": REWARD}
    if arm["method"] == "sft":
        convert |= {"best_per_question": True}
    paying = {"folder": list(judges)} | ({"penalty": arm["penalty"]} if "penalty" in arm else {})
    return {
        "model_name_or_path": base,
        "task": [study.task],
        "task_args": {**study.task_args, "paradigms": {"brier": {}, "reward_model": paying}, "seed": 1000 * seed},
        "train_args": {"n": numbers["questions"] * ROUNDS // rounds},
        "held_out_args": {"n": numbers["held_out"]},
        "method": arm["method"],
        "rounds": rounds,
        "fresh": not by_rollouts and rounds > 1,
        "buffer": arm.get("buffer", "current"),
        "epochs": 1 if by_rollouts else EPOCHS,
        "held_out_epochs": 1,
        "max_tokens": numbers["max_tokens"],
        "max_connections": 64,
        "model_args": {"device": "cpu"},
        "seed": seed,
        "convert": convert,
        "train": train,
        "out": str(out),
    }


def run(name: str, size: str, seed: int, folder: Path, study: Study) -> None:
    """Run one arm of one seed."""
    from truthgym.training.closed_loop.options import open_folder, parse_config
    from truthgym.training.loop import loop

    base, judges = prepare(size, seed, folder, study, kind(name))
    out = place(folder, name)
    given = options(name, size, seed, base, judges, out, study)
    open_folder(parse_config(given))
    for other in {file.parent for file in folder.glob("*/report.json")} - {out}:  # what the start answered there
        mine, its = (json.loads((one / "loop.json").read_text(encoding="utf-8")) for one in (out, other))
        if mine["task_args"] != its["task_args"]:  # another reward model
            continue
        same = all(mine[key] == its[key] for key in ("train_args", "epochs", "fresh"))
        for stage in (START, *(["1a-asked"] if same else [])):
            if (other / stage).is_dir() and not (out / stage).exists():
                shutil.copytree(other / stage, out / stage)
    loop(given)


def place(folder: Path, name: str) -> Path:
    return folder / "".join(letter if letter.isalnum() else "-" for letter in name)


def figures(folder: Path, size: str, seed: int, names: Sequence[str]) -> list[Row]:
    """The figures of all arms of a seed, from their logs."""
    from truthgym.training.closed_loop.measures import KL, PARSE_RATE, REPLY_NLL, TaskMetrics, measure_log

    def last(name: str, start: bool = False) -> tuple[TaskMetrics, float, str]:
        """An arm's figures, its mean reward before a penalty, and its log."""
        out = place(folder, name)
        held_out = out / START if start else sorted(out.glob("*d-held-out"))[-1]
        (log,) = (read_eval_log(info, header_only=True) for info in list_eval_logs(str(held_out)))
        metrics = measure_log(log, held_out)
        spread = mean(spreads(log.location))
        penalty = 0.0 if math.isnan(spread) else arm_of(name).get("penalty", 0.0) * spread
        return metrics, metrics.mean(REWARD).estimate + penalty, log.location

    found = {BASE: last(names[0], start=True)} | {name: last(name) for name in names}
    rows: list[Row] = []
    for name, (metrics, reward, log) in found.items():
        paid_otherwise = name != BASE and kind(name) == "rubric"
        before = (last(name, start=True) if paid_otherwise else found[BASE])[1]
        has_start = (place(folder, name) / START).is_dir()
        spread, rank = judged(last(name, start=True)[2]) if has_start else (math.nan, math.nan)
        shown = {
            "reward": (math.nan if paid_otherwise else reward, 4),
            "gain": (reward - before, 4),
            "spread": (mean(spreads(log)), 4),
            "gold": (mean([mean(scores) for scores in metrics.unread_as_wrong().values()]), 4),
            "gold_read": (metrics.mean(GOLD).estimate, 4),
            "distance": (mean(distances(log)), 3),
            "kl": (metrics.mean(KL).estimate, 3),
            "entropy": (metrics.mean(REPLY_NLL).estimate, 3),
            "form_rate": (metrics.mean(PARSE_RATE).estimate, 3),
            "judge_sd": (spread, 4),
            "judge_rank": (rank, 3),
        }
        cells = {key: "" if math.isnan(number) else f"{number:.{places}f}" for key, (number, places) in shown.items()}
        rows.append({"size": size, "seed": str(seed), "arm": name, **cells, "log": log})
    return rows


def distances(log: str) -> list[float]:
    """How far beliefs are from the exact posteriors, 0 to 1 (1 if unread), where the questions have them."""
    found = []
    for sample in read_eval_log_samples(log, all_samples_required=False, exclude_fields={"store", "events"}):
        if posterior := (sample.metadata or {}).get("posterior"):
            belief = ((sample.scores or {})["brier"].metadata or {}).get("belief")
            found.append(1.0 if belief is None or belief != belief else abs(float(belief) - posterior[-1]))
    return found


def scores_of(log: str) -> list[dict[str, float]]:
    """Of each sample the numbers of its scores, as in "brier/brier_score"."""
    samples = read_eval_log_samples(log, all_samples_required=False, exclude_fields={"store", "events"})
    return [{f"{name}/{key}": value for name, score in (sample.scores or {}).items()
             for key, value in numbers(name, score.value).items()} for sample in samples]  # fmt: skip


def spreads(log: str) -> list[float]:
    """How far the members of an ensemble differ on each answer; NaN of a single reward model."""
    return [scores.get(SPREAD, math.nan) for scores in scores_of(log)]


def judged(log: str) -> tuple[float, float]:
    """How a reward model pays for a log's answers.

    Returns:
        The standard deviation of its rewards, and their Spearman rank correlation with the Brier score, from -1 to 1,
        with its sign turned so that 1 is best; NaN if all are alike. The Brier score of an unread answer is 1.
    """
    paid = [scores for scores in scores_of(log) if not math.isnan(scores.get(REWARD, math.nan))]
    rewards = [scores[REWARD] for scores in paid]
    golds = [1.0 if math.isnan(scores[GOLD]) else scores[GOLD] for scores in paid]
    if len(set(rewards)) < 2 or len(set(golds)) < 2:
        return math.nan, math.nan
    return stdev(rewards), -float(spearmanr(rewards, golds).statistic)


HEADER = {"gain": "gain in its own reward", "kl": "KL", "form_rate": "form rate"}
"""Figures of an arm: the first where reward models are compared, with `TWINS` for the others."""
PAIRED = {"reward": "reward", "spread": "spread", "gold": "Brier", "distance": "distance"}  # minus the start, by seed
TWINS = ("gold", "distance", "kl", "form_rate")  # those of an arm paid by the rubric, with its twin
TWINS_PENALTY = ("reward", "spread", "gold", "kl", "form_rate")  # those of an arm with a penalty
JUDGES = {"judge_sd": "SD of rewards", "judge_rank": "rank correlation with the Brier score"}
"""Of the reward models, shown where there are two."""
SHARES = ("form_rate",)  # from 0 to 1, also their intervals


def tables(rows: Sequence[Row]) -> str:
    """For each size the means over seeds and paired differences, with their intervals."""
    sections = []
    for size in dict.fromkeys(row["size"] for row in rows):
        arms: dict[str, list[Row]] = {}
        for row in rows:
            if row["size"] == size:
                arms.setdefault(row["arm"], []).append(row)
        by_own = any(row.get("gain") and RUBRIC in row["arm"] for row in rows)
        shown = ["gain"] if by_own else ["kl", "form_rate"]
        measured = [key for key in PAIRED if key != "spread" or any(row.get(key) for row in rows)]
        pairs = [(BASE, key) for key in (["gold"] if by_own else measured)]
        pairs += [("sft", "reward")] if "sft" in arms and not by_own else []
        table = [
            [arm, str(len(some)), *(_mean(some, key) for key in shown),
             *("" if arm == other else _mean(some, key, arms[other]) for other, key in pairs)]
            for arm, some in arms.items()
        ]  # fmt: skip
        heads = [*(HEADER[key] for key in shown), *(f"{PAIRED[key]} minus {other}" for other, key in pairs)]
        section = f"## {size}\n\n{markdown(['arm', 'seeds', *heads], table)}"
        least = {arm.partition(PENALTY)[0]: arm for arm in reversed(arms) if PENALTY in arm}
        others = {arm: least.get(arm.partition(PENALTY)[0], arm.removesuffix(RUBRIC)) for arm in arms}
        keys = TWINS_PENALTY if least else TWINS
        twins = [
            [arm, *(_mean(some, key, arms[others[arm]]) for key in keys)]
            for arm, some in arms.items()
            if arm != others[arm] and others[arm] in arms
        ]
        if twins:
            first = next(iter(least.values()), "").rpartition(" ")[2]
            heads = [
                "arm minus the same arm " + (f"with penalty {first}" if least else "paid by pairs"),
                *((HEADER | PAIRED)[key] for key in keys),
            ]
            section += f"\n{markdown(heads, twins)}"
        if twins and not least:
            paid = {arm.endswith(RUBRIC): some for arm, some in arms.items() if arm != BASE}
            judges = [
                [name, *(_mean(paid[by_rubric], key) for key in JUDGES)]
                for name, by_rubric in (("of pairs", False), ("of the rubric", True))
            ]
            section += f"\n{markdown(['reward model', *JUDGES.values()], judges)}"
        sections.append(section)
    return "\n".join(sections)


def _mean(rows: Sequence[Row], key: str, others: Sequence[Row] = ()) -> str:
    """The mean over seeds of a figure, minus that of another arm with the same seed."""
    before = {row["seed"]: float(row[key] or "nan") for row in others}
    values = [float(row[key] or "nan") - (before.get(row["seed"], math.nan) if others else 0) for row in rows]
    found = mean_estimate(values)
    low, high = (0.0, 1.0) if key in SHARES and not others else (-math.inf, math.inf)
    return with_interval(found.estimate, max(found.lower, low), min(found.upper, high))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for models and loops")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--size", choices=SIZES, nargs="+", default=["tiny"], help="both compare two sizes")
    parser.add_argument(
        "--model", nargs="+", default=[], help="folders or names of models, or a .yaml file, in place of --size"
    )
    parser.add_argument("--task", default=Study.task, help="a task that brier scores")
    parser.add_argument("--task-args", default="", help="its arguments, as YAML: '{likelihood_ratio: 3.0}'")
    parser.add_argument("--dataset", default="", help="folder of preference pairs for the reward model")
    parser.add_argument("--max-tokens", type=int, help="of an answer [default: 12 of tiny, 64 of smollm2, 512]")
    parser.add_argument("--learning-rate", type=float, help="[default: 5e-4 of tiny, else 1e-4]")
    parser.add_argument("--arms", choices=ARMS, nargs="+", metavar="ARM", help=", ".join(ARMS))
    parser.add_argument("--penalties", type=float, nargs="+", help="each arm with each penalty of an ensemble")
    parser.add_argument("--share", type=float, default=1.0, help="share of the questions and steps")
    parser.add_argument("--page", type=Path, default=Path("docs/training_compared.md"))
    parser.add_argument("--table", type=Path, help="the figures of each seed; by default a .csv file beside the page")
    parser.add_argument("--only-page", action="store_true", help="write the page of arms that have run")
    args = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a tiny model is slower with more threads
    named = models_named(args.model)
    models = {Path(model).name: model for model in named}
    if len(models) < len(named):
        parser.error(f"--model {' '.join(named)}: two folders have the same name; rename one")
    if args.dataset and not Path(args.dataset).is_dir():
        parser.error(f"--dataset {args.dataset}: no such folder; make it with truthgym convert --to preference")
    given = {"max_tokens": args.max_tokens, "rate": args.learning_rate}
    given = {name: value for name, value in given.items() if value is not None}
    study = Study(args.share, models, args.task, mapping_option("--task-args", args.task_args), args.dataset, given)
    arms = args.arms or (["grpo, groups of 4"] if args.penalties else [name for name in ARMS if RUBRIC not in name])
    if args.penalties:
        arms = [f"{name}{PENALTY}{penalty:g}" for name in arms for penalty in args.penalties]
    rows: list[Row] = []
    for size in models or args.size:
        for seed in args.seeds:
            folder = args.folder / f"{size}-{seed}"
            for name in arms if not args.only_page else ():
                run(name, size, seed, folder, study)
            rows += figures(folder, size, seed, arms)
    table = args.table or args.page.with_suffix(".csv")
    args.page.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    new = not args.page.is_file()
    page = (WORDS if new else args.page).read_text(encoding="utf-8")
    link = f"[{table.name}]({Path(os.path.relpath(table, args.page.parent)).as_posix()})"
    for name, text in {"figures": link, "arms": tables(rows), **({"held": ""} if new else {})}.items():
        page = between(page, name, text, str(args.page))
    args.page.write_text(page, encoding="utf-8")
    print(tables(rows))


if __name__ == "__main__":
    main()
