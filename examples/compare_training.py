"""Compare ways to train a policy at the same budget, over seeds, and write a page of what each one did.

    python examples/compare_training.py trained/compared --seeds 0 1 2 3 4 --page docs/training_compared.md

For each seed: a tiny model, the same one in all seeds, answers questions, its answers become pairs by their Brier
scores, and a reward model is trained on the pairs. Then each arm trains the tiny model on other questions of the train
split, with the reward model as its only reward: in as many gradient steps, from as many sampled replies, as many of
which are trained on. The Brier score and the reward model compare all of them on the same held-out questions.

Complete steps are skipped, so the same command resumes an interrupted study. `--size smollm2` runs the same arms on
SmolLM2 with fewer questions; `--arms` and `--share` make a study smaller. The arms that end in ", rubric" are paid by a
regression on the same answers' scores, and run only if `--arms` names them.
"""

import argparse
import csv
import json
import math
import multiprocessing
import os
import resource
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

from inspect_ai import eval
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_samples
from scipy.stats import spearmanr

from truthgym.analysis.tables.markdown import markdown, with_interval
from truthgym.analysis.tables.saving import between
from truthgym.datasets.urns import UrnQuestion
from truthgym.scorers.graders.builtin import opens_hollow
from truthgym.scorers.statistics.direction import numbers
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.paired import mean
from truthgym.tasks import urns
from truthgym.training.conversion.options import Selection
from truthgym.training.convert import convert

ROUNDS = 3
EPOCHS = 4
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"questions": 64, "held_out": 200, "max_tokens": 12, "steps": 48, "batch": 32},
    "smollm2": {"questions": 6, "held_out": 72, "max_tokens": 64, "steps": 18, "batch": 8},
}
"""Training questions of a round, held-out ones, gradient steps of all rounds, and replies in each step."""
PASSES = 2
"""How often a sampled reply is trained on, on average: steps times batch, divided by the answers of all rounds."""
RATES = {"tiny": 5e-4, "smollm2": 1e-4}
"""Learning rates. Those of billions of parameters would change nothing in half a million."""
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
RUBRIC = ", rubric"
LORA_RATE = 10
"""Factor of the learning rate with LoRA, as is usual: at one rate for all, an adapter would hardly move."""
BETA = 0.04
"""Weight of the KL term in grpo and rloo; that of dpo is TRL's 0.1."""
REWARD, GOLD = "reward_model/reward", "brier/brier_score"
CRITERIA = ("brier/spherical_score",)
"""What the rubric's regression learns. It orders the answers to a question as the Brier score, which made the pairs."""
BASE, START = "the start", "0-held-out"
"""The model that all arms start from, and the folder of a loop with its answers."""
WORDS = Path(__file__).parents[1] / "docs" / "training_compared.md"
"""The page whose words a new one takes."""
Row = Mapping[str, str]
"""An arm's figures by name, as in the .csv file."""


def prepare(size: str, seed: int, folder: Path, share: float, rubric: bool = False) -> tuple[Path, Path]:
    """Make the model that all arms start from, and the reward model. Returns their folders.

    Args:
        size: One of `SIZES`.
        seed: Draws questions, replies and the order of training.
        folder: Of this size and seed.
        share: Share of the questions and steps.
        rubric: Whether the reward model is a regression on the scores of the answers, instead of a model of pairs. Both
            are trained on the same answers, in as many steps, from as many replies in each.
    """
    from truthgym.training.tiny import tiny
    from truthgym.training.train import reward

    base = folder.parent / size
    if not base.is_dir():
        tiny(base) if size == "tiny" else make_smollm2(base)
    numbers = SIZES[size]
    asked, rows = folder / "reward-logs", folder / ("reward-rows" if rubric else "reward-pairs")
    if not asked.is_dir():
        temporary = asked.with_name("reward-logs-unfinished")
        shutil.rmtree(temporary, ignore_errors=True)
        eval(
            # Other questions than those of the arms, whose seeds are 1000 * seed + 0, 1, 2.
            urns(n=scaled(2 * numbers["questions"], share), seed=1000 * seed + 500, split="train", paradigms="brier"),
            model=f"hf/{base}",
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
        temporary.rename(asked)
    if not rows.is_dir():
        selection = Selection(everything=True) if rubric else Selection(score=GOLD)
        convert([asked], "sft" if rubric else "preference", rows, selection)
    options = {
        "model_name_or_path": str(base),
        "dataset_name": str(rows),
        "output_dir": str(folder / "reward"),
        "learning_rate": RATES[size],
        "per_device_train_batch_size": numbers["batch"] // (1 if rubric else 2),  # a pair is two replies
        "max_steps": scaled(2 * numbers["steps"], share),
        "seed": seed,
        **({"criteria": list(CRITERIA)} if rubric else {}),
        **CPU,
    }
    return base, reward(options)


CPU = {"use_cpu": True, "save_strategy": "no", "disable_tqdm": True, "gradient_checkpointing": False}


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
             "learning_rate": RATES["smollm2"], "per_device_train_batch_size": 4, "max_steps": 6}  # fmt: skip
    sft(given | CPU).rename(base)


