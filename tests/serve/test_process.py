"""One real server: a training run takes its rewards from it, and it answers what is open before it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from truthgym.training.lineage import Lineage, digest_of

GRADER = """
import time
def grade(sample, item):
    text = sample["output_text"]
    if "slow" in text:
        time.sleep(1)
    return (sum(map(ord, text)) % 101 + 1) / 102
"""
TOKEN = "of-the-trainer"


@dataclass
class Running:
    process: "subprocess.Popen[bytes]"
    url: str
    log: Path

    def post(self, path: str, body: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=body, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)

    def metrics(self) -> str:
        return httpx.get(f"{self.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60).text

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def until(true: Callable[[], bool]) -> None:
    for _ in range(2400):
        if true():
            return
        time.sleep(0.1)
    pytest.fail("it took too long")


def ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).is_success
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "grader.py").write_text(GRADER)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--scorer graded -S grader={folder}/grader.py -S trusted=true --port {port} --log {folder}/log"
    command = [sys.executable, "-m", "truthgym.cli.main", "serve", *options.split()]
    environment = {**os.environ, "TRUTHGYM_SERVE_TOKEN": TOKEN}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    server = Running(process, f"http://127.0.0.1:{port}", folder / "log")
    until(lambda: process.poll() is not None or ready(server.url))
    assert process.poll() is None, (process.stdout or sys.stdin).read()
    assert process.stdout
    assert f"graded on {server.url}, artifact " in process.stdout.readline().decode()
    yield server
    process.kill()
    process.wait()


@pytest.mark.slow
def test_grpo_takes_its_reward_from_the_server(
    running: Running, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from truthgym.training.train import grpo

    monkeypatch.setenv("TRUTHGYM_SERVE_TOKEN", TOKEN)
    folder = grpo(
        {
            "model_name_or_path": str(tiny_model),
            "task": ["truthgym/urns"],
            "task_args": {"n": 40, "paradigms": "brier"},
            "reward": [running.url],
            "output_dir": str(tmp_path / "trained"),
            "max_steps": 1,
            "num_generations": 4,
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 1,
            "max_completion_length": 6,
            "report_to": "none",
            "validation_steps": 0,
        }
    )
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    rewards = [reward for line in running.lines() for reward in line.get("rewards", [])]
    assert len(rewards) == 8
    assert len(set(rewards)) > 1
    trained = next(row for row in history if "reward" in row)
    assert trained["reward"] == pytest.approx(sum(rewards) / 8, rel=1e-4)
    (statement,) = Lineage([folder]).statements.values()
    health = httpx.get(f"{running.url}/healthz", timeout=5).json()
    digests = {parent.name: parent.digest for parent in statement.parents}
    assert digests["scorer:graded"] == health["artifact"] != ""
    assert digests["served:grader.py"] == digest_of(running.log.with_name("grader.py"))


@pytest.mark.slow
def test_what_is_open_is_answered_after_sigterm(running: Running) -> None:
    body = {"prompt": "q", "response": "slow", "target": "t"}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(running.post, "/score", body)
        until(lambda: "truthgym_queue 1.0" in running.metrics())
        running.process.send_signal(signal.SIGTERM)
        until(lambda: httpx.get(f"{running.url}/readyz", timeout=5).status_code == 503)
        assert answer.result().status_code == 200
    assert answer.result().json()["score"] == pytest.approx((sum(map(ord, "slow")) % 101 + 1) / 102)
    assert running.process.wait(30) == 0
    assert [line["status"] for line in running.lines() if line["endpoint"] == "/score"] == [200]
