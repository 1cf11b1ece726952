"""Reinforcement on a tiny model: what it trains on, logs, refuses, and how it goes on where it was cut off."""

import json
import math
import os
import re
import signal
import socket
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import EvalLog, read_eval_log

from tests.fixtures import same_weights, samples, write_rows
from tests.training.conftest import forked, plant_nan
from tests.training.rollouts.conftest import Train
from truthgym.datasets.errors import BadInput
from truthgym.training.rollouts.questions import load_questions
from truthgym.training.rollouts.sampling import LocalEngine
from truthgym.training.rollouts.trainer import _replies
from truthgym.training.trainers.model_card import read_card


def logs(folder: Path) -> list[EvalLog]:
    return [read_eval_log(str(path)) for path in sorted(folder.glob("*.eval"))]


def test_grpo_leaves_a_model_a_log_of_each_step_and_a_card(
    train: Train, base: Path, letters: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from truthgym.training.rollouts.trainer import RolloutLines

    reported: list[dict[str, float]] = []
    monkeypatch.setattr(RolloutLines, "on_log", lambda *_, logs, **__: reported.append(logs))
    changes: dict[str, Any] = {"reward": ["brier", letters], "reward_weights": [1.0, 0.1], "validation_samples": 3}
    changes |= {"validation_steps": 1, "logging_steps": 1}
    folder = train(**changes)
    output = capsys.readouterr().out
    assert "WARNING: only 0% of the answers can be parsed" in output
    assert re.search(r"WARNING: \d+ questions, 0\.\d times each", output)
    assert "validation at step 0: read 0.0%, brier -1.0000 (best constant" in output
    assert "inspect eval truthgym/urns -T split=test --model hf/" in output
    assert [path.name for path in sorted((folder / "rollouts").iterdir())] == ["step-00000", "step-00001"]
    assert [path.name for path in sorted((folder / "validation").iterdir())] == [f"step-0000{n}" for n in range(3)]
    for step in range(2):
        (log,) = logs(folder / "rollouts" / f"step-0000{step}")
        assert log.status == "success"
        assert sorted(sample.epoch for sample in samples(log)) == [1, 1, 2, 2, 3, 3, 4, 4]
        assert {(sample.metadata or {})["split"] for sample in samples(log)} == {"train"}
        assert all("brier" in (sample.scores or {}) for sample in samples(log))
        assert log.eval.metadata == {"rollouts": step, "part": [0, 0]}
        assert log.eval.model == f"policy/{folder.name}"
    (validation,) = logs(folder / "validation" / "step-00002")
    assert validation.samples
    assert {(sample.metadata or {})["split"] for sample in validation.samples} == {"validation"}
    facts = read_card(folder)
    assert (facts.method, facts.config["scale_rewards"], facts.config["task"]) == ("grpo", "none", ["truthgym/urns"])
    assert [row["step"] for row in facts.curve] == [0, 1, 2]
    for row in facts.curve[1:]:
        assert math.isfinite(row["loss"])
        assert row["share_read"] == 0
        assert row["rewards/brier/mean"] == -1
        assert -0.25 <= row["rewards/brier/best_constant"] <= 0
        assert row["frac_reward_zero_std"] == 0
        assert row["sampling/importance_sampling_ratio/min"] == pytest.approx(1, abs=1e-3)
        assert row["sampling/sampling_logp_difference/mean"] < 1e-3
    assert {"eval_share_read", "eval_rewards/brier"} <= set(facts.curve[0])
    assert facts.notes[0].startswith("0% of the groups had no gradient")
    evaluations = [logs for logs in reported if "eval_rewards/brier" in logs]
    assert [row["eval_rewards/brier"] for row in evaluations] == [-1, -1, -1], "what reports to a service hears of them"
    assert not any("loss" in logs for logs in evaluations)
    assert not same_weights(folder, base)
    assert train(**changes) == folder
    assert "is trained already" in capsys.readouterr().out


def test_rloo_trains_an_adapter_on_two_tasks(train: Train, own: str, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import AutoModelForCausalLM

    folder = train(
        "rloo", task=["truthgym/urns", own], task_args={"n": 40}, use_peft=True, lora_r=4,
        per_device_train_batch_size=32, max_steps=1,
    )  # fmt: skip
    assert "split their samples by a hash of the id" in capsys.readouterr().out
    facts = read_card(folder)
    assert any(f"{own} split their samples by a hash" in note for note in facts.notes)
    assert set(facts.data) == {"truthgym/urns", own}
    step = logs(folder / "rollouts" / "step-00000")
    assert {log.eval.task for log in step} == {"truthgym/urns", "sums"}
    assert sum(len(log.samples or []) for log in step) == 32
    assert (folder / "adapter" / "adapter_model.safetensors").is_file()
    _, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]


def test_a_dataset_of_prompts_says_what_is_asked(train: Train, tmp_path: Path) -> None:
    names = list(load_questions("truthgym/urns", {"n": 60, "paradigms": "brier"}).samples)[4:6]
    (tmp_path / "data").mkdir()
    rows = [{"prompt": [{"role": "user", "content": "?"}], "sample_id": name, "split": "train"} for name in names]
    write_rows(tmp_path / "data" / "train.jsonl", *rows)
    folder = train(dataset_name=str(tmp_path / "data"), max_steps=2)
    for step in ("step-00000", "step-00001"):
        (log,) = logs(folder / "rollouts" / step)
        assert {str(sample.id) for sample in log.samples or []} == set(names)


@pytest.mark.parametrize(
    ("solver", "args", "replies"),
    [
        (None, {}, 1),
        ("truthgym/direct", {}, 1),
        ("truthgym/chain_of_thought", {}, 5),
        ("truthgym/chain_of_thought", {"steps": 2}, 3),
        ("truthgym/self_debate", {"turns": 1}, 3),
        ("own.py@mine", {"colour": 3}, 1),
    ],
)
def test_replies_of_a_sample_are_predicted(solver: str | None, args: dict[str, Any], replies: int) -> None:
    assert _replies(solver, args) == replies


def test_a_killed_run_goes_on_where_it_was(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What SIGKILL leaves on disk, in an update or amid rollouts, is enough to end with the same model."""
    from transformers import Trainer

    options: dict[str, Any] = {"max_steps": 4, "save_steps": 2, "logging_steps": 1, "validation_steps": 2}
    options |= {"validation_samples": 2, "learning_rate": 1e-2}
    whole = train(**options, output_dir=str(tmp_path / "whole"))
    folder = tmp_path / "trained" / whole.name
    sample, update = LocalEngine.__call__, Trainer.training_step

    def killed(place: str, step: int) -> None:
        def dies(self: Any, *arguments: Any) -> Any:
            if step == (self.state.global_step if place == "update" else arguments[0][0].seed[1]):
                os.kill(os.getpid(), signal.SIGKILL)
            return (update if place == "update" else sample)(self, *arguments)

        patched: tuple[Any, str] = (Trainer, "training_step") if place == "update" else (LocalEngine, "__call__")
        monkeypatch.setattr(patched[0], patched[1], dies)  # in this process alone
        train(**options)

    for place, step in (("update", 1), ("rollouts", 3), ("update", 3)):
        assert forked(partial(killed, place, step)) == [-signal.SIGKILL]
        assert (folder / "checkpoints" / "checkpoint-2").is_dir() == (step == 3)
        assert not (folder / "README.md").exists()
    assert train(**options) == folder
    output = capsys.readouterr().out
    assert "Resuming from" in output
    assert "steps that will be repeated" in output
    assert same_weights(folder, whole)
    assert read_card(folder).curve == read_card(whole).curve
    assert read_card(folder).notes == read_card(whole).notes
    folders = sorted(path.name for path in (folder / "rollouts").iterdir())
    assert folders == ["set_aside", *(f"step-0000{number}" for number in range(4))]
    assert all(len(logs(folder / "rollouts" / name)) == 1 for name in folders[1:])
    aside = sorted(path.name for path in (folder / "rollouts" / "set_aside").iterdir())
    assert aside == [f"step-{name}" for name in ("00000-1", "00002-1", "00002-2", "00003-1")]


@pytest.mark.slow
def test_two_processes_train_one_model_on_disjoint_rollouts(train: Train, base: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def process(rank: int) -> None:
        """Train as a process that `accelerate launch` or `torchrun` starts."""
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        from accelerate.state import AcceleratorState  # type: ignore[import-untyped]

        AcceleratorState._reset_state(reset_partial_state=True)  # of a training in this test's process
        train(max_steps=1, per_device_train_batch_size=4, use_cpu=True, ddp_backend="gloo")

    assert forked(partial(process, 0), partial(process, 1)) == [0, 0]
    first, second = (log.samples or [] for path in (tmp_path / "trained").rglob("step-*") for log in logs(path))
    assert len(first) == len(second) == 4, "each process writes its own log"
    assert not {sample.id for sample in first} & {sample.id for sample in second}
    (saved,) = (tmp_path / "trained").rglob("model.safetensors")
    assert not same_weights(saved.parent, base)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"task": []}, "no task; name one, such as --task"),
        ({"task": ["truthgym/urns", "truthgym/urns"]}, "2 tasks are named truthgym/urns; name each task once"),
        ({"task_args": "n: [1"}, "neither YAML"),
        ({"task_args": "7"}, "write {name: value}"),
        ({"task_args": {"urns": {"n": 1}}}, "cannot be trained on, since a step needs 2|no sample is left"),
        ({"solver": "truthgym/nosuch"}, "--solver truthgym/nosuch cannot be created"),
        ({"solver": "truthgym/chain_of_thought", "solver_args": {"steps": 0}}, "steps=0 cannot be used"),
        ({"reward": ["brier"], "scale_rewards": "group"}, "--scale_rewards none, or --allow_group_scaling"),
        ({"model_role": ["judge"]}, "write ROLE=MODEL"),
        ({"model_role": ["judge=nosuch/model"]}, "Inspect cannot create the model nosuch/model"),
        ({"eval_steps": 5}, "set --validation_steps instead"),
        ({"log": ["x.eval"]}, "--log has no effect on rollouts"),
        ({"temperature": 0}, "all rollouts of a question would be the same"),
        ({"min_p": 0.1}, "--min_p has no effect"),
        ({"min_share_read": 2}, "--min_share_read 2: give a number from 0 to 1"),
        ({"chat_template_path": "nowhere"}, "--chat_template_path nowhere: there is no such file"),
        ({"chat_template_kwargs": {"style": "x"}}, "only enable_thinking is passed on"),
    ],
    ids=lambda options: json.dumps(options) if isinstance(options, dict) else "",
)
def test_what_is_refused_before_anything_runs(train: Train, tmp_path: Path, options: dict[str, Any], part: str) -> None:
    with pytest.raises(BadInput) as error:
        train(**options)
    message = str(error.value).replace("\\[", "[")
    assert any(words in message for words in part.split("|")), message
    assert not list((tmp_path / "trained").glob("*/rollouts"))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"reward": ["brier"], "min_share_read": 0.5}, "Only 0% of the answers of step 1 could be parsed"),
        ({"reward": ["FOLDER/rewards.py:raises"]}, "it raised ValueError: no such thing"),
        ({"solver": "FOLDER/own.py@cold"}, "samples at temperature 0.5, and training assumes 1.0"),
        ({"solver": "truthgym/dialogue"}, "interlocutor"),
    ],
    ids=["form", "raises", "cold", "role"],
)
def test_what_shows_in_the_first_step_ends_the_run(
    train: Train, own: str, tmp_path: Path, options: dict[str, Any], part: str
) -> None:
    changes = json.loads(json.dumps(options).replace("FOLDER", str(tmp_path)))
    with pytest.raises(BadInput) as error:
        train(**changes)
    assert part in str(error.value).replace("\\[", "[")
    assert not list((tmp_path / "trained").glob("*/README.md"))


def test_a_gradient_that_is_no_number_ends_the_run(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_nan(monkeypatch, 2)
    with pytest.raises(BadInput, match=r"gradient of step 2 .*checkpoint-1;"):
        train(save_steps=1)
