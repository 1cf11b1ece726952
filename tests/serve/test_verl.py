"""A run of verl: planned against a server that answers, and recorded however it ends."""

import asyncio
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import Request, serving
from truthgym.datasets.errors import BadInput
from truthgym.serve.verl import ATTEMPT, CHECKPOINTS, PLAN, _created, finalize, prepare, run
from truthgym.training.files import folder_lock
from truthgym.training.lineage import Lineage
from truthgym.training.served_rewards import compute_score, served
from truthgym.training.statements import record

ARTIFACT = "a" * 64
MADE_OF = {"artifact:rm-bbbbbbbbbbbb": "b" * 64}
HEALTH = json.dumps({"status": "ok", "scorer": "rubric", "artifact": ARTIFACT, "made_of": MADE_OF}).encode()


def answering(request: Request) -> tuple[int, dict[str, str], bytes]:
    if request.path == "/healthz":
        return 200, {}, HEALTH
    assert request.headers["X-Artifact-Digest"] == ARTIFACT
    items = enumerate(json.loads(request.body)["items"])
    rewards = [{"index": i, "reward": len(item["response"]) / 10, "error": None} for i, item in items]
    return 200, {}, json.dumps({"results": rewards}).encode()


TRAINER = """
import importlib.util, os, pathlib, sys
options = dict(one.split("=", 1) for one in sys.argv[1:] if "=" in one)
spec = importlib.util.spec_from_file_location("mine", options["reward.custom_reward_function.path"])
module = importlib.util.module_from_spec(spec)
sys.modules["mine"] = module
spec.loader.exec_module(module)
score = getattr(module, options["reward.custom_reward_function.name"])
start = "+reward.custom_reward_function.reward_kwargs."
given = {name.removeprefix(start): value.strip("'") for name, value in options.items() if name.startswith(start)}
reward = score("urns", "four", "yes", {"question": "Is it?"}, **given)
folder = pathlib.Path(options["trainer.default_local_dir"])
for step in (2, 10):
    (folder / f"global_step_{step}/actor/huggingface").mkdir(parents=True)
    (folder / f"global_step_{step}/actor/model_world_size_1_rank_0.pt").write_text(f"{reward['score']} {step}")
    (folder / f"global_step_{step}/actor/huggingface/config.json").write_text("{}")
    (folder / f"global_step_{step}/data.pt").write_text("loader")
(folder / "latest_checkpointed_iteration.txt").write_text("10")
"""
"""Loads the reward function and calls it as verl does, and leaves what verl leaves."""


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
    newest = tmp_path / "run" / CHECKPOINTS / "global_step_10"
    assert result(statement) == ("succeeded", {}, f"run/{CHECKPOINTS}/global_step_10")
    assert (newest / "actor" / "model_world_size_1_rank_0.pt").read_text() == "0.4 10"
    parents = json.loads(statement.read_text())["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert [parent["name"] for parent in parents] == ["train.parquet", "scorer:rubric", *MADE_OF]
    assert [one["digest"]["sha256"] for one in parents[1:]] == [ARTIFACT, *MADE_OF.values()]
    (fault,) = Lineage([tmp_path / "run"]).faults()
    assert fault.endswith(f"{next(iter(MADE_OF))} bbbbbbbbbbbb, which is not recorded")
    record("export", MADE_OF, store=tmp_path / "run" / ".lineage")
    assert Lineage([tmp_path / "run"]).faults() == []
    for place in ("actor/model_world_size_1_rank_0.pt", "actor/huggingface/config.json"):
        before = (newest / place).read_text()
        (newest / place).write_text("other weights")
        assert "was changed after" in str(Lineage([tmp_path / "run"]).faults())
        (newest / place).write_text(before)


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


def test_a_command_that_does_not_exist_failed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    content = {"command": ["no-such-command"], "data": {"path": "d", "sha256": "c" * 64}, "trainer": "verl"}
    (folder / PLAN).write_text(json.dumps(content | {"reward": {"made_of": {}}}))
    assert result(finalize(folder, run(folder)))[:2] == ("failed", {"stage": "train", "type": "exit status 127"})


def test_a_command_that_is_told_to_end_records_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    program = f"import pathlib, time; pathlib.Path({str(folder / 'begun')!r}).touch(); time.sleep(60)"
    content = {"command": [sys.executable, "-c", program], "data": {"path": "d", "sha256": "c" * 64}}
    (folder / PLAN).write_text(json.dumps(content | {"trainer": "verl", "reward": {"made_of": {}}}))

    def end() -> None:
        while not (folder / "begun").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(end)
        status = run(folder)
    assert status == -signal.SIGTERM
    assert result(finalize(folder, status))[0] == "cancelled"


def plan_of(folder: Path, program: str) -> Path:
    folder.mkdir()
    content = {"command": [sys.executable, "-c", program], "data": {"path": "d", "sha256": "c" * 64}}
    (folder / PLAN).write_text(json.dumps(content | {"trainer": "verl", "reward": {"made_of": {}}}))
    return folder


ORPHAN = """
import json, os, pathlib, signal, time
folder = pathlib.Path(FOLDER)
while json.loads((folder / "attempt.json").read_text())["process"] != os.getpid():
    time.sleep(0.02)
os.kill(os.getppid(), signal.SIGKILL)
while not (folder / "end").exists():
    time.sleep(0.02)
"""
"""Kills the command that runs it, and runs on."""


def test_a_run_whose_command_was_killed_is_recorded_later(tmp_path: Path) -> None:
    folder = plan_of(tmp_path / "run", ORPHAN.replace("FOLDER", repr(str(tmp_path / "run"))))
    killed = get_context("fork").Process(target=run, args=(folder,))
    killed.start()
    killed.join(timeout=60)
    assert killed.exitcode == -signal.SIGKILL
    process = json.loads((folder / ATTEMPT).read_text())["process"]
    for command in (finalize, run):
        with pytest.raises(BadInput, match=f"process {process} still trains"):
            command(folder)
    (folder / "end").touch()
    while _created(process) is not None:
        time.sleep(0.02)
    with pytest.raises(BadInput, match="its last run is not recorded"):
        run(folder)
    statement = finalize(folder)
    assert result(statement)[:2] == ("failed", {"stage": "train", "type": "no exit status: it was killed"})
    assert finalize(folder) == statement, "recorded once"
    assert len(list(statement.parent.glob("*.json"))) == 1
    with pytest.raises(BadInput, match="not 0; omit --exit-status"):
        finalize(folder, 0)


def test_who_knows_how_a_killed_run_ended_can_say_so(tmp_path: Path) -> None:
    folder = plan_of(tmp_path / "run", "")
    with pytest.raises(BadInput, match="was planned and not run"):
        finalize(folder)
    (folder / ATTEMPT).write_text(json.dumps({"process": 0, "created": None}))
    assert result(finalize(folder, 143))[0] == "cancelled"


def test_a_run_can_be_repeated_and_each_is_recorded(tmp_path: Path) -> None:
    folder = plan_of(tmp_path / "run", "raise SystemExit(4)")
    run(folder)
    with pytest.raises(BadInput, match="its last run is not recorded"):
        run(folder)
    first = finalize(folder)
    plan = json.loads((folder / PLAN).read_text())
    (folder / PLAN).write_text(json.dumps(plan | {"command": [sys.executable, "-c", "raise SystemExit(5)"]}))
    run(folder)
    second = finalize(folder)
    assert [result(one)[1]["type"] for one in (first, second)] == ["exit status 4", "exit status 5"]


def test_one_command_at_a_time_uses_a_folder(tmp_path: Path) -> None:
    folder = plan_of(tmp_path / "run", "")
    with folder_lock(folder):
        for command in (run, finalize):
            with pytest.raises(BadInput, match="run is in use by another command"):
                command(folder)


def test_data_that_was_changed_is_not_trained_on(tmp_path: Path) -> None:
    folder = plan_of(tmp_path / "run", "")
    plan, data = json.loads((folder / PLAN).read_text()), tmp_path / "train.parquet"
    data.write_bytes(b"other rows")
    (folder / PLAN).write_text(json.dumps(plan | {"data": {"path": str(data), "sha256": "c" * 64}}))
    with pytest.raises(BadInput, match="was changed after the run was planned"):
        run(folder)


def test_verl_gets_an_error_and_no_zero() -> None:
    failed = {"index": 0, "reward": None, "error": {"code": "judge_reply", "retryable": False}}
    answer = json.dumps({"results": [failed]}).encode()
    with serving(lambda request: (200, {}, answer)) as server, pytest.raises(RuntimeError, match="could not be scored"):
        compute_score("urns", "four", None, server=server.address)


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"{}",
        b"[]",
        b'{"results": []}',
        b'{"results": [{"index": 1, "reward": 1, "error": null}]}',
        b"0" * 4_000_001,
    ],
)
def test_an_answer_that_is_none_is_refused(answer: bytes) -> None:
    with serving(lambda request: (200, {}, answer)) as server, pytest.raises(RuntimeError, match="no reward server"):
        compute_score("urns", "four", None, server=server.address)


def test_long_items_are_sent_in_several_requests() -> None:
    sizes = []

    def score(request: Request) -> tuple[int, dict[str, str], bytes]:
        items = json.loads(request.body)["items"]
        sizes.append((len(items), len(request.body)))
        results = [{"index": i, "reward": float(one["response"][:2]), "error": None} for i, one in enumerate(items)]
        return 200, {}, json.dumps({"results": results}).encode()

    long = [f"{i:02} " + "ü" * 60_000 for i in range(30)]
    with serving(score) as server:
        found = asyncio.run(served(server.address)(["Why?"] * 100, [*long, *["07"] * 70]))
    assert found == [*range(30), *[7] * 70]
    assert sum(count for count, _ in sizes) == 100
    assert max(size for _, size in sizes) < 1_600_000
    assert max(count for count, _ in sizes) <= 64
