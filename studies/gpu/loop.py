r"""Does a language model get better at stating probabilities? Start, form, GRPO, and a control with shuffled rewards.

    python -m studies.gpu.loop MODEL OUT --work FOLDER                     # one GPU, about a quarter of an hour
    python -m studies.gpu.loop trained/smollm2 OUT --work FOLDER --cpu     # one core

1. **start**: the model as it is answers held-out questions of six generated worlds, in one short reply each.
2. **form**: supervised training on the asked form alone. The number in it is the base rate that a question states, in
   half of the rows moved at random: the model learns where the base rate stands, and varies. No evidence is in it.
3. **grpo**: `truthgym train grpo` on the Brier reward, on questions of three of the worlds. **control**: the same, as
   many steps, with the rewards shuffled among the rollouts of each question.
4. All four models answer the same held-out questions, of another seed and of the test split.

The parts run in turn. A part that is done stays as it is, and a training goes on from its last checkpoint: the same
command resumes. OUT gets `result.md`, `result.json` and `answers.csv`, which are written anew after each part. Models
and logs of Inspect go to `--work`, about 10 GB.

Expected, written down before the first run on a GPU (`EXPECTED`): on the worlds that are trained on, GRPO's Brier score
is under that of the stated base rate; more than 98 % of its answers are read; and on the three other worlds it is no
worse than the start.

With `--cpu` the questions are short ones of `urns`, with `testimony` as the world that is not trained on.
"""

import argparse
import gc
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from studies.study import interval_cell, write_texts
from truthgym.analysis.tables.markdown import markdown
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.training.files import write_atomically

TRAINED: Mapping[str, Mapping[str, Any]] = {
    "urns": {"likelihood_ratio": 3.0},
    "testimony": {"witnesses": [2, 4], "reports": [3, 6]},
    "interventions": {"learned": 0.0},
}
"""Worlds that are trained on, and their arguments, which keep prompts under about 450 tokens."""
OTHERS: Mapping[str, Mapping[str, Any]] = {"disclosure": {}, "almanac": {}, "cruxes": {}}
CPU_TRAINED: Mapping[str, Mapping[str, Any]] = {"urns": {"draws": 2, "likelihood_ratio": 3.0}}
CPU_OTHERS: Mapping[str, Mapping[str, Any]] = {"testimony": {"witnesses": [2, 2], "reports": [2, 2], "n": 24}}
"""With `--cpu`: prompts of 230 and 360 tokens."""
CPU: dict[str, Any] = {
    "n": 96, "form_steps": 12, "form_rows": 8, "form_rate": 1e-4, "questions": 6, "rollouts": 4, "rate": 6e-5,
    "steps": 8, "train_n": 400,
}  # fmt: skip
"""What `--cpu` sets."""
MODELS = ("start", "form", "grpo", "control")
EXPECTED = {
    "base rate": "Brier under the stated base rate's on the worlds that are trained on",
    "read": "more than 98 % of the answers are read",
    "others": "no worse than the start on the worlds that are not trained on",
}
REPLY = 32
"""Most tokens of an evaluated reply. The form takes about 12."""
TRAINED_REPLY = 24
MOVED = 0.8
"""Standard deviation, in logits, by which half of the numbers in the form's rows are moved from the base rate."""
SEEDS = {"form": 1, "train": 2, "held out": 3}
TEMPERATURES = (1.0, 0.0)
"""Of the evaluations: as it was trained, then the likeliest reply."""
HELPS = {
    "n": "held-out questions of each world", "form_steps": "of the form", "form_rows": "in a step",
    "form_rate": "learning rate of the form", "questions": "in a step of GRPO", "rollouts": "of each question",
    "rate": "learning rate of GRPO", "steps": "of GRPO", "train_n": "training questions of each world",
}  # fmt: skip