def scaled(number: int, share: float) -> int:
    """A share of a number, at least 1."""
    return max(1, round(number * share))


def options(name: str, size: str, seed: int, base: Path, judge: Path, out: Path, share: float) -> dict[str, Any]:
    """The options of an arm's loop: as many gradient steps, replies sampled and replies trained on in each."""
    arm, numbers = ARMS[name], SIZES[size]
    by_rollouts = arm["method"] in ("grpo", "rloo")
    rounds = 1 if by_rollouts else arm.get("rounds", ROUNDS)
    questions = scaled(numbers["questions"], share) * ROUNDS // rounds
    steps, batch = scaled(numbers["steps"], share / rounds), numbers["batch"]
    train: dict[str, Any] = {"learning_rate": RATES[size], "max_steps": steps, **CPU}
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
    return {
        "model_name_or_path": str(base),
        "task": ["truthgym/urns"],
        "task_args": {"paradigms": {"brier": {}, "reward_model": {"folder": str(judge)}}, "seed": 1000 * seed},
        "train_args": {"n": questions},
        "held_out_args": {"n": scaled(numbers["held_out"], share)},
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


def run(name: str, size: str, seed: int, folder: Path, share: float) -> None:
    """Run one arm of one seed in this process, and write its peak memory. `prepare` must have run before."""
    from truthgym.training.closed_loop.options import open_folder, parse_config
    from truthgym.training.loop import loop

    base, judge = prepare(size, seed, folder, share, ARMS[name].get("rubric", False))
    out = place(folder, name)
    given = options(name, size, seed, base, judge, out, share)
    open_folder(parse_config(given))
    for peak in folder.glob("*-peak.json"):  # what the start answered in a finished arm
        other = peak.with_name(peak.name.removesuffix("-peak.json"))
        mine, its = (json.loads((one / "loop.json").read_text(encoding="utf-8")) for one in (out, other))
        if mine["task_args"] != its["task_args"]:  # another reward model
            continue
        same = all(mine[key] == its[key] for key in ("train_args", "epochs", "fresh"))
        for name in (START, *(["1a-asked"] if same else [])):
            if not (out / name).exists():
                shutil.copytree(other / name, out / name)
    loop(given)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    kept = out.parent / f"{out.name}-peak.json"
    earlier = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else 0  # a resumed arm has done less
    kept.write_text(json.dumps(max(used, earlier)), encoding="utf-8")


def alone(function: Any, *given: object) -> None:  # noqa: ANN401
    """Call a function in a process of its own, whose peak memory is its own. What all import is loaded once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["inspect_ai", "trl", "peft", "truthgym.training.loop", "truthgym.tasks"])
    process = context.Process(target=function, args=given)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{function.__name__}{given}: ended with {process.exitcode}; the same command resumes it")


def place(folder: Path, name: str) -> Path:
    return folder / "".join(letter if letter.isalnum() else "-" for letter in name)


def figures(folder: Path, size: str, seed: int, names: Sequence[str]) -> list[Row]:
    """The figures of all arms of a seed, from their logs."""
    from truthgym.training.closed_loop.measures import KL, PARSE_RATE, REPLY_NLL, TaskMetrics, measure_log

    def last(name: str, start: bool = False) -> tuple[TaskMetrics, Distances, float, str, str]:
        out = place(folder, name)
        held_out = out / START if start else sorted(out.glob("*d-held-out"))[-1]
        (log,) = (read_eval_log(info, header_only=True) for info in list_eval_logs(str(held_out)))
        return measure_log(log, held_out), *answers(log.location), log.eval.eval_id, log.location

    found = {BASE: last(names[0], start=True)} | {name: last(name) for name in names}
    sft = found.get("sft", found[BASE])[1]
    rows: list[Row] = []
    for name, (metrics, beliefs, hollow, log, _) in found.items():
        wins = win_rate(beliefs, sft)
        far = [one for _, some in beliefs.values() for one in some]
        means = {key: metrics.mean(key) for key in (GOLD, REWARD, PARSE_RATE, KL, REPLY_NLL)}
        value = {key: None if math.isnan(mean.estimate) else mean.estimate for key, mean in means.items()}
        gold = [mean(scores) for scores in metrics.unread_as_wrong().values()]
        reward, kl = value[REWARD], means[KL]
        paid_otherwise = ARMS.get(name, {}).get("rubric", False)
        start = last(name, start=True)[0] if paid_otherwise else found[BASE][0]
        before = start.mean(REWARD).estimate
        gain = None if math.isnan(before) or reward is None else reward - before
        per_nat = None  # unless the policy has moved: else the quotient may be of any size and sign
        if kl.sign > 0 and gain is not None:
            per_nat = gain / kl.estimate
        spread, rank = judged(last(name, start=True)[4]) if (place(folder, name) / START).is_dir() else (None, None)
        peak = place(folder, name).with_name(f"{place(folder, name).name}-peak.json")
        shown = {
            "reward": (None if paid_otherwise else reward, 4),
            "gain": (gain, 4),
            "gold": (mean(gold), 4),
            "gold_read": (value[GOLD], 4),
            "distance": (mean(far), 3),
            **{f"win_{key}": (one, 3) for key, one in zip(("rate", "lower", "upper"), wins, strict=True)},
            "kl": (value[KL], 3),
            "reward_per_nat": (per_nat, 3),
            "entropy": (value[REPLY_NLL], 3),
            "form_rate": (value[PARSE_RATE], 3),
            "hollow": (hollow, 3),
            "sd_between": (metrics.sd_between, 3),
            "judge_sd": (spread, 4),
            "judge_rank": (rank, 3),
            "peak_gb": (json.loads(peak.read_text(encoding="utf-8")) / 1e9 if peak.is_file() else None, 2),
        }
        cells = {key: "" if number is None else f"{number:.{places}f}" for key, (number, places) in shown.items()}
        rows.append({"size": size, "seed": str(seed), "arm": name, **cells, "log": log})
    return rows


Distances = Mapping[str, tuple[str, Sequence[float]]]
"""By question: its event, and the distance of each answer."""


def answers(log: str) -> tuple[Distances, float]:
    """How far beliefs are from the exact posteriors, 0 to 1 (1 if unread); share of answers empty or opening hollow."""
    found: dict[str, tuple[str, list[float]]] = {}
    hollow: list[bool] = []
    for sample in read_eval_log_samples(log, all_samples_required=False, exclude_fields={"store", "events"}):
        question = sample.metadata_as(UrnQuestion)
        belief = ((sample.scores or {})["brier"].metadata or {}).get("belief")
        far = 1.0 if belief is None or belief != belief else abs(float(belief) - question.posterior[-1])
        found.setdefault(str(sample.id), (str(question.event), []))[1].append(far)
        text = sample.output.completion
        hollow.append(not text.strip() or opens_hollow(text))
    return found, sum(hollow) / len(hollow)


def judged(log: str) -> tuple[float | None, float | None]:
    """How a reward model pays for a log's answers.

    Returns:
        The standard deviation of its rewards, and their Spearman rank correlation with the Brier score, from -1 to 1,
        with its sign turned so that 1 is best. The Brier score of an unread answer is 1.
    """
    rewards, golds = [], []
    for sample in read_eval_log_samples(log, all_samples_required=False, exclude_fields={"store", "events"}):
        found = {f"{name}/{key}": value for name, score in (sample.scores or {}).items()
                 for key, value in numbers(name, score.value).items()}  # fmt: skip
        if REWARD in found:
            rewards.append(found[REWARD])
            golds.append(1.0 if math.isnan(found[GOLD]) else found[GOLD])
    if len(set(rewards)) < 2 or len(set(golds)) < 2:
        return None, None
    return stdev(rewards), -float(spearmanr(rewards, golds).statistic)


def win_rate(one: Distances, other: Distances) -> tuple[float, float, float]:
    """Share of questions that a model answers closer to the exact posterior, with its 95 % interval over events.

    Not by the Brier score of a single outcome: by that, whoever says 0 or 1 wins more often than whoever says the exact
    probability. Of a question with several answers each is compared with each; a tie is half a win.
    """
    rates, events = [], []
    for question in one.keys() & other.keys():
        mine, theirs = one[question][1], other[question][1]
        rates.append(sum((a < b) + (a == b) / 2 for a in mine for b in theirs) / len(mine) / len(theirs))
        events.append(one[question][0])
    found = mean_estimate(rates, events)
    return found.estimate, found.lower, found.upper


HEADER = {"gain": "gain in its own reward", "kl": "KL", "form_rate": "form rate"}
"""Figures of an arm: the first where reward models are compared, with `TWINS` for the others."""
PAIRED = {"reward": "reward", "gold": "Brier", "distance": "distance"}  # minus the start, by seed
TWINS = ("gold", "distance", "kl", "form_rate")  # those of an arm paid by the rubric, with its twin
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
        by_own = any(row.get("gain") and row["arm"].endswith(RUBRIC) for row in rows)
        shown = ["gain"] if by_own else ["kl", "form_rate"]
        pairs = [(BASE, key) for key in (["gold"] if by_own else PAIRED)]
        pairs += [("sft", "reward")] if "sft" in arms and not by_own else []
        table = [
            [arm, str(len(some)), *(_mean(some, key) for key in shown),
             *("" if arm == other else _mean(some, key, arms[other]) for other, key in pairs)]
            for arm, some in arms.items()
        ]  # fmt: skip
        heads = [*(HEADER[key] for key in shown), *(f"{PAIRED[key]} minus {other}" for other, key in pairs)]
        section = f"## {size}\n\n{markdown(['arm', 'seeds', *heads], table)}"
        twins = [
            [arm, *(_mean(some, key, arms[arm.removesuffix(RUBRIC)]) for key in TWINS)]
            for arm, some in arms.items()
            if arm.endswith(RUBRIC) and arm.removesuffix(RUBRIC) in arms
        ]
        if twins:
            heads = ["arm minus the same arm paid by pairs", *((HEADER | PAIRED)[key] for key in TWINS)]
            section += f"\n{markdown(heads, twins)}"
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
    parser.add_argument("--arms", choices=ARMS, nargs="+", default=[name for name in ARMS if not name.endswith(RUBRIC)],
                        metavar="ARM", help=", ".join(ARMS))  # fmt: skip
    parser.add_argument("--share", type=float, default=1.0, help="share of the questions and steps")
    parser.add_argument("--page", type=Path, default=Path("docs/training_compared.md"))
    parser.add_argument("--table", type=Path, help="the figures of each seed; by default a .csv file beside the page")
    parser.add_argument("--only-page", action="store_true", help="write the page of arms that have run")
    args = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a tiny model is slower with more threads
    rows: list[Row] = []
    for size in args.size:
        for seed in args.seeds:
            folder = args.folder / f"{size}-{seed}"
            if not args.only_page:
                for rubric in sorted({ARMS[name].get("rubric", False) for name in args.arms}):
                    alone(prepare, size, seed, folder, args.share, rubric)
            for name in args.arms if not args.only_page else ():
                alone(run, name, size, seed, folder, args.share)
            rows += figures(folder, size, seed, args.arms)
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
