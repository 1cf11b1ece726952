"""A run of verl that takes its rewards from a server: planned, run, and recorded however it ends.

truthgym lineage verl prepare trained/run --data data/train.parquet --server URL -- trainer.total_epochs=1
truthgym lineage verl run trained/run
truthgym lineage verl finalize trained/run        # only if the run was killed before it could do so
"""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput, not_on_windows
from truthgym.training import served_rewards as served
from truthgym.training.files import folder_lock, write_atomically
from truthgym.training.statements import Status, digest_of, record, store_of

PLAN = "run.json"
ATTEMPT = "attempt.json"
"""How the last run of the plan stands: its process, then its exit status, then its statement."""
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
        BadInput: There is a plan already, another command uses the folder, or the server does not answer.
    """
    with folder_lock(folder):
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
        command = [
            sys.executable,
            "-m",
            "verl.trainer.main_ppo",
            *(f"{name}={value}" for name, value in options.items()),
        ]
        content = {
            "trainer": "verl",
            "command": [*command, *overrides],
            "data": {"path": str(data), "sha256": digest_of(data)},
            "reward": {"server": server, "made_of": served.made_of(health)},
        }
        return write_atomically(plan, json.dumps(content, indent=1) + "\n")


def run(folder: Path) -> int:
    """Run a plan to its end. The server must score with what it scored with when the run was planned.

    SIGTERM and SIGINT are passed on to the command, whose end is then waited for. How it ended is written to the
    folder, for `finalize`. A run that was recorded may be run again: verl goes on from its last checkpoint.

    Returns:
        The exit status of the command; negative if a signal ended it. 127 if there is no such command.

    Raises:
        BadInput: On Windows; there is no plan, its data has changed, another command runs it, or an earlier one is not
            recorded.
    """
    not_on_windows("truthgym lineage verl run")
    with folder_lock(folder):
        plan, before = _read(folder)
        if before and "statement" not in before:
            _check_ended(folder, before)
            raise BadInput(f"{folder}: its last run is not recorded; `truthgym lineage verl finalize {folder}` first")
        data = Path(plan["data"]["path"])
        if data.exists() and digest_of(data) != plan["data"]["sha256"]:
            raise BadInput(f"{data} was changed after the run was planned; plan another run")
        _write(folder, {"process": 0, "created": None})
        try:
            process = subprocess.Popen(plan["command"], start_new_session=True)
        except OSError:
            _write(folder, {"exit_status": 127, "ended": _now()})
            return 127
        _write(folder, {"process": process.pid, "created": _created(process.pid)})
        status = _wait(process)
        _write(folder, {"exit_status": status, "ended": _now()})
        return status


def finalize(folder: Path, exit_status: int | None = None) -> Path:
    """Record how the last run of a plan ended: succeeded with a checkpoint, failed, or cancelled.

    It may be called later, and again: what was recorded stays as it is. A run whose own command was killed with
    SIGKILL left no exit status, and is recorded as failed unless one is given.

    Args:
        folder: The run's folder.
        exit_status: How the command ended, for a run that left no exit status; 143 is cancelled.

    Returns:
        The statement. Its subject is the newest checkpoint with all its files, or the plan if there is none.

    Raises:
        BadInput: There is no plan, it was not run, it is running, or it left another exit status.
    """
    with folder_lock(folder):
        plan, attempt = _read(folder)
        if not attempt:
            raise BadInput(f"{folder} was planned and not run; `truthgym lineage verl run {folder}`")
        if "ended" not in attempt:
            _check_ended(folder, attempt)
            attempt = _write(folder, {"exit_status": exit_status, "ended": _now()})
        left = attempt["exit_status"]
        if exit_status not in (None, left):
            raise BadInput(f"{folder}: its run ended with {_named(left)}, not {exit_status}; omit --exit-status")
        if "statement" not in attempt or not Path(folder / attempt["statement"]).is_file():
            statement = _record(folder, plan, left, attempt["ended"])
            attempt = _write(folder, attempt | {"statement": str(statement.relative_to(folder.resolve()))})
        return folder / str(attempt["statement"])


def _record(folder: Path, plan: Mapping[str, Any], exit_status: int | None, ended: str) -> Path:
    written = _newest(folder / CHECKPOINTS) if exit_status == 0 else []
    status: Status = "succeeded" if written else "cancelled" if exit_status in CANCELLED else "failed"
    failure = {"stage": "train", "type": _named(exit_status)}
    if exit_status == 0 and not written:
        failure = {"stage": "finalize", "type": "no checkpoint", "message": f"{CHECKPOINTS}/ is empty"}
    return record(
        "train",
        written or [folder / PLAN],
        {plan["data"]["path"]: plan["data"]["sha256"], **plan["reward"]["made_of"]},
        store=store_of(folder.resolve()),
        status=status,
        parameters={"trainer": plan["trainer"], "command": plan["command"]},
        failure={} if status == "succeeded" else failure,
        finished=ended,
    )


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """The exit status of a process, to which signals of this one are passed on."""
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


def _check_ended(folder: Path, attempt: Mapping[str, Any]) -> None:
    """Check that a command which left no exit status does not run on, without the one that started it."""
    if attempt.get("created") is not None and _created(attempt["process"]) == attempt["created"]:
        raise BadInput(f"{folder}: process {attempt['process']} still trains; wait until it ends, or stop it first")


def _created(process: int) -> float | None:
    """When a process was started, which tells it from a later one with its number. None if it does not run."""
    import psutil

    try:
        running = psutil.Process(process)
        return None if running.status() == psutil.STATUS_ZOMBIE else float(running.create_time())
    except psutil.Error:
        return None


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan, and how its last run stands; empty if it was not run."""
    plan, attempt = folder / PLAN, folder / ATTEMPT
    if not plan.is_file():
        raise BadInput(f"{folder} has no {PLAN}; `truthgym lineage verl prepare` writes one")
    return json.loads(plan.read_text(encoding="utf-8")), (
        json.loads(attempt.read_text(encoding="utf-8")) if attempt.is_file() else {}
    )


def _write(folder: Path, attempt: dict[str, Any]) -> dict[str, Any]:
    write_atomically(folder / ATTEMPT, json.dumps(attempt))
    return attempt


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _named(exit_status: int | None) -> str:
    return "no exit status: it was killed" if exit_status is None else f"exit status {exit_status}"


def _newest(checkpoints: Path) -> list[Path]:
    """The checkpoint of the highest step, verl's `global_step_N`, if there is one with a file."""
    steps = {
        int(path.name.removeprefix(STEP)): path
        for path in checkpoints.glob(f"{STEP}*")
        if path.name.removeprefix(STEP).isdecimal() and any(one.is_file() for one in path.rglob("*"))
    }
    return [steps[max(steps)]] if steps else []
