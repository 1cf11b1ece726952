"""Compare ways to train a policy at the same budget, over seeds, and write a page of what each one did.

    python examples/compare_training.py trained/compared --seeds 0 1 2 3 4 --page docs/training_compared.md

For each seed: a tiny model answers questions, its answers become pairs by their Brier scores, and a reward model is
trained on the pairs. Then each arm trains the tiny model on other questions of the train split, with the reward model
as its only reward, from the same number of sampled replies and of replies that are trained on. A gold judge, the Brier
score, and the reward model compare all of them on the same held-out questions.

Complete steps are skipped, so the same command resumes an interrupted study. A seed takes about twelve minutes of one
core. `--size smollm2` runs the same arms on SmolLM2 with fewer questions; `--arms` and `--share` make a study smaller.
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from truthgym.training.artifacts import markdown_table

ROUNDS = 3
EPOCHS = 4
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"questions": 200, "held_out": 300, "held_out_epochs": 2, "max_tokens": 12, "steps": 75, "batch": 32},
    "smollm2": {"questions": 12, "held_out": 24, "held_out_epochs": 1, "max_tokens": 64, "steps": 6, "batch": 4},
}
"""Training questions of a round, held-out ones, gradient steps of all rounds, and replies in each step."""
RATES = {"tiny": 5e-4, "smollm2": 1e-4}
"""Learning rates. Those of billions of parameters would change nothing in half a million."""
ARMS: dict[str, dict[str, Any]] = {
    "sft": {"method": "sft"},
    "dpo": {"method": "dpo", "rounds": 1},
    "dpo, current": {"method": "dpo"},
    "dpo, rolling(2)": {"method": "dpo", "buffer": "rolling(2)"},
    "dpo, full": {"method": "dpo", "buffer": "full"},
    "grpo, groups of 4": {"method": "grpo", "group": 4},
    "grpo, groups of 8": {"method": "grpo", "group": 8},
    "rloo, groups of 4": {"method": "rloo", "group": 4},
    "dpo, current, LoRA r = 8": {"method": "dpo", "lora": 8},
    "dpo, current, LoRA r = 16": {"method": "dpo", "lora": 16},
}
"""sft trains on the reply to each question that the reward model likes best; dpo on one pair of a question; the others
on all rollouts. `dpo` asks all questions at once, and the three after it in three rounds."""
BETA = 0.04
"""Weight of the KL term in grpo and rloo; that of dpo is TRL's 0.1."""
REWARD, GOLD = "reward_model/reward", "brier/brier_score"
BASE = "the start"
Row = Mapping[str, str]
"""An arm's figures by name, as in the .csv file."""


def prepare(size: str, seed: int, folder: Path, share: float) -> tuple[Path, Path]:
    """Make the model that all arms start from, and the reward model. Returns their folders."""
    from inspect_ai import eval

    from truthgym.tasks import urns
    from truthgym.training.conversion.selection import Selection
    from truthgym.training.convert import convert
    from truthgym.training.reward import reward

    base = folder / f"{size}{seed}"
    if not base.is_dir():
        _make(size, seed, base)
    numbers = SIZES[size]
    asked, pairs = folder / "reward-logs", folder / "reward-pairs"
    if not pairs.is_dir():
        (log,) = eval(
            # Other questions than those of the arms, whose seeds are 1000 * seed + 0, 1, 2.
            urns(n=scaled(2 * numbers["questions"], share), seed=1000 * seed + 500, split="train", paradigms="brier"),
            model=f"hf/{base}",
            model_args={"device": "cpu"},
            epochs=EPOCHS,
            max_tokens=numbers["max_tokens"],
            max_connections=64,
            max_samples=64,
            seed=seed,
            log_dir=str(asked),
            log_realtime=False,
            display="none",
        )
        if log.status != "success":
            raise SystemExit(f"{log.location}: {log.error.message if log.error else log.status}")
        convert([asked], "preference", pairs, Selection(score=GOLD))
    options = {
        "model_name_or_path": str(base),
        "dataset_name": str(pairs),
        "output_dir": str(folder / "reward"),
        "learning_rate": RATES[size],
        "per_device_train_batch_size": numbers["batch"] // 2,
        "max_steps": scaled(2 * numbers["steps"], share),
        "seed": seed,
        **CPU,
    }
    return base, reward(options)


