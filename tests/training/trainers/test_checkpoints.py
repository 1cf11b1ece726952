"""Saving: what a kill leaves on disk is enough to go on from, to the same model as without it."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import LOADED
from tests.fixtures import same_weights
from truthgym.training.trainers.model_card import read_card

TRAININGS = """
import gc, importlib, json, os, signal, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for name in sys.argv[2:]:
    importlib.import_module(name)
import trl
from transformers import Trainer
from truthgym.cli.train import train
from truthgym.training.rollouts import callbacks, policy
from truthgym.training.rollouts.runner import Rollouts
from truthgym.training.tiny import tiny

trainers = trl.DPOTrainer, trl.GRPOTrainer
run, step = Rollouts.run, Trainer.training_step

def rolls(self, keys, engine, number, rank=()):
    class Dies(type(engine)):
        def __call__(self, requests):
            if killed == ["rollouts", number]:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(requests)
    engine.__class__ = Dies
    return run(self, keys, engine, number, rank)

def updates(self, *args, **kwargs):
    loss = step(self, *args, **kwargs)
    if killed == ["update", self.state.global_step]:
        os.kill(os.getpid(), signal.SIGKILL)
    return loss

Rollouts.run, Trainer.training_step = rolls, updates
tiny(sys.argv[1], steps=0, hidden=32, layers=1)
gc.freeze()  # else each process looks through all of it again
for line in sys.stdin:
    method, words, killed, told = json.loads(line)
    if (process := os.fork()) == 0:
        said = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1), os.dup2(said, 2)
        train(method, words)
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), file=answers, flush=True)
"""
"""Makes a tiny model, and trains as `truthgym train` does in a process for each line that it reads: what all of them
import is imported once."""

TRAIN = ["truthgym.training.train", "truthgym.training.rollouts.trainer", "altair"]
"""What trainings load besides."""
Train = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models") / "tiny"


@pytest.fixture(scope="module")
def train(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Train]:
    """Train in a process that may be killed, and tell how it ended and what it said."""
    with subprocess.Popen(
        [sys.executable, "-c", TRAININGS, str(base), *LOADED, *TRAIN], stdin=-1, stdout=-1, text=True
    ) as trainings:
        stdin, answered = trainings.stdin, trainings.stdout
        assert stdin
        assert answered

        def run(method: str, *words: str, killed: tuple[str, int] | None = None) -> tuple[int, str]:
            output = tmp_path_factory.mktemp("said") / "said.txt"
            print(json.dumps([method, words, killed, str(output)]), file=stdin, flush=True)
            return int(answered.readline()), output.read_text()

        yield run
        stdin.close()


def words(**options: Any) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def of_rollouts(folder: Path) -> dict[str, Any]:
    """Options for GRPO with a reward that tells the answers of an untrained model apart."""
    (folder / "rewards.py").write_text("def long(completions, **_): return [len(str(text)) for text in completions]\n")
    options = {"task": "truthgym/urns", "task_args": "{n: 60, paradigms: brier}", "validation_steps": 0}
    size = {"num_generations": 4, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
    return options | size | {"reward": f"{folder / 'rewards.py'}:long", "max_steps": 4, "max_completion_length": 6}


@pytest.mark.slow
def test_a_kill_loses_nothing(train: Train, base: Path, tmp_path: Path) -> None:
    args = {"model_name_or_path": base, "learning_rate": 1e-2, "save_steps": 2, "report_to": "none"}
    args |= of_rollouts(tmp_path)
    code, output = train("grpo", *words(**args, output_dir=tmp_path / "whole"))
    assert code == 0, output
    (whole,) = (tmp_path / "whole").glob("tiny-*")
    folder = tmp_path / "trained" / whole.name
    options = words(**args, output_dir=folder.parent)
    for killed in (("rollouts", 3), ("update", 3)):
        code, output = train("grpo", *options, killed=killed)
        assert code == -signal.SIGKILL, output
        assert (folder / "checkpoints" / "checkpoint-2").is_dir()
        assert not (folder / "README.md").exists()
    code, output = train("grpo", *options)
    assert code == 0, output
    assert "Resuming from" in output
    assert same_weights(folder, whole)
    assert not same_weights(folder, base)
    assert read_card(folder).curve == read_card(whole).curve
