"""Trainer callbacks: the progress line, and the warning about answers that cannot be parsed."""

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.reward_functions.rollout import Rollout
from truthgym.training.rollouts.trainer import RolloutLines, ValidationCallback


def half(share: float = 1.0) -> Any:
    """A reward whose best constant earns a half, of which so many answers can be parsed, and which is not computed."""
    return SimpleNamespace(name="half", proper=False, figures={}, baseline=lambda _: 0.5, read=lambda _: share)


def progress(*rewards: Any, weights: Sequence[float] | None = None, least: float = 0.0, **options: Any) -> Any:
    return RolloutLines(rewards or [half()], weights, interval=30.0, min_share_read=least, **options)


def rollouts(*names: str) -> list[Rollout]:
    return [Rollout("urns", name, at, "?", "yes", answer=f"x{at}", tokens=at) for at, name in enumerate(names)]


def test_a_line_says_how_a_step_went(capsys: pytest.CaptureFixture[str]) -> None:
    callback = progress(half(), half(), weights=[1.0, 3.0], rollouts_per_step=4)
    state = SimpleNamespace(global_step=0, max_steps=9, is_world_process_zero=True)
    callback.on_train_begin(None, state, None)
    callback.step_rewarded(rollouts(*"aabb"), [[1.0, 2.0, None, None], [0.0, 1.0, 1.0, None]])
    assert callback.first == ["reward 3.0000 (best constant 2.0000)"], (
        "rewards of 1, 5 and 3: what has none has no part"
    )
    callback.step_rewarded(rollouts(*"abcd"), [[1.0, 2.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    state.global_step = 3
    callback.on_step_end(None, state, None)
    callback._logged = 0, callback._logged[1] - 300
    logs = {"loss": 0.1, "reward": 7.0, "share_read": 0.0, "completions/mean_length": 1.5, "failed_rollouts": 0.0,
            "kl": 0.0, "entropy": 0.25}  # fmt: skip
    callback.on_log(None, state, None, logs=logs)
    callback.on_log(None, state, None, logs={"train_runtime": 1.0})
    callback.on_train_end()
    assert capsys.readouterr().out == (
        "step 3 of 9: reward 1.0000 [-0.299, 2.299] (best constant 2.0000), read 0.0%, 1.5 tokens, entropy 0.250, "
        "100.0 s a step, 10 min left\n"
    )


def test_a_long_step_shows_that_it_lives(capsys: pytest.CaptureFixture[str]) -> None:
    callback = progress(rollouts_per_step=4)
    for main in (True, False):
        callback.on_train_begin(None, SimpleNamespace(global_step=0, max_steps=9, is_world_process_zero=main), None)
        callback.sample_ended()
        callback._spoke -= 31
        callback.sample_ended()
        callback.sample_ended()
    assert capsys.readouterr().out == "step 1 of 9: 2 of 4 rollouts\n"


def test_unparsed_answers_are_warned_of_once_or_stop_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    callback = progress(half(0.25))
    for _ in range(2):
        callback.step_rewarded(rollouts("a"), [[1.0]])
    assert capsys.readouterr().out.count("WARNING: only 25% of the answers can be parsed") == 1
    with pytest.raises(BadInput, match="25% of the answers of step 1 .*--min_share_read is 50%"):
        progress(half(0.25), least=0.5).step_rewarded(rollouts("a"), [[1.0]])


def test_validation_is_shared_out_over_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one process asked all questions, the others would wait until NCCL's timeout."""
    requests: list[Any] = []

    def run(*arguments: Any) -> list[Any]:
        requests.append(arguments)
        return [SimpleNamespace(rollout=rollout) for rollout in rollouts(*"bd")]

    gathered: list[Any] = []

    def gather(part: list[Any]) -> list[Any]:
        gathered.extend(part)
        return part

    monkeypatch.setattr("accelerate.utils.gather_object", gather)
    monkeypatch.setattr("truthgym.training.rollouts.trainer.open_engine", lambda trainer: nullcontext("engine"))
    questions = [SimpleNamespace(samples=dict.fromkeys("abcd"))]
    trainer: Any = SimpleNamespace(accelerator=SimpleNamespace(process_index=1, num_processes=2))
    held_out: Any = SimpleNamespace(questions=questions, run=run)
    callback: Any = ValidationCallback(trainer, held_out, [half()], steps=1, max_samples=9)
    callback.on_train_begin(None, SimpleNamespace(global_step=0, is_world_process_zero=False), None)
    assert requests == [([(0, "b"), (0, "d")], "engine", 0, (1,))]
    assert [rollout.sample_id for rollout in gathered] == ["b", "d"]


def test_several_processes_speak_with_one_voice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    callback = progress(half(0.25))
    callback.step_rewarded(rollouts("a"), [[1.0]])
    callback.on_log(None, SimpleNamespace(is_world_process_zero=False), None, logs={"loss": 1.0})
    assert capsys.readouterr().out == ""
