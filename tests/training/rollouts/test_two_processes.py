"""Reinforcement on two processes: each has its own rollouts, and both train the same model."""

import os
import socket
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import read_eval_log

from tests.fixtures import same_weights
from tests.training.rollouts.test_trainer import training_options

REWARD = "def letters(completions, **_):\n    return [float(len(reply[0]['content'])) for reply in completions]\n"


def one_of_two(rank: int, port: int, options: dict[str, Any]) -> None:
    """Train as a process that `accelerate launch` or `torchrun` starts."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    from accelerate.state import AcceleratorState  # type: ignore[import-untyped]

    from truthgym.training.train import grpo

    AcceleratorState._reset_state(reset_partial_state=True)  # of a training in this test's process
    grpo(options)


@pytest.mark.slow
def test_two_processes_train_one_model_on_disjoint_rollouts(base: Path, tmp_path: Path) -> None:
    (tmp_path / "rewards.py").write_text(REWARD, encoding="utf-8")
    options = training_options(
        base, tmp_path, max_steps=1, per_device_train_batch_size=4, use_cpu=True, ddp_backend="gloo"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fork = get_context("fork")  # what is imported is not imported again
    processes = [fork.Process(target=one_of_two, args=(rank, port, options)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=240)
        process.kill()
    assert [process.exitcode for process in processes] == [0, 0]

    logs = [read_eval_log(str(path)) for path in sorted((tmp_path / "trained").rglob("*.eval"))]
    assert len(logs) == 2, "each process writes its own log"
    first, second = ({sample.id for sample in log.samples or []} for log in logs)
    assert [len(log.samples or []) for log in logs] == [4, 4]
    assert not first & second
    (saved,) = (tmp_path / "trained").rglob("model.safetensors")
    assert not same_weights(saved.parent, base)
