"""A run of verl: planned against a server that answers, and recorded however it ends."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import Request, serving
from truthgym.datasets.errors import BadInput
from truthgym.serve.client import compute_score
from truthgym.serve.verl import CHECKPOINTS, PLAN, finalize, prepare, run

ARTIFACT = "a" * 64
HEALTH = json.dumps({"status": "ok", "scorer": "graded", "artifact": ARTIFACT}).encode()


def answering(request: Request) -> tuple[int, dict[str, str], bytes]:
    if request.path == "/healthz":
        return 200, {}, HEALTH
    rewards = [{"reward": len(item["response"]) / 10, "error": None} for item in json.loads(request.body)["items"]]
    return 200, {}, json.dumps({"results": rewards}).encode()


TRAINER = """
import importlib.util, os, pathlib, sys
options = dict(one.split("=", 1) for one in sys.argv[1:] if "=" in one)
spec = importlib.util.spec_from_file_location("mine", options["reward.custom_reward_function.path"])
module = importlib.util.module_from_spec(spec)
sys.modules["mine"] = module
spec.loader.exec_module(module)
score = getattr(module, options["reward.custom_reward_function.name"])
reward = score("urns", "four", "yes", {"question": "Is it?"})
folder = pathlib.Path(options["trainer.default_local_dir"]) / "global_step_1"
folder.mkdir(parents=True)
(folder / "model.bin").write_text(f"{reward['score']} {os.environ['TRUTHGYM_SERVE_DIGEST']}")
"""
"""Loads the reward function and calls it as verl does."""


def planned(tmp_path: Path, program: str) -> Path:
    """A plan whose command is a program in place of verl."""
    data, folder = tmp_path / "train.parquet", tmp_path / "run"
    data.write_bytes(b"rows")
    with serving(answering) as server:
        plan = prepare(folder, data, server.address, ["trainer.total_epochs=1"])
        content = json.loads(plan.read_text())
        assert content["command"][1:3] == ["-m", "verl.trainer.main_ppo"]
        assert content["command"][-1] == "trainer.total_epochs=1"
        content["command"] = [sys.executable, "-c", program, *content["command"][3:]]
        plan.write_text(json.dumps(content))
        status = run(folder)
    return finalize(folder, status)


def result(statement: Path) -> tuple[Any, Any, str]:
    content = json.loads(statement.read_text())
    outcome = content["predicate"]["result"]
    return outcome["status"], outcome["failure"], content["subject"][0]["name"]


def test_a_run_takes_its_reward_from_the_server(tmp_path: Path) -> None:
    statement = planned(tmp_path, TRAINER)
    assert result(statement) == ("succeeded", {}, f"run/{CHECKPOINTS}/global_step_1")
    assert (tmp_path / "run" / CHECKPOINTS / "global_step_1" / "model.bin").read_text() == f"0.4 {ARTIFACT}"
    parents = json.loads(statement.read_text())["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert [one["name"] for one in parents] == ["train.parquet", "scorer:graded"]
    assert parents[1]["digest"]["sha256"] == ARTIFACT


def test_a_run_that_fails_is_recorded(tmp_path: Path) -> None:
    failure = {"stage": "train", "type": "exit status 3"}
    assert result(planned(tmp_path, "raise SystemExit(3)")) == ("failed", failure, f"run/{PLAN}")


def test_a_run_that_is_stopped_is_cancelled(tmp_path: Path) -> None:
    program = f"import os; os.kill(os.getpid(), {int(signal.SIGTERM)})"
    assert result(planned(tmp_path, program))[0] == "cancelled"


def test_a_run_without_a_checkpoint_failed(tmp_path: Path) -> None:
    status, failure, _ = result(planned(tmp_path, ""))
    assert (status, failure["type"]) == ("failed", "no checkpoint")


def test_a_server_must_answer(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("")
    with pytest.raises(BadInput, match="start it with `truthgym serve`"):
        prepare(tmp_path / "run", tmp_path / "d", "http://127.0.0.1:9")


def test_verl_gets_an_error_and_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"reward": None, "error": {"code": "judge_reply", "retryable": False}}
    with serving(lambda request: (200, {}, json.dumps({"results": [failed]}).encode())) as server:
        monkeypatch.setenv("TRUTHGYM_SERVE_URL", server.address)
        with pytest.raises(RuntimeError, match="could not be scored"):
            compute_score("urns", "four", None)
