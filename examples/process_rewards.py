"""A process reward model finds the wrong step under a right answer.

python examples/process_rewards.py                                  # generated chains, a minute on one core
python examples/process_rewards.py --gsm8k train.jsonl --base MODEL # GSM8K, from your own download of its rows

A chain adds numbers, one a step. In half of them a step is wrong by e, the chain goes on from there, and a later step
is wrong by -e: the answer is right again, so an outcome reward cannot tell them from the others. The labels are
arithmetic, and the later text follows the error: that a step contradicts its neighbours gives nothing away.

GSM8K (Cobbe et al. 2021, arXiv:2110.14168) writes each calculation as <<2+3=5>>. A row with a perturbed result is wrong
at that step, and the steps that use it are left out: what follows from an error cannot be rewritten by rule.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser

from truthgym.models.reward_model import Pooling, RewardModel, load
from truthgym.training.reward import reward
from truthgym.training.tiny import tiny

Row = dict[str, Any]
ERRORS = (-15, -14, -13, -12, -11, -10, 10, 11, 12, 13, 14, 15)
"""What a wrong step is off by. The tiny model's numbers are alike if they are near: it cannot tell 37 from 38."""
CALCULATION = re.compile(r"<<([^<>=]+)=(-?\d+(?:\.\d+)?)>>\s*(-?\d+(?:\.\d+)?)?")


def chain(rng: np.random.Generator, wrong: bool, length: int = 4) -> Row:
    """One chain with its labels: all steps right, or two errors that cancel."""
    value, added = int(rng.integers(25, 36)), rng.integers(3, 13, length).tolist()
    prompt = f"{value}+{'+'.join(map(str, added))}"
    first, second = sorted(rng.choice(length, 2, replace=False).tolist())
    error = int(rng.choice(ERRORS)) if wrong else 0
    steps, labels = [], []
    for place, term in enumerate(added):
        slip = error * ((place == first) - (place == second))
        steps.append(f"{value}+{term}={value + term + slip}")
        labels.append(slip == 0)
        value += term + slip
    return {"prompt": [{"role": "user", "content": prompt}], "completions": steps, "labels": labels}


def chains(number: int, seed: int) -> list[Row]:
    """Right and wrong chains in turn."""
    rng = np.random.default_rng(seed)
    return [chain(rng, wrong=bool(i % 2)) for i in range(number)]


def gsm8k(path: Path, seed: int) -> Iterator[Row]:
    """Two rows of each solution in GSM8K's rows (`question`, `answer`): as it is, and with one result perturbed."""
    rng = np.random.default_rng(seed)
    for line in path.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        steps = [step for step in item["answer"].split("####")[0].splitlines() if CALCULATION.search(step)]
        if not steps:
            continue
        prompt = [{"role": "user", "content": item["question"]}]
        plain = [CALCULATION.sub(lambda found: found[2], step) for step in steps]
        yield {"prompt": prompt, "completions": plain, "labels": [True] * len(plain)}
        at = int(rng.integers(len(steps)))
        error = int(rng.choice(ERRORS))
        wrong = CALCULATION.sub(lambda found, by=error: f"{float(found[2]) + by:g}", steps[at])  # type: ignore[misc]
        yield {"prompt": prompt, "completions": [*plain[:at], wrong], "labels": [True] * at + [False]}


def write(rows: Sequence[Row], folder: Path) -> Path:
    """Write rows as a dataset that `truthgym train reward` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def measure(model: RewardModel, rows: Sequence[Row]) -> dict[str, float]:
    """How well a process model finds wrong steps in rows that it was not trained on.

    Returns:
        `accuracy` of all steps; `recall`, the share of wrong steps below one half; `first_error`, the share of wrong
        rows whose lowest step is a wrong one; and for each pooling the share of pairs of a right and a wrong row that
        it orders, half for ties. A reward of the answer alone has 0.5 there.
    """
    conversations = [
        [ChatMessageUser(content=row["prompt"][0]["content"])]
        + [ChatMessageAssistant(content=step) for step in row["completions"]]
        for row in rows
    ]
    readings = model.read(conversations)
    steps = [np.array(reading.steps) for reading in readings]
    labels = [np.array(row["labels"]) for row in rows]
    flat, truth = np.concatenate(steps), np.concatenate(labels)
    wrong = [i for i, label in enumerate(labels) if not label.all()]
    found = {
        "accuracy": float(((flat > 0.5) == truth).mean()),
        "recall": float((flat[~truth] < 0.5).mean()),
        "first_error": float(np.mean([not labels[i][steps[i].argmin()] for i in wrong])),
    }
    poolings: tuple[Pooling, ...] = ("min", "mean", "product")
    for name in poolings:
        from truthgym.models.reward_model import pool

        rewards = np.array([pool(tuple(one), name) for one in steps])
        good = rewards[[i for i in range(len(rows)) if i not in wrong]]
        gap = good[:, None] - rewards[wrong][None]
        found[name] = float((gap > 0).mean() + (gap == 0).mean() / 2)
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Train on generated chains, or on GSM8K, and print how well wrong steps are found in other rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gsm8k", type=Path, help="a .jsonl file with `question` and `answer`")
    parser.add_argument("--base", help="the model to train [default: a tiny one]")
    parser.add_argument("--out", type=Path, default=Path("trained/process"))
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    rows = list(gsm8k(given.gsm8k, given.seed))[: given.rows] if given.gsm8k else chains(given.rows, given.seed)
    held_out = len(rows) // 10
    data = write(rows[held_out:], given.out / "data")
    base = given.base or str(tiny(given.out / "tiny", steps=0, hidden=given.hidden, overwrite=True, seed=given.seed))
    options = {"learning_rate": 1e-5, "num_train_epochs": 1} if given.base else {
        "learning_rate": 3e-3, "max_steps": given.steps, "per_device_train_batch_size": 32}  # fmt: skip
    folder = reward({"model_name_or_path": base, "dataset_name": str(data), "output_dir": str(given.out / "trained"),
                     "overwrite": True, "disable_tqdm": True, "logging_steps": 100, "seed": given.seed,
                     **options})  # fmt: skip
    found = measure(load(folder), rows[:held_out])
    print("\n".join(f"{name:12} {value:.3f}" for name, value in found.items()))
    return found


if __name__ == "__main__":
    main()
