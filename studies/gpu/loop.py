r"""Does a language model get better at stating probabilities, in eight minutes of one GPU? Start, form, GRPO, control.

    python -m studies.gpu.loop MODEL OUT --minutes 8
    python -m studies.gpu.loop trained/smollm2 OUT --cpu --work FOLDER     # one core; the same command resumes

1. **start**: the model as it is answers held-out questions of six generated worlds, in one short reply each.
2. **form**: supervised training on the asked form alone. The number in it is the base rate that a question states, in
   half of the rows moved at random: the model learns where the base rate stands, and varies. No evidence is in it.
3. **grpo**: `truthgym train grpo` on the Brier reward, on questions of three of the worlds. **control**: at the same
   time the same, as many steps, with the rewards shuffled among the rollouts of each question.
4. All four models answer the same held-out questions, of another seed and of the test split.

Each part is a process of its own; what does not depend on another runs beside it. The two trainings stop together, at
the same step, in time for the last evaluation. OUT gets `result.md`, `result.json`, `answers.csv` and `log.txt`, which
are written anew after each part: what is not ready when time is up is missing there, and the rest stands. Models and
logs of Inspect go to `--work`, about 10 GB.

Expected, written down before the first run on a GPU (`EXPECTED`): on the worlds that are trained on, GRPO's Brier score
is under that of the stated base rate; more than 98 % of its answers are read; and on the three other worlds it is no
worse than the start.

With `--cpu` the parts run in turn in this process, on short questions of `urns`, with `testimony` as the world that is
not trained on. A part that is done stays as it is, and a training goes on from its last checkpoint.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from studies.study import write_texts
from truthgym.analysis.tables.markdown import markdown, with_interval
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
CPU: Mapping[str, Any] = {
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
FORM_SHARE = 0.3
"""Of the time, after which the training of the form stops wherever it is."""
LATE = 25.0
"""Seconds after which a training stops although its partner has made more steps."""
STAGES = ("start", "form", "grpo", "control")


@dataclass(frozen=True)
class Setup:
    """All options, as every process gets them. Times are those of `time.time`."""

    model: str
    work: str
    begin: float
    minutes: float = 8.0
    reserve: float = 85.0
    n: int = 150
    form_steps: int = 60
    form_rows: int = 16
    form_rate: float = 3e-5
    questions: int = 24
    rollouts: int = 4
    rate: float = 1.5e-5
    steps: int = 0
    train_n: int = 1000
    in_turn: bool = False
    cpu: bool = False

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

    @property
    def end(self) -> float:
        return self.begin + 60 * self.minutes

    @property
    def until(self) -> float:
        """When the reinforcement stops."""
        return np.inf if self.in_turn else self.end - self.reserve

    @property
    def place(self) -> Path:
        return Path(self.work)


def tell(setup: Setup, stage: str, what: str, **facts: object) -> None:
    """Write down that a part is done: the first process prints it, and `result.json` keeps it."""
    line = {"at": round(time.time() - setup.begin, 1), "stage": stage, "what": what, **facts}
    with (setup.place / "stages.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


# Questions and answers


def arguments_of(setup: Setup, kind: str, n: int) -> dict[str, Any]:
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
        task = load_questions(f"truthgym/{world}", arguments_of(setup, "form", n) | dict(own))
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
    asked = arguments_of(setup, "held out", setup.n)
    questions = [load_questions(f"truthgym/{world}", asked | dict(own), "test") for world, own in worlds.items()]
    keys = [(task, sample) for task, some in enumerate(questions) for sample in some.samples]
    for number, temperature in enumerate(setup.temperatures):
        file = setup.place / f"answers-{name}-{number}.csv"
        if file.is_file():
            continue
        sampling = Sampling(f"hf/{name}", tokenizer, seed=0, max_tokens=REPLY, temperature=temperature)
        rollouts = Rollouts(questions, sampling, setup.place / "logs" / name)
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
        frame = pd.DataFrame(rows)
        write_atomically(file, frame.to_csv(index=False))
        tell(setup, name, f"{len(rows)} questions answered at temperature {temperature:g}",
             read=round(float(frame["belief"].notna().mean()), 3))  # fmt: skip


def shuffled(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:  # noqa: ANN401
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


def steps_of(setup: Setup, name: str) -> int:
    file = setup.place / f"steps-{name}.txt"
    return int(file.read_text()) if file.is_file() else 0


def last_step(setup: Setup, name: str, partner: str, done: int) -> int:
    """The step after which both trainings stop: the first that is past the time decides, for both.

    Its partner is in the middle of a step, which counts as made.
    """
    file = setup.place / "last_step.txt"
    if not file.is_file():
        running = steps_of(setup, partner)
        own = file.with_suffix(f".{name}")
        own.write_text(str(max(done, running + 1 if running else 0)))
        with suppress(FileExistsError):
            os.link(own, file)
    return int(file.read_text())


def callback(setup: Setup, name: str, until: float, partner: str = "") -> Any:  # noqa: ANN401
    """A callback of transformers' Trainer: stops in time, lets the learning rate fall with it, and keeps the curve."""
    import torch
    from transformers import TrainerCallback

    kept = ("loss", "reward", "share_read", "entropy", "grad_norm", "step_time", "completions/mean_length")

    class InTime(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.began, self.skipped = 0.0, 0
            self.curve: list[dict[str, float]] = []

        def on_train_begin(self, *_: object, **__: object) -> None:
            self.began = time.time()
            tell(setup, name, "training begins")

        def on_step_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:  # noqa: ANN401
            left = (until - time.time()) / max(until - self.began, 1e-9)
            if partner and left < 0.5:
                for group in objects["optimizer"].param_groups:
                    group["lr"] = args.learning_rate * max(2 * left, 0.1)

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **objects: Any) -> None:  # noqa: ANN401
            """A gradient that is no number would end all: its step is left out."""
            gradients = [each.grad for each in objects["model"].parameters() if each.grad is not None]
            if gradients and not torch.isfinite(torch.stack(torch._foreach_norm(gradients))).all():
                self.skipped += 1
                for each in objects["model"].parameters():
                    each.grad = None

        def on_step_end(self, args: Any, state: Any, control: Any, **_: object) -> None:  # noqa: ANN401
            done, now = state.global_step, time.time()
            write_atomically(setup.place / f"steps-{name}.txt", str(done))
            late = now > until + LATE
            if late or (now > until and (not partner or done >= last_step(setup, name, partner, done))):
                control.should_training_stop = True

        def on_log(self, args: Any, state: Any, control: Any, **objects: Any) -> None:  # noqa: ANN401
            logs = objects.get("logs") or {}
            if "loss" in logs:
                found = {key: float(logs[key]) for key in kept if key in logs}
                self.curve.append({"step": state.global_step, "seconds": round(time.time() - self.began, 1), **found})
                write_atomically(setup.place / f"curve-{name}.json", json.dumps(self.curve))

        def on_train_end(self, args: Any, state: Any, control: Any, **_: object) -> None:  # noqa: ANN401
            took = time.time() - self.began
            memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
            tell(setup, name, f"{state.global_step} steps made", seconds=round(took, 1), skipped=self.skipped,
                 seconds_a_step=round(took / max(state.global_step, 1), 2), memory_gib=round(memory, 1))  # fmt: skip

    return InTime()


