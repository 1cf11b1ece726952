"""A run of verl that takes its rewards from a server: planned, run, and recorded however it ends.

truthgym lineage verl trained/run --data data/train.parquet --server http://127.0.0.1:8080 -- trainer.total_epochs=1
"""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from truthgym.datasets.errors import BadInput
from truthgym.training import served
from truthgym.training.artifacts import write_atomically
from truthgym.training.statements import Status, digest_of, record, store_of

PLAN = "run.json"
CHECKPOINTS = "checkpoints"
STEP = "global_step_"
CANCELLED = (-signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGTERM)
"""Exit statuses of a run that somebody stopped."""


def prepare(folder: Path, data: Path, server: str, overrides: Sequence[str] = ()) -> Path:
    """Write the plan of a run: its command, its data by digest, and what gives the rewards by digest.

    Args:
        folder: The run's folder, which must not have a plan yet.
        data: The training file.
        server: Address of a reward server, which must answer.
        overrides: Further options of verl, as NAME=VALUE.

    Returns:
        The plan.

    Raises:
        BadInput: There is a plan already, or the server does not answer.
    """
    plan = folder / PLAN
    if plan.exists():
        raise BadInput(f"{plan} exists: this run was planned already; give another folder")
    try:
        health = asyncio.run(served.RewardClient(server).health())
    except RuntimeError as error:
        raise BadInput(f"--server {server}: {error}; start it with `truthgym serve`") from None
    reward = {
        "reward.custom_reward_function.path": str(Path(served.__file__).resolve()),
        "reward.custom_reward_function.name": served.compute_score.__name__,
        "+reward.custom_reward_function.reward_kwargs.server": f"'{server}'",
        "+reward.custom_reward_function.reward_kwargs.digest": f"'{health['artifact']}'",
    }
    options = {
        "data.train_files": str(data.resolve()),
        "trainer.default_local_dir": str((folder / CHECKPOINTS).resolve()),
        **reward,
    }
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *(f"{name}={value}" for name, value in options.items())]
    content = {
        "trainer": "verl",
        "command": [*command, *overrides],
        "data": {"path": str(data), "sha256": digest_of(data)},
        "reward": {"server": server, "made_of": served.made_of(health)},
    }
    return write_atomically(plan, json.dumps(content, indent=1) + "\n")


def run(folder: Path) -> int:
    """Run a plan to its end. The server must score with what it scored with when the run was planned.

    SIGTERM and SIGINT are passed on to the command, whose end is then waited for.

    Returns:
        The exit status of the command; negative if a signal ended it. 127 if there is no such command.
    """
    plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    try:
        process = subprocess.Popen(plan["command"], start_new_session=True)
    except OSError:
        return 127
    stopped: list[int] = []

    def stop(number: int, _: object) -> None:
        stopped.append(number)
        process.send_signal(signal.SIGTERM if len(stopped) < 3 else signal.SIGKILL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return -stopped[0] if stopped and status else status


def finalize(folder: Path, exit_status: int) -> Path:
    """Record how a run ended: succeeded with a checkpoint, failed, or cancelled.

    Returns:
        The statement. Its subject is the newest checkpoint with all its files, or the plan if there is none.
    """
    plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    written = _newest(folder / CHECKPOINTS) if exit_status == 0 else []
    status: Status = "succeeded" if written else "cancelled" if exit_status in CANCELLED else "failed"
    failure = {"stage": "train", "type": f"exit status {exit_status}"}
    if exit_status == 0 and not written:
        failure = {"stage": "finalize", "type": "no checkpoint", "message": f"{CHECKPOINTS}/ is empty"}
    return record(
        "train",
        written or [folder / PLAN],
        {plan["data"]["path"]: plan["data"]["sha256"], **plan["reward"]["made_of"]},
        store=store_of(folder),
        status=status,
        parameters={"trainer": plan["trainer"], "command": plan["command"]},
        failure={} if status == "succeeded" else failure,
    )


def _newest(checkpoints: Path) -> list[Path]:
    """The checkpoint of the highest step, verl's `global_step_N`, if there is one with a file."""
    steps = {
        int(path.name.removeprefix(STEP)): path
        for path in checkpoints.glob(f"{STEP}*")
        if path.name.removeprefix(STEP).isdecimal() and any(one.is_file() for one in path.rglob("*"))
    }
    return [steps[max(steps)]] if steps else []