@dataclass(frozen=True)
class Setup:
    """All options."""

    model: str
    work: Path
    cpu: bool = False
    n: int = 150
    form_steps: int = 60
    form_rows: int = 16
    form_rate: float = 3e-5
    questions: int = 24
    rollouts: int = 4
    rate: float = 1.5e-5
    steps: int = 73
    train_n: int = 1000

    @property
    def trained(self) -> Mapping[str, Mapping[str, Any]]:
        return CPU_TRAINED if self.cpu else TRAINED

    @property
    def others(self) -> Mapping[str, Mapping[str, Any]]:
        return CPU_OTHERS if self.cpu else OTHERS

    @property
    def temperatures(self) -> Sequence[float]:
        return TEMPERATURES[:1] if self.cpu else TEMPERATURES

    @property
    def groups(self) -> dict[str, list[str]]:
        return {"trained on": list(self.trained), "not trained on": list(self.others)}


# Questions and answers


def arguments_of(kind: str, n: int) -> dict[str, Any]:
    return {"n": n, "seed": SEEDS[kind], "paradigms": "brier"}


def base_rate_rows(setup: Setup) -> list[dict[str, Any]]:
    """Rows for the form: prompts of the three worlds as `direct` asks, and base rates, half of them moved."""
    from truthgym.datasets.question import Question
    from truthgym.solvers.conversation import paragraphs
    from truthgym.solvers.direct import answer_instruction, evidence
    from truthgym.training.rollouts.questions import load_questions

    n = -(-setup.form_steps * setup.form_rows // len(setup.trained))
    rng, rows = np.random.default_rng(0), []
    for world, own in setup.trained.items():
        task = load_questions(f"truthgym/{world}", arguments_of("form", n) | dict(own))
        for place, sample in enumerate(task.samples.values()):
            question = Question.model_validate(sample.metadata)
            rate = float((sample.metadata or {})["base_rate"])
            logit = np.log(rate / (1 - rate)) + (MOVED * rng.standard_normal() if place % 2 else 0)
            belief = np.clip(1 / (1 + np.exp(-logit)), 0.01, 0.99)
            text = paragraphs(str(sample.input), evidence(question.evidence), answer_instruction(question))
            rows.append({
                "prompt": [{"role": "user", "content": text}],
                "completion": [{"role": "assistant", "content": rf"\finalBeliefProb{{{belief:.2f}}}"}],
            })  # fmt: skip
    Random(0).shuffle(rows)
    return rows


def evaluate(setup: Setup, folder: str, name: str) -> None:
    """Ask a model the held-out questions by Inspect, with the sampling of the rollouts, and keep its answers."""
    import torch
    from transformers import AutoModelForCausalLM

    from truthgym.training.rollouts.questions import load_questions
    from truthgym.training.rollouts.runner import Rollouts, Sampling
    from truthgym.training.rollouts.sampling import LocalEngine
    from truthgym.training.rollouts.trainer import load_tokenizer

    files = {at: setup.work / f"answers-{name}-{at:g}.csv" for at in setup.temperatures}
    if all(file.is_file() for file in files.values()):
        return
    gpu = torch.cuda.is_available()
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16 if gpu or setup.cpu else torch.float32
    )
    model = model.to("cuda" if gpu else "cpu").eval()
    tokenizer = load_tokenizer("grpo", folder)
    ends = model.generation_config.eos_token_id or tokenizer.eos_token_id
    engine = LocalEngine(model, tokenizer, ends if isinstance(ends, list) else [ends],
                         model.config.max_position_embeddings)  # fmt: skip
    worlds = {**setup.trained, **setup.others}
    asked = arguments_of("held out", setup.n)
    questions = [load_questions(f"truthgym/{world}", asked | dict(own), "test") for world, own in worlds.items()]
    keys = [(task, sample) for task, some in enumerate(questions) for sample in some.samples]
    for number, (temperature, file) in enumerate(files.items()):
        sampling = Sampling(f"hf/{name}", tokenizer, seed=0, max_tokens=REPLY, temperature=temperature)
        rollouts = Rollouts(questions, sampling, setup.work / "logs" / name)
        rows = []
        for (task, _), answered in zip(keys, rollouts.run(keys, engine, number), strict=True):
            told = answered.rollout
            value: Any = told.scores["brier"].value if "brier" in told.scores else {}
            rows.append({
                "model": name, "temperature": temperature, "world": list(worlds)[task], "id": told.sample_id,
                "belief": value.get("belief", np.nan), "outcome": float(told.target == "yes"),
                "base_rate": told.metadata["base_rate"], "exact": told.metadata["posterior"][-1],
                "answer": told.answer[:60],
            })  # fmt: skip
        write_atomically(file, pd.DataFrame(rows).to_csv(index=False))