@contextmanager
def with_callback(added: object) -> Iterator[None]:
    """Trainers that are made inside have this callback too."""
    from transformers import trainer

    trainer.DEFAULT_CALLBACKS.append(added)
    try:
        yield
    finally:
        trainer.DEFAULT_CALLBACKS.remove(added)


def options(setup: Setup, name: str, base: str) -> dict[str, Any]:
    """What both kinds of training have."""
    small = {"save_steps": 4, "save_total_limit": 1, "use_cpu": True, "bf16": True, "gradient_checkpointing": False}
    return (small if setup.cpu else {"save_strategy": "no"}) | {
        "model_name_or_path": base, "output_dir": str(setup.place / name), "logging_steps": 1, "report_to": "none",
        "seed": 0,
    }  # fmt: skip


def form_options(setup: Setup, data: Path) -> dict[str, Any]:
    micro = max(size for size in range(1, 9) if setup.form_rows % size == 0)
    return options(setup, "form", setup.model) | {
        "dataset_name": str(data), "max_steps": setup.form_steps, "learning_rate": setup.form_rate,
        "per_device_train_batch_size": micro, "gradient_accumulation_steps": setup.form_rows // micro,
        "warmup_steps": max(1, setup.form_steps // 10),
    }  # fmt: skip


def grpo_options(setup: Setup, name: str, base: str) -> dict[str, Any]:
    """More questions and fewer rollouts each than usual: the noise of outcomes is larger than that of answers."""
    total = setup.questions * setup.rollouts
    micro = max(size for size in range(1, 5 if setup.cpu else 33) if total % size == 0)
    shared = arguments_of(setup, "train", setup.train_n)
    return options(setup, name, base) | {
        "task": [f"truthgym/{world}" for world in setup.trained],
        "task_args": shared | {world: dict(own) for world, own in setup.trained.items() if own},
        "max_steps": setup.steps or 1000, "num_generations": setup.rollouts, "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": total // micro, "max_completion_length": TRAINED_REPLY, "temperature": 1.0,
        "learning_rate": setup.rate, "lr_scheduler_type": "constant_with_warmup", "beta": 0.0,
        "warmup_steps": 1 if setup.cpu else 3,
        "validation_steps": 0,
    } | ({"reward": [f"{Path(__file__).resolve()}:shuffled"]} if name == "control" else {})  # fmt: skip


def start(setup: Setup) -> None:
    import torch
    import transformers
    import trl

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    tell(setup, "start", "ready", device=device, torch=torch.__version__, transformers=transformers.__version__,
         trl=trl.__version__)  # fmt: skip
    evaluate(setup, setup.model, "start")


def form(setup: Setup) -> None:
    from truthgym.training.train import sft

    data = setup.place / "data"
    data.mkdir(exist_ok=True)
    rows = base_rate_rows(setup)
    (data / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    tell(setup, "form", f"{len(rows)} rows made")
    with with_callback(
        callback(setup, "form", np.inf if setup.in_turn else setup.begin + FORM_SHARE * 60 * setup.minutes)
    ):
        folder = sft(form_options(setup, data))
    write_atomically(setup.place / "form.txt", str(folder))
    _free()
    evaluate(setup, str(folder), "form")


def reinforce(setup: Setup, name: str) -> None:
    """GRPO or its control, from the form, which it waits for with all libraries loaded."""
    import trl  # noqa: F401
    from trl import GRPOTrainer  # noqa: F401

    from truthgym.training.train import grpo

    tell(setup, name, "ready")
    while not (setup.place / "form.txt").is_file():
        time.sleep(0.2)
    base = (setup.place / "form.txt").read_text()
    partner = "control" if name == "grpo" else "grpo"
    with with_callback(callback(setup, name, setup.until, partner)):
        folder = grpo(grpo_options(setup, name, base))
    tell(setup, name, "saved")
    _free()
    evaluate(setup, str(folder), name)


def _free() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def run_stage(name: str, setup: Setup) -> None:
    parts: dict[str, Callable[[], None]] = {
        "start": lambda: start(setup), "form": lambda: form(setup),
        "grpo": lambda: reinforce(setup, "grpo"), "control": lambda: reinforce(setup, "control"),
    }  # fmt: skip
    try:
        parts[name]()
    except BaseException as error:
        tell(setup, name, f"failed: {type(error).__name__}: {str(error)[:500]}")
        raise


# The processes


def run(setup: Setup, out: Path, command: Callable[[str], Sequence[str]] | None = None) -> dict[str, Any]:
    """Run all parts in processes of their own until they are done or time is up, and write what there is."""
    program = [sys.executable, "-m", "studies.gpu.loop", "--stage"]
    own = command or (lambda name: [*program, name, json.dumps(asdict(setup))])
    threads = str(max(1, (os.cpu_count() or 1) // len(STAGES)))
    surroundings = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "INSPECT_DISPLAY": "log",
                    "OMP_NUM_THREADS": threads, "TRL_EXPERIMENTAL_SILENCE": "1",
                    "PYTHONUNBUFFERED": "1"} | os.environ  # fmt: skip
    running: dict[str, subprocess.Popen[bytes]] = {}
    for name in STAGES:
        with (setup.place / f"{name}.log").open("wb") as file:
            running[name] = subprocess.Popen(own(name), env=surroundings, stdout=file, stderr=subprocess.STDOUT)
    told, result = 0, write(setup, out)
    try:
        while running and time.time() < setup.end:
            time.sleep(0.5)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                if code := running.pop(name).returncode:
                    tell(setup, name, f"ended with {code}: {_tail(setup, name, 400)}")
                if name == "form" and not (setup.place / "form.txt").is_file():
                    write_atomically(setup.place / "form.txt", setup.model)  # reinforcement from the start, then
                    tell(setup, "form", "no model: reinforcement begins with the start")
            lines = stages(setup)
            for line in lines[told:]:
                print(" ".join(f"{key}={value}" for key, value in line.items()), flush=True)
            if len(lines) > told:
                result = write(setup, out)
            told = len(lines)
    finally:
        for name, process in running.items():
            tell(setup, name, "time is up")
            process.kill()
            process.wait()
        result = write(setup, out)
    return result


def run_in_turn(setup: Setup, out: Path) -> dict[str, Any]:
    """The same in this process, one part after the other: for a CPU and for tests. Needs `--steps`."""
    for name in STAGES:
        if not (setup.place / f"answers-{name}-{len(setup.temperatures) - 1}.csv").is_file():
            run_stage(name, setup)
        result = write(setup, out)
    return result


def stages(setup: Setup) -> list[dict[str, Any]]:
    file = setup.place / "stages.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]


def _tail(setup: Setup, name: str, characters: int) -> str:
    file = setup.place / f"{name}.log"
    return file.read_text(encoding="utf-8", errors="replace")[-characters:] if file.is_file() else ""


# The result


def answers(setup: Setup) -> pd.DataFrame:
    files = sorted(setup.place.glob("answers-*.csv"))
    if not files:
        return pd.DataFrame()
    frame = pd.concat([pd.read_csv(file) for file in files], ignore_index=True)
    frame["brier"] = (frame["belief"] - frame["outcome"]) ** 2
    return frame


def correlation(x: pd.Series, y: pd.Series, given: pd.Series | None = None) -> Estimate:
    """Pearson's correlation with Fisher's interval, of what a linear fit on `given` leaves. NaN if one never varies."""
    from scipy.stats import norm

    table = pd.DataFrame({"x": x, "y": y, **({} if given is None else {"given": given})}).dropna()
    free = len(table) - 3 - (given is not None)
    left = table[["x", "y"]].to_numpy(dtype=float)
    if given is not None and len(table):
        known = np.column_stack([np.ones(len(table)), table["given"]])
        left = left - known @ np.linalg.lstsq(known, left, rcond=None)[0]
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


def _numbers(found: Estimate) -> dict[str, float | int | None]:
    named = {"value": found.estimate, "lower": found.lower, "upper": found.upper}
    return {key: None if np.isnan(value) else round(float(value), 4) for key, value in named.items()} | {"n": found.n}


def figures(frame: pd.DataFrame, temperature: float, groups: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """A row for each model and reference, in each world and in each group of worlds."""
    some, known, rows = frame[frame["temperature"] == temperature], references(frame), []
    places = {world: [world] for worlds in groups.values() for world in worlds} | dict(groups)
    for place, worlds in places.items():
        for model in [model for model in MODELS if (some["model"] == model).any()]:
            own = some[(some["model"] == model) & some["world"].isin(worlds)]
            exact = correlation(own["belief"], own["exact"])
            rows.append({
                "place": place, "who": model, "brier": _numbers(mean_estimate(own["brier"], None, (0, 1))),
                "read": _numbers(mean_estimate(own["belief"].notna().astype(float), None, (0, 1))),
                "exact": _numbers(exact),
                "evidence": _numbers(correlation(own["belief"], own["exact"], own["base_rate"])),
                "sd": None if own["belief"].count() < 2 else round(float(own["belief"].std()), 3),
            })  # fmt: skip
        for name in known:
            losses = known[name][known.index.isin(worlds, level="world")]
            rows.append({"place": place, "who": str(name), "brier": _numbers(mean_estimate(losses, None, (0, 1)))})
    return rows


def comparisons(frame: pd.DataFrame, temperature: float, groups: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Brier differences of GRPO (and of the form and the control) to others, on questions that both answered."""
    some, known, rows = frame[frame["temperature"] == temperature], references(frame), []
    losses = {str(model): group.set_index(["world", "id"])["brier"] for model, group in some.groupby("model")}
    losses |= {str(name): known[name] for name in known}
    pairs = [("grpo", other) for other in ("start", "form", "control", *known)]
    for one, other in [*pairs, ("form", "start"), ("control", "form"), ("control", "start")]:
        if one in losses and other in losses:
            gap = (losses[one] - losses[other]).dropna()
            for place, worlds in groups.items():
                found = mean_estimate(gap[gap.index.isin(worlds, level="world")], None, (-1, 1))
                rows.append({"place": place, "one": one, "other": other, **_numbers(found), "sign": found.sign})
    return rows


def verdict(rows: Sequence[Mapping[str, Any]], compared: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Which of the expected was reached, in words and as yes or no; None where a part is missing."""
    signs = {(row["place"], row["other"]): row["sign"] for row in compared if row["one"] == "grpo"}
    brier = {(row["place"], row["who"]): row["brier"]["value"] for row in rows}
    read = {row["place"]: row["read"]["value"] for row in rows if row["who"] == "grpo"}
    if not read:
        return {"reached": dict.fromkeys(EXPECTED), "sentences": ["GRPO's answers are missing: there is no verdict."]}
    better = {other: sign < 0 for (place, other), sign in signs.items() if place == "trained on"}
    order = ["start", "best constant", "stated base rate"]
    beaten = [f"the {name}" for name in order if better.get(name)]
    missed = [f"the {name}" for name in order if name in better and not better[name]]
    gain = f"a gain over {' and '.join(beaten)}" if beaten else "no gain"
    rest = f"{', but not' if beaten else ''} over {' or '.join(missed)}" if missed else ""
    sentences = [f"On the worlds that were trained on: {gain}{rest}."]
    for other, what in {"form": "the form that it began with", "control": "the control with shuffled rewards"}.items():
        if other in better:
            sentences.append(f"GRPO is {'' if better[other] else 'not clearly '}better than {what}.")
    others = signs.get(("not trained on", "start"))
    if others is not None:
        words = {-1: "better than the start", 0: "not clearly different from the start", 1: "worse than the start"}
        sentences.append(f"On the worlds that were not trained on it is {words[others]}.")
    own, base = (brier.get(("trained on", who)) for who in ("grpo", "stated base rate"))
    reached = {
        "base rate": None if own is None or base is None else own < base,
        "read": min(read.values()) > 0.98,
        "others": None if others is None else others <= 0,
    }
    return {"reached": reached, "sentences": sentences}


def report(result: Mapping[str, Any]) -> str:
    """The page."""

    def cell(found: Mapping[str, Any] | None, digits: int = 3) -> str:
        values = [np.nan if found[key] is None else found[key] for key in ("value", "lower", "upper")] if found else []
        return with_interval(values[0], values[1], values[2], digits) if values else ""

    parts = ["# The closed loop", " ".join(result["verdict"]["sentences"])]
    words = {None: "unknown", True: "reached", False: "not reached"}
    parts.append("\n".join(f"- Expected: {text}: **{words[result['verdict']['reached'][key]]}**."
                           for key, text in EXPECTED.items()))  # fmt: skip
    for kind, tables in result["tables"].items():
        header = ["questions", "answers of", "Brier", "read", "correlation with the exact posterior",
                  "the same, given the base rate", "SD of answers"]  # fmt: skip
        rows = [[row["place"], row["who"], cell(row["brier"]), cell(row.get("read")), cell(row.get("exact"), 2),
                 cell(row.get("evidence"), 2), f"{row['sd']:.3f}" if row.get("sd") is not None else ""]
                for row in tables["figures"]]  # fmt: skip
        gaps = [[row["place"], f"{row['one']} minus {row['other']}", cell(row), str(row["n"])]
                for row in tables["comparisons"]]  # fmt: skip
        parts += [f"## At temperature {kind}", markdown(header, rows).strip(),
                  markdown(["worlds", "Brier", "difference", "questions"], gaps).strip()]  # fmt: skip
    lines = [[f"{line['at']:.0f}", line["stage"], line["what"].splitlines()[0].replace("|", "/"),
              ", ".join(f"{key} {value}" for key, value in line.items() if key not in ("at", "stage", "what"))]
             for line in result["stages"] if "what" in line]  # fmt: skip
    parts += ["## When", markdown(["second", "part", "what", "figures"], lines)]
    return "\n\n".join(parts)


def texts(result: Mapping[str, Any]) -> dict[str, str]:
    """What `docs/loop.md` has of a run with `--cpu`: a table, and the verdict."""
    found = {(row["place"], row["who"]): row for row in result["tables"]["1"]["figures"]}
    whose = {"start": "the model at the start", "form": "the form", "grpo": "GRPO",
             "control": "control: rewards shuffled among the rollouts of a question"}  # fmt: skip

    def cell(figure: Mapping[str, Any], digits: int = 3) -> str:
        values = [np.nan if figure[key] is None else figure[key] for key in ("value", "lower", "upper")]
        return with_interval(values[0], values[1], values[2], digits)

    rows = []
    for who in [who for place, who in found if place == "trained on"]:
        own, other = found["trained on", who], found["not trained on", who]
        read = ", ".join(cell(row["read"], 2).split(" ")[0] for row in (own, other) if "read" in row)
        rows.append([whose.get(who, f"the {who}"), cell(own["brier"]), cell(other["brier"]), read])
    table = markdown(["answers of", *map(", ".join, result["groups"].values()), "read"], rows).strip()
    return {"cpu": f"\n{table}\n", "cpu verdict": " ".join(result["verdict"]["sentences"])}


def write(setup: Setup, out: Path) -> dict[str, Any]:
    """Write everything that is known by now."""
    frame = answers(setup)
    done = [
        temperature for temperature in setup.temperatures if len(frame) and (frame["temperature"] == temperature).any()
    ]
    kinds = (figures, comparisons)
    tables = {f"{at:g}": {kind.__name__: kind(frame, at, setup.groups) for kind in kinds} for at in done}
    first = tables.get("1", {"figures": [], "comparisons": []})
    curves = {name: json.loads(file.read_text()) for name in STAGES
              if (file := setup.place / f"curve-{name}.json").is_file()}  # fmt: skip
    result = {
        "setup": asdict(setup), "worlds": {"trained on": setup.trained, "not trained on": setup.others},
        "verdict": verdict(first["figures"], first["comparisons"]), "tables": tables, "stages": stages(setup),
        "curves": curves, "groups": setup.groups, "expected": EXPECTED,
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "result.json", json.dumps(result, indent=1) + "\n")
    write_atomically(out / "result.md", report(result))
    write_atomically(out / "answers.csv", frame.to_csv(index=False))
    write_atomically(out / "log.txt", "".join(f"== {name}\n{_tail(setup, name, 40_000)}\n" for name in STAGES))
    return result


def main(words: Sequence[str] | None = None) -> None:
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["--stage"]:
        run_stage(words[1], Setup(**json.loads(words[2])))
        return
    begin = time.time()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a folder, or a name on the Hub")
    parser.add_argument("out", type=Path, help="folder of the results: four small files")
    parser.add_argument("--work", type=Path, help="folder of models and logs [a temporary one, which is kept]")
    parser.add_argument("--in-turn", action="store_true", help="the parts in turn, in this process; with --steps")
    parser.add_argument("--page", type=Path, help="a page that gets the result of `--cpu`: docs/loop.md")
    parser.add_argument("--cpu", action="store_true", help="a smaller run, in turn, which the same command resumes")
    helps = {
        "minutes": "of all", "reserve": "seconds of it for the last evaluation",
        "n": "held-out questions of each world", "form_steps": "of the form at most", "form_rows": "in a step",
        "form_rate": "learning rate of the form", "questions": "in a step of GRPO",
        "rollouts": "of each question", "rate": "learning rate of GRPO",
        "steps": "of GRPO; 0 for as many as there is time for", "train_n": "training questions of each world",
    }  # fmt: skip
    for name, text in helps.items():
        own, default = f"--{name.replace('_', '-')}", getattr(Setup, name)
        parser.add_argument(own, type=type(default), default=default, help=f"{text} [{default}]")
    parser.set_defaults(**CPU if "--cpu" in words else {})
    args = parser.parse_args(words)
    args.in_turn |= args.cpu
    if args.in_turn and not args.steps:
        parser.error("--in-turn has no clock for two trainings; give --steps")
    work = args.work or Path(tempfile.mkdtemp(prefix="loop-"))
    work.mkdir(parents=True, exist_ok=True)
    if any(work.iterdir()) and not args.cpu:
        parser.error(f"--work {work}: there is something in it; name a new folder")
    setup = Setup(model=args.model, work=str(work), begin=begin, in_turn=args.in_turn, cpu=args.cpu,
                  **{name: getattr(args, name) for name in helps})  # fmt: skip
    result = (run_in_turn if args.in_turn else run)(setup, args.out)
    print(report(result), flush=True)
    if args.page:
        write_texts(args.page, texts(result))


if __name__ == "__main__":
    main()