CPU = {"use_cpu": True, "save_strategy": "no", "disable_tqdm": True, "gradient_checkpointing": False}


def _make(size: str, seed: int, base: Path) -> None:
    if size == "tiny":
        from truthgym.training.tiny import tiny

        tiny(base, seed=seed)
    else:
        _teach_form(base)


def _teach_form(base: Path) -> None:
    """SmolLM2 after a few steps on answers of a simulated agent: by itself it hardly answers in the form asked."""
    from inspect_ai import eval

    from truthgym.tasks import urns
    from truthgym.training.conversion.selection import Selection
    from truthgym.training.convert import convert
    from truthgym.training.sft import sft
    from truthgym.training.smollm2 import smollm2

    raw, logs, rows = (base.with_name(f"{base.name}-{name}") for name in ("raw", "logs", "rows"))
    if not raw.is_dir():
        smollm2(raw)
    if not rows.is_dir():
        task = urns(n=64, seed=900, split="train", paradigms="brier")
        eval(task, model="reference/bayesian", model_args={"noise": 0.2}, log_dir=str(logs), display="none")
        convert([logs], "sft", rows, Selection(everything=True))
    given = {"model_name_or_path": str(raw), "dataset_name": str(rows), "output_dir": str(base.parent / "form")}
    numbers = {"learning_rate": RATES["smollm2"], "per_device_train_batch_size": 4, "max_steps": 6}
    sft(given | numbers | CPU).rename(base)


def scaled(number: int, share: float) -> int:
    """A share of a number, at least 1."""
    return max(1, round(number * share))


