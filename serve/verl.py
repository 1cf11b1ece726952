"""A run of verl that takes its rewards from a server: planned, run, and recorded however it ends.

truthgym lineage verl trained/run --data data/train.parquet --server http://127.0.0.1:8080 -- trainer.total_epochs=1
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from truthgym.datasets.errors import BadInput
from truthgym.serve import client
from truthgym.training.artifacts import write_atomically
from truthgym.training.statements import Status, digest_of, record, store_of

PLAN = "run.json"
CHECKPOINTS = "checkpoints"
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
        health = asyncio.run(client.RewardClient(server).health())
    except RuntimeError as error:
        raise BadInput(f"--server {server}: {error}; start it with `truthgym serve`") from None
    reward = {
        "custom_reward_function.path": str(Path(client.__file__).resolve()),
        "custom_reward_function.name": client.compute_score.__name__,
    }
    options = {
        "data.train_files": str(data.resolve()),
        "trainer.default_local_dir": str((folder / CHECKPOINTS).resolve()),
        **{f"reward.{name}": value for name, value in reward.items()},
    }
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *(f"{name}={value}" for name, value in options.items())]
    content = {
        "trainer": "verl",
        "command": [*command, *overrides],
        "data": {"path": str(data), "sha256": digest_of(data)},
        "reward": {"server": server, "scorer": health["scorer"], "artifact": health["artifact"]},
    }
    return write_atomically(plan, json.dumps(content, indent=1) + "\n")


def run(folder: Path) -> int:
    """Run a plan to its end. The server must score with what it scored with when the run was planned.

    Returns:
        The exit status of the command; negative if a signal ended it.
    """
    plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    reward = {"TRUTHGYM_SERVE_URL": plan["reward"]["server"], "TRUTHGYM_SERVE_DIGEST": plan["reward"]["artifact"]}
    process = subprocess.Popen(plan["command"], env={**os.environ, **reward})
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        return -signal.SIGINT


def finalize(folder: Path, exit_status: int) -> Path:
    """Record how a run ended: succeeded with a checkpoint, failed, or cancelled.

    Returns:
        The statement. Its subjects are the newest checkpoint, or the plan if there is none.
    """
    plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    written = [path for path in (folder / CHECKPOINTS).rglob("*") if path.is_file()] if exit_status == 0 else []
    status: Status = "succeeded" if written else "cancelled" if exit_status in CANCELLED else "failed"
    failure = {"stage": "train", "type": f"exit status {exit_status}"}
    if exit_status == 0 and not written:
        failure = {"stage": "finalize", "type": "no checkpoint", "message": f"{CHECKPOINTS}/ is empty"}
    newest = sorted({path.parent for path in written}, key=lambda path: path.stat().st_mtime)[-1:]
    return record(
        "train",
        newest or [folder / PLAN],
        {
            plan["data"]["path"]: plan["data"]["sha256"],
            f"scorer:{plan['reward']['scorer']}": plan["reward"]["artifact"],
        },
        store=store_of(folder),
        status=status,
        parameters={"trainer": plan["trainer"], "command": plan["command"]},
        failure={} if status == "succeeded" else failure,
    )
