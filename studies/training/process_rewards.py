"""A process reward model finds the wrong step under a right answer.

python -m studies.training.process_rewards --page docs/reward_methods.md    # generated chains, 5 seeds
python -m studies.training.process_rewards --gsm8k train.jsonl --base MODEL # GSM8K, from your own download of its rows

A chain adds numbers, one a step. In half of them a step is wrong by e, the chain goes on from there, and a later step
is wrong by -e: the answer is right again, so an outcome reward cannot tell them from the others. The labels are
arithmetic, and the later text follows the error: that a step contradicts its neighbours gives nothing away. Each sum
(a number and what is added to it) is either trained on or measured, never both: what is measured is no recall.

GSM8K (Cobbe et al. 2021, arXiv:2110.14168) writes each calculation as <<2+3=5>>. A row with a perturbed result is wrong
at that step, and the steps that use it are left out: what follows from an error cannot be rewritten by rule. Both rows
of a question are trained on or measured together.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from studies.study import interval_cell, write_texts
from truthgym.analysis.tables.markdown import markdown
from truthgym.models.reward_model import RewardModel, chat_messages, load
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.training.tiny import tiny
from truthgym.training.train import reward

Row = dict[str, Any]
ERRORS = (-15, -14, -13, -12, -11, -10, 10, 11, 12, 13, 14, 15)
"""What a wrong step is off by. The tiny model's numbers are alike if they are near: it cannot tell 37 from 38."""
CALCULATION = re.compile(r"<<([^<>=]+)=(-?\d+(?:\.\d+)?)>>\s*(-?\d+(?:\.\d+)?)?")


def is_measured(value: int, term: int) -> bool:
    """Whether the sum of a number and a term is one that is measured: a fifth, and then never trained on."""
    return sha256(f"{value}+{term}".encode()).digest()[0] % 5 == 0


def chain(rng: np.random.Generator, wrong: bool, measured: bool, length: int = 4) -> Row:
    """One chain with its labels: all steps right, or two errors that cancel. Its sums are all measured, or none is."""
    first, second = sorted(rng.choice(length, 2, replace=False).tolist())
    error = int(rng.choice(ERRORS)) if wrong else 0
    value = start = int(rng.integers(25, 36))
    added, steps, labels = [], [], []
    for place in range(length):
        terms = [term for term in range(3, 13) if is_measured(value, term) == measured]
        if not terms:  # a number without such a sum: another chain
            return chain(rng, wrong, measured, length)
        term = int(rng.choice(terms))
        slip = error * ((place == first) - (place == second))
        steps.append(f"{value}+{term}={value + term + slip}")
        labels.append(slip == 0)
        added.append(term)
        value += term + slip
    prompt = f"{start}+{'+'.join(map(str, added))}"
    return {"prompt": [{"role": "user", "content": prompt}], "completions": steps, "labels": labels}


def chains(number: int, seed: int, measured: bool = False) -> list[Row]:
    rng = np.random.default_rng([seed, measured])
    return [chain(rng, bool(i % 2), measured) for i in range(number)]


def perturbed(number: str, error: int) -> str:
    """A number that is off by an error (away from 0 where it would turn negative), with the decimals that it had.

    >>> perturbed("12.50", 10), perturbed("1234567", 10), perturbed("8", -15)
    ('22.50', '1234577', '23')
    """
    value, decimals = float(number), len(number.partition(".")[2])
    changed = value + error if value + error >= 0 or value < 0 else value - error
    return f"{changed:.{decimals}f}"


def gsm8k(path: Path, seed: int) -> Iterator[Row]:
    """Two rows of each solution in GSM8K's rows (`question`, `answer`): as it is, and with one result perturbed."""
    rng = np.random.default_rng(seed)
    for line in path.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        steps = [step for step in item["answer"].split("####")[0].splitlines() if CALCULATION.search(step)]
        if not steps:
            continue
        prompt = [{"role": "user", "content": item["question"]}]
        plain = [CALCULATION.sub(lambda match: match[2], step) for step in steps]
        yield {"prompt": prompt, "completions": plain, "labels": [True] * len(plain)}
        at = int(rng.integers(len(steps)))
        error = int(rng.choice(ERRORS))
        wrong = CALCULATION.sub(lambda match, by=error: perturbed(match[2], by), steps[at])  # type: ignore[misc]
        yield {"prompt": prompt, "completions": [*plain[:at], wrong], "labels": [True] * at + [False]}


def write(rows: Sequence[Row], folder: Path) -> Path:
    """Write rows as a dataset that `truthgym train reward` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def measure(model: RewardModel, rows: Sequence[Row]) -> dict[str, float]:
    """How well a process model finds wrong steps in rows that it was not trained on."""
    written = [
        [*row["prompt"], *({"role": "assistant", "content": completion} for completion in row["completions"])]
        for row in rows
    ]
    readings = model.read([chat_messages(row, "a row") for row in written])
    steps = [np.array(reading.steps) for reading in readings]
    labels = [np.array(row["labels"]) for row in rows]
    flat, truth = np.concatenate(steps), np.concatenate(labels)
    good, least = np.array([label.all() for label in labels]), np.array([step.min() for step in steps])
    gap = least[good][:, None] - least[~good][None]
    return {
        "accuracy": float(((flat > 0.5) == truth).mean()),
        "recall": float((flat[~truth] < 0.5).mean()),
        "min": float((gap > 0).mean() + (gap == 0).mean() / 2),
    }


HEADER = {"accuracy": "steps classified right", "recall": "wrong steps found",
          "min": "right chain above a wrong one"}  # fmt: skip


def one_seed(given: argparse.Namespace, seed: int) -> dict[str, float]:
    """Train on some rows, and measure on others."""
    out = given.out / str(seed)
    if given.gsm8k:
        rows = list(gsm8k(given.gsm8k, seed))[: given.rows // 2 * 2]
        held_out = len(rows) // 20 * 2  # both rows of a question
        train, test = rows[held_out:], rows[:held_out]
    else:
        train, test = chains(given.rows, seed), chains(max(40, given.rows // 10), seed, measured=True)
    base = given.base or str(tiny(out / "tiny", steps=0, hidden=given.hidden, overwrite=True, seed=seed))
    options = {"learning_rate": 1e-5, "num_train_epochs": 1} if given.base else {
        "learning_rate": 3e-3, "max_steps": given.steps, "per_device_train_batch_size": 32}  # fmt: skip
    folder = reward({"model_name_or_path": base, "dataset_name": str(write(train, out / "data")),
                     "output_dir": str(out / "trained"), "overwrite": True, "disable_tqdm": True, "logging_steps": 100,
                     "seed": seed, **options})  # fmt: skip
    return measure(load(folder), test)


def main(arguments: Sequence[str] | None = None) -> list[dict[str, float]]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gsm8k", type=Path, help="a .jsonl file with `question` and `answer`")
    parser.add_argument("--base", help="the model to train [default: a tiny one]")
    parser.add_argument("--out", type=Path, default=Path("trained/process"))
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--page", type=Path, help="write the table between the page's comments `process` and `end`")
    given = parser.parse_args(arguments)
    figures = [one_seed(given, seed) for seed in given.seeds]
    means = [mean_estimate([row[name] for row in figures]) for name in HEADER]
    cells = [str(len(figures)), *(interval_cell(mean, 3, 0, 1) for mean in means)]
    table = markdown(["seeds", *HEADER.values()], [cells])
    print(table)
    if given.page:
        write_texts(given.page, {"process": table})
    return figures


if __name__ == "__main__":
    main()