def options(name: str, size: str, seed: int, base: Path, judge: Path, out: Path, share: float) -> dict[str, Any]:
    """The options of an arm's loop: the same replies sampled and trained on in each."""
    arm, numbers = ARMS[name], SIZES[size]
    by_rollouts = arm["method"] in ("grpo", "rloo")
    rounds = 1 if by_rollouts else arm.get("rounds", ROUNDS)
    questions = scaled(numbers["questions"], share) * ROUNDS // rounds
    replies = scaled(numbers["steps"], share) * numbers["batch"]  # that are trained on, over all rounds
    train: dict[str, Any] = {"learning_rate": RATES[size], **CPU}
    if by_rollouts:
        # A step has as many rollouts as make the number of sampled replies: those of the other arms.
        sampled, group = questions * EPOCHS, arm["group"]
        steps = max(1, replies // sampled) * 25
        each = max(group, round(sampled / steps / group) * group)
        train |= {"per_device_train_batch_size": each, "gradient_accumulation_steps": 1, "num_generations": group,
                  "max_steps": max(1, sampled // each), "beta": BETA, "reward": ["reward_model"],
                  "validation_steps": 0}  # fmt: skip
    else:
        batch = numbers["batch"] // (2 if arm["method"] == "dpo" else 1)  # a pair is two replies
        train |= {"per_device_train_batch_size": batch, "max_steps": scaled(numbers["steps"], share / rounds)}
    if rank := arm.get("lora"):
        train |= {"use_peft": True, "lora_r": rank, "lora_alpha": 2 * rank, "learning_rate": 10 * RATES[size]}
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
        "held_out_epochs": numbers["held_out_epochs"],
        "max_tokens": numbers["max_tokens"],
        "max_connections": 64,
        "model_args": {"device": "cpu"},
        "seed": seed,
        "convert": convert,
        "train": train,
        "out": str(out),
    }


def run(name: str, size: str, seed: int, folder: Path, share: float) -> None:
    """Run one arm of one seed in this process, and write its peak memory."""
    from truthgym.training.loop import loop

    base, judge = prepare(size, seed, folder, share)
    out = place(folder, name)
    loop(options(name, size, seed, base, judge, out, share))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    kept = out.parent / f"{out.name}-peak.json"
    before = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else 0  # a resumed arm has done less
    kept.write_text(json.dumps(max(peak, before)), encoding="utf-8")


def place(folder: Path, name: str) -> Path:
    """The folder of an arm's loop."""
    return folder / "".join(letter if letter.isalnum() else "-" for letter in name)


def figures(folder: Path, size: str, seed: int, names: Sequence[str]) -> list[Row]:
    """The figures of all arms of a seed, from their logs."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    from truthgym.training.closed_loop.measures import KL, PARSE_RATE, REPLY_NLL, TOKENS, TaskMetrics, measure_log

    def last(name: str, start: bool = False) -> tuple[TaskMetrics, Distances, str]:
        out = place(folder, name)
        held_out = [path for path in sorted(out.glob("*held-out")) if (path.name[0] == "0") == start]
        (log,) = (read_eval_log(one, header_only=True) for one in list_eval_logs(str(held_out[-1])))
        return measure_log(log, held_out[-1]), distances(log.location), log.eval.eval_id

    found = {BASE: last(names[0], start=True)} | {name: last(name) for name in names}
    sft = found.get("sft", found[BASE])[1]
    rows: list[Row] = []
    for name, (metrics, beliefs, log) in found.items():
        wins = win_rate(beliefs, sft)
        far = [one for _, some in beliefs.values() for one in some]
        means = {key: metrics.mean(key) for key in (GOLD, REWARD, PARSE_RATE, KL, REPLY_NLL, TOKENS)}
        value = {key: mean.value if mean else None for key, mean in means.items()}
        reward, kl = value[REWARD], value[KL]
        per_nat = (reward - float(rows[0]["reward"])) / kl if reward is not None and kl else None
        replies = [one for _, _, some in metrics.values[TOKENS].values() for one in some]
        peak = place(folder, name).with_name(f"{place(folder, name).name}-peak.json")
        shown = {
            "reward": (value[REWARD], 4),
            "gold": (value[GOLD], 4),
            "distance": (sum(far) / len(far), 3),
            "win_rate": (wins[0], 3),
            "win_lower": (wins[1], 3),
            "win_upper": (wins[2], 3),
            "kl": (value[KL], 3),
            "reward_per_nat": (per_nat, 3),
            "entropy": (value[REPLY_NLL], 3),
            "form_rate": (value[PARSE_RATE], 3),
            "empty": (sum(one <= 1 for one in replies) / len(replies) if replies else None, 3),
            "sd_between": (metrics.sd_between, 3),
            "peak_gb": (json.loads(peak.read_text(encoding="utf-8")) / 1e9 if peak.is_file() else None, 2),
        }
        cells = {key: "" if number is None else f"{number:.{places}f}" for key, (number, places) in shown.items()}
        rows.append({"size": size, "seed": str(seed), "arm": name, **cells, "log": log})
    return rows


Distances = Mapping[str, tuple[str, Sequence[float]]]
"""By question: its event, and of each answer the distance between the belief and the exact posterior."""


def distances(log: str) -> Distances:
    """How far the beliefs of a log are from the exact posteriors, 0 to 1; 1 for an answer that cannot be read."""
    from inspect_ai.log import read_eval_log_samples

    from truthgym.datasets.urns import UrnQuestion

    found: dict[str, tuple[str, list[float]]] = {}
    for sample in read_eval_log_samples(log, all_samples_required=False, exclude_fields={"store", "events"}):
        question = sample.metadata_as(UrnQuestion)
        belief = ((sample.scores or {})["brier"].metadata or {}).get("belief")
        far = 1.0 if belief is None or belief != belief else abs(float(belief) - question.posterior[-1])
        found.setdefault(str(sample.id), (str(question.event), []))[1].append(far)
    return found


def win_rate(one: Distances, other: Distances) -> tuple[float, float, float]:
    """Share of questions that a model answers closer to the exact posterior, with its 95 % interval over events.

    Not by the Brier score of a single outcome: by that, whoever says 0 or 1 wins more often than whoever says the exact
    probability. Of a question with several answers each is compared with each; a tie is half a win.
    """
    from truthgym.scorers.statistics.interval import mean_headline

    rates, events = [], []
    for question in one.keys() & other.keys():
        mine, theirs = one[question][1], other[question][1]
        rates.append(sum((a < b) + (a == b) / 2 for a in mine for b in theirs) / len(mine) / len(theirs))
        events.append(one[question][0])
    found = mean_headline(rates, events)
    return found.estimate, found.lower, found.upper


HEADER = {
    "reward": "reward",
    "gold": "Brier",
    "distance": "distance",
    "win_rate": "win rate against sft",
    "kl": "KL",
    "reward_per_nat": "reward per nat",
    "entropy": "entropy",
    "form_rate": "form rate",
    "empty": "empty replies",
    "sd_between": "between-question SD",
    "peak_gb": "peak GB",
}
"""The columns of the page, by figure."""


def page(rows: Sequence[Row]) -> str:
    """The page: means over seeds with their range, and the figures of each seed in the .csv file."""
    sections = []
    for size in dict.fromkeys(row["size"] for row in rows):
        table = []
        for arm in dict.fromkeys(row["arm"] for row in rows):
            some = [row for row in rows if row["size"] == size and row["arm"] == arm]
            if some:
                table.append([arm, str(len(some)), *(_mean(some, key) for key in HEADER)])
        sections.append(f"## {size}\n\n{markdown_table(['arm', 'seeds', *HEADER.values()], table)}")
    logs = [[row["size"], row["seed"], row["arm"], f"`{row['log']}`"] for row in rows]
    return TEXT.format(tables="\n\n".join(sections), beta=BETA, rounds=ROUNDS, epochs=EPOCHS,
                       logs=markdown_table(["size", "seed", "arm", "log"], logs))  # fmt: skip


def _mean(rows: Sequence[Row], key: str) -> str:
    values = [float(row[key]) for row in rows if row[key]]
    if not values:
        return ""
    mean = f"{sum(values) / len(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.3f} to {max(values):.3f})"


TEXT = """# Ways to train a policy, compared

Written by `python examples/compare_training.py`; the figures of each seed are in the .csv file beside this page.

Every arm starts from the same model, is paid by the same reward model only, samples the same number of replies to
questions of the train split and trains on the same number of replies. The reward model was trained on pairs of the
start's own answers to other questions, by their Brier scores. The gold judge, the Brier score on held-out questions, is
never trained on. `dpo` asks all questions at once; the arms with a buffer ask them in {rounds} rounds, {epochs} answers
each, with the start as the reference throughout. In grpo and rloo the KL term weighs {beta}.

{tables}

Means over seeds, with the smallest and the largest. `reward`: of the reward model, in log-odds. `Brier`: lower is
better. `distance`: of the belief from the exact posterior, 0 to 1; an answer that cannot be read counts as 1. `win rate
against sft`: share of held-out questions answered closer to the exact posterior than by the arm `sft`. (By the Brier
score of a single outcome, whoever says 0 or 1 would win more often than whoever says the exact probability.) `KL`: from
the start, on the tokens of replies, in nats a reply, measured on held-out replies. `reward per nat`: what the reward
gained over the start, divided by the KL. `entropy`: of a reply, in nats. `form rate`: share of the answers that could
be read. `between-question SD`: 0 if every question gets one answer. `peak GB`: memory of the process, with Python and
its libraries.

A reward that rises while the Brier score does not fall is over-optimised: compare the two columns before any other.

## Logs

{logs}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for models and loops")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--size", choices=SIZES, nargs="+", default=["tiny"], help="both compare two sizes")
    parser.add_argument("--arms", choices=ARMS, nargs="+", default=list(ARMS), metavar="ARM", help=", ".join(ARMS))
    parser.add_argument("--share", type=float, default=1.0, help="share of the questions and steps")
    parser.add_argument("--page", type=Path, default=Path("docs/training_compared.md"))
    parser.add_argument("--only-page", action="store_true", help="write the page of arms that have run")
    parser.add_argument(
        "--here", action="store_true", help="run the arms in this process, without their own peak memory"
    )
    args = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a tiny model is slower with more threads
    rows: list[Row] = []
    for size in args.size:
        for seed in args.seeds:
            folder = args.folder / f"{size}-{seed}"
            for name in args.arms if not args.only_page else ():
                if args.here or len(args.arms) == len(args.seeds) == len(args.size) == 1:
                    run(name, size, seed, folder, args.share)
                else:  # a process of its own, so that its peak memory is its own
                    words = ["--seeds", str(seed), "--size", size, "--arms", name, "--share", str(args.share)]
                    words += ["--page", str(folder / "one.md")]
                    subprocess.run([sys.executable, __file__, str(args.folder), *words], check=True)
            rows += figures(folder, size, seed, args.arms)
    args.page.parent.mkdir(parents=True, exist_ok=True)
    with args.page.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    args.page.write_text(page(rows), encoding="utf-8")
    print(page(rows))


if __name__ == "__main__":
    main()