def shuffled(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
    """The Brier rewards of the rollouts of each question, in a random order among them: the control's reward."""
    from truthgym.training import trl_rewards

    rewards = trl_rewards.brier(prompts=prompts, completions=completions, **columns)
    groups: dict[tuple[str, str], list[int]] = {}
    for place, name in enumerate(zip(columns["task"], columns["sample_id"], strict=True)):
        groups.setdefault(name, []).append(place)
    mixed = list(rewards)
    for name, places in groups.items():
        order = Random(repr(name)).sample(places, len(places))
        for place, other in zip(places, order, strict=True):
            mixed[place] = rewards[other]
    return mixed


# Training


def options(setup: Setup, name: str, base: str, rows: int, most: int) -> dict[str, Any]:
    """What both kinds of training have, with so many rows a step, at most so many at a time."""
    small = {"save_steps": 4, "save_total_limit": 1, "use_cpu": True, "bf16": True, "gradient_checkpointing": False}
    micro = max(size for size in range(1, most + 1) if rows % size == 0)
    return (small if setup.cpu else {}) | {
        "model_name_or_path": base, "output_dir": str(setup.work / name), "logging_steps": 1, "report_to": "none",
        "seed": 0, "per_device_train_batch_size": micro, "gradient_accumulation_steps": rows // micro,
    }  # fmt: skip


def form(setup: Setup) -> str:
    """The folder of the model that was trained on the form."""
    from truthgym.training.train import sft

    data = setup.work / "data"
    data.mkdir(exist_ok=True)
    rows = base_rate_rows(setup)
    (data / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    own = {"dataset_name": str(data), "max_steps": setup.form_steps, "learning_rate": setup.form_rate,
           "warmup_steps": max(1, setup.form_steps // 10)}  # fmt: skip
    return str(sft(options(setup, "form", setup.model, setup.form_rows, 8) | own))


def reinforce(setup: Setup, name: str, base: str) -> str:
    """The folder of the model after GRPO, or of its control, from the form.

    There are more questions and fewer rollouts each than usual: the noise of outcomes is larger than that of answers.
    """
    from truthgym.training.train import grpo

    shared = arguments_of("train", setup.train_n)
    schedule: dict[str, Any] = {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 1}
    if not setup.cpu:
        decay = {"num_decay_steps": setup.steps // 2, "decay_type": "linear", "min_lr_ratio": 0.1}
        schedule = {"lr_scheduler_type": "warmup_stable_decay", "lr_scheduler_kwargs": decay, "warmup_steps": 3}
    own = {
        "task": [f"truthgym/{world}" for world in setup.trained],
        "task_args": shared | {world: dict(own) for world, own in setup.trained.items() if own},
        "max_steps": setup.steps, "num_generations": setup.rollouts, "max_completion_length": TRAINED_REPLY,
        "temperature": 1.0, "learning_rate": setup.rate, "beta": 0.0, "validation_steps": 0,
    } | ({"reward": [f"{Path(__file__).resolve()}:shuffled"]} if name == "control" else {})  # fmt: skip
    rows = setup.questions * setup.rollouts
    return str(grpo(options(setup, name, base, rows, 4 if setup.cpu else 32) | schedule | own))


def run(setup: Setup, out: Path) -> dict[str, Any]:
    """Train and ask each model, and write what there is after each."""
    import torch

    folder = base = setup.model
    for name in MODELS:
        if name != "start":
            folder = form(setup) if name == "form" else reinforce(setup, name, base)
        base = folder if name == "form" else base
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        evaluate(setup, folder, name)
        result = write(setup, out)
    return result


# The result


def answers(setup: Setup) -> pd.DataFrame:
    frame = pd.concat([pd.read_csv(file) for file in sorted(setup.work.glob("answers-*.csv"))], ignore_index=True)
    return frame.assign(brier=(frame["belief"] - frame["outcome"]) ** 2)


def correlation(x: pd.Series, y: pd.Series, given: pd.Series | None = None) -> Estimate:
    """Pearson's correlation with Fisher's interval, of what a linear fit on `given` leaves. NaN if one never varies."""
    from scipy.stats import norm

    table = pd.concat([x, y] if given is None else [x, y, given], axis=1).dropna().to_numpy(dtype=float)
    known = np.column_stack([np.ones(len(table)), table[:, 2:]])
    left = table[:, :2] - known @ np.linalg.lstsq(known, table[:, :2], rcond=None)[0]
    free = len(table) - 2 - known.shape[1]
    if free < 1 or left.std(axis=0).min() < 1e-9:
        return Estimate(np.nan, np.nan, np.nan, n=len(table))
    r = float(np.clip(np.corrcoef(left.T)[0, 1], -1 + 1e-12, 1 - 1e-12))
    reach = norm.ppf(0.975) / np.sqrt(free)
    return Estimate(r, float(np.tanh(np.arctanh(r) - reach)), float(np.tanh(np.arctanh(r) + reach)), n=len(table))


def references(frame: pd.DataFrame) -> pd.DataFrame:
    """By question the Brier scores that need no model: base rate, best constant of its world, exact reader."""
    asked = frame.drop_duplicates(["world", "id"]).set_index(["world", "id"])
    share = asked.groupby("world")["outcome"].transform("mean")
    return pd.DataFrame({
        "stated base rate": (asked["base_rate"] - asked["outcome"]) ** 2,
        "best constant": (share - asked["outcome"]) ** 2,
        "exact reader": (asked["exact"] - asked["outcome"]) ** 2,
    })  # fmt: skip


def figures(frame: pd.DataFrame, groups: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """A row for each model and reference, in each world and in each group of worlds."""
    known, rows = references(frame), []
    places = {world: [world] for worlds in groups.values() for world in worlds} | dict(groups)
    for place, worlds in places.items():
        for model in [model for model in MODELS if (frame["model"] == model).any()]:
            own = frame[(frame["model"] == model) & frame["world"].isin(worlds)]
            rows.append({
                "place": place, "who": model, "brier": mean_estimate(own["brier"], None, (0, 1)),
                "read": mean_estimate(own["belief"].notna().astype(float), None, (0, 1)),
                "exact": correlation(own["belief"], own["exact"]),
                "evidence": correlation(own["belief"], own["exact"], own["base_rate"]),
                "sd": float(own["belief"].std()),
            })  # fmt: skip
        for name in known:
            losses = known[name][known.index.isin(worlds, level="world")]
            rows.append({"place": place, "who": str(name), "brier": mean_estimate(losses, None, (0, 1))})
    return rows


def comparisons(frame: pd.DataFrame, groups: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Brier differences of GRPO (and of the form and the control) to others, on questions that both answered."""
    known, rows = references(frame), []
    losses = {str(model): group.set_index(["world", "id"])["brier"] for model, group in frame.groupby("model")}
    losses |= {str(name): known[name] for name in known}
    pairs = [("grpo", other) for other in ("start", "form", "control", *known)]
    for one, other in [*pairs, ("form", "start"), ("control", "form"), ("control", "start")]:
        if one in losses and other in losses:
            gap = (losses[one] - losses[other]).dropna()
            for place, worlds in groups.items():
                found = mean_estimate(gap[gap.index.isin(worlds, level="world")], None, (-1, 1))
                rows.append({"place": place, "one": one, "other": other, "difference": found})
    return rows


def verdict(rows: Sequence[Mapping[str, Any]], compared: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Which of the expected was reached, in words and as yes or no; None where a part is missing."""
    signs = {(row["place"], row["other"]): row["difference"].sign for row in compared if row["one"] == "grpo"}
    brier = {(row["place"], row["who"]): row["brier"].estimate for row in rows}
    read = [row["read"].estimate for row in rows if row["who"] == "grpo"]
    if not read:
        return {"reached": dict.fromkeys(EXPECTED), "sentences": ["GRPO's answers are missing: there is no verdict."]}
    better = {other: sign < 0 for (place, other), sign in signs.items() if place == "trained on"}
    order = ["start", "best constant", "stated base rate"]
    beaten = [f"the {name}" for name in order if better[name]]
    missed = [f"the {name}" for name in order if not better[name]]
    gain = f"a gain over {' and '.join(beaten)}" if beaten else "no gain"
    rest = f"{', but not' if beaten else ''} over {' or '.join(missed)}" if missed else ""
    sentences = [f"On the worlds that were trained on: {gain}{rest}."]
    for other, what in {"form": "the form that it began with", "control": "the control with shuffled rewards"}.items():
        if other in better:
            sentences.append(f"GRPO is {'' if better[other] else 'not clearly '}better than {what}.")
    others = signs["not trained on", "start"]
    words = {-1: "better than the start", 0: "not clearly different from the start", 1: "worse than the start"}
    sentences.append(f"On the worlds that were not trained on it is {words[others]}.")
    reached = {
        "base rate": brier["trained on", "grpo"] < brier["trained on", "stated base rate"],
        "read": min(read) > 0.98,
        "others": others <= 0,
    }
    return {"reached": reached, "sentences": sentences}


def table(result: Mapping[str, Any], temperature: str) -> str:
    """Whose answers have which Brier scores in both groups of worlds, and how many are read."""
    found = {(row["place"], row["who"]): row for row in result["tables"][temperature]["figures"]}
    whose = {"start": "the model at the start", "form": "the form", "grpo": "GRPO",
             "control": "control: rewards shuffled among the rollouts of a question"}  # fmt: skip
    rows = []
    for who in [who for place, who in found if place == "trained on"]:
        both = found["trained on", who], found["not trained on", who]
        read = ", ".join(f"{row['read'].estimate:.2f}" for row in both if "read" in row)
        rows.append([whose.get(who, f"the {who}"), *(interval_cell(row["brier"]) for row in both), read])
    return markdown(["answers of", *map(", ".join, result["groups"].values()), "read"], rows).strip()


def report(result: Mapping[str, Any]) -> str:
    """What `result.md` says."""
    words = {None: "unknown", True: "reached", False: "not reached"}
    reached = (f"- Expected: {text}: **{words[result['verdict']['reached'][key]]}**." for key, text in EXPECTED.items())
    tables = (f"## At temperature {temperature}\n\n{table(result, temperature)}" for temperature in result["tables"])
    return "\n\n".join(["# The closed loop", " ".join(result["verdict"]["sentences"]), "\n".join(reached), *tables, ""])


def texts(result: Mapping[str, Any]) -> dict[str, str]:
    """What `docs/loop.md` has of a run with `--cpu`: a table, and the verdict."""
    return {"cpu": f"\n{table(result, '1')}\n", "cpu verdict": " ".join(result["verdict"]["sentences"])}


def write(setup: Setup, out: Path) -> dict[str, Any]:
    """Write everything that is known by now."""
    frame = answers(setup)
    tables = {
        f"{temperature:g}": {kind.__name__: kind(some, setup.groups) for kind in (figures, comparisons)}
        for temperature, some in frame.groupby("temperature", sort=False)
    }
    result = {
        "setup": asdict(setup) | {"work": str(setup.work)},
        "groups": setup.groups,
        "verdict": verdict(*tables["1"].values()),
        "tables": tables,
    }
    out.mkdir(parents=True, exist_ok=True)
    plain = json.loads(json.dumps(result, default=asdict), parse_constant=lambda _: None)
    write_atomically(out / "result.json", json.dumps(plain, indent=1) + "\n")
    write_atomically(out / "result.md", report(result))
    write_atomically(out / "answers.csv", frame.to_csv(index=False))
    return result


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder, or a name on the Hub")
    parser.add_argument("out", type=Path, help="folder of the results: three small files")
    parser.add_argument("--work", type=Path, required=True, help="folder of models and logs")
    parser.add_argument("--page", type=Path, help="a page that gets the result of `--cpu`: docs/loop.md")
    parser.add_argument("--cpu", action="store_true", help="a smaller run for one core")
    for name, text in HELPS.items():
        default = getattr(Setup, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), help=f"{text} [{default}]")
    args = parser.parse_args(words)
    args.work.mkdir(parents=True, exist_ok=True)
    sizes = {name: getattr(args, name) for name in HELPS if getattr(args, name) is not None}
    setup = Setup(args.model, args.work, args.cpu, **((CPU if args.cpu else {}) | sizes))
    result = run(setup, args.out)
    print(report(result), flush=True)
    if args.page:
        write_texts(args.page, texts(result))


if __name__ == "__main__":
    main()
