"""Trainer callbacks: the progress line, and the warning about answers that cannot be parsed."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.reward_functions.formulas import Rewards
from truthgym.training.reward_functions.rollout import Rollout
from truthgym.training.rollouts.callbacks import ProgressCallback, ValidationCallback


class Half:
    """A reward whose best constant earns a half, of which so many answers can be parsed."""

    name, proper = "half", False
    figures: Mapping[str, float] = MappingProxyType({})

    def __init__(self, share: float = 1.0) -> None:
        self.share = share

    def __call__(self, rollouts: Sequence[Rollout]) -> Rewards:
        raise AssertionError("it is counted once, by the hook")

    def baseline(self, rollouts: Sequence[Rollout]) -> float | None:
        return 0.5

    def read(self, rollouts: Sequence[Rollout]) -> float:
        return self.share


def progress(*rewards: Half, weights: Sequence[float] | None = None, least: float = 0.0, **options: Any) -> Any:
    return ProgressCallback(rewards or [Half()], weights, interval=30.0, min_share_read=least, **options)


def rollouts(*names: str) -> list[Rollout]:
    return [Rollout("urns", name, at, "?", "yes", answer=f"x{at}", tokens=at) for at, name in enumerate(names)]


def test_groups_whose_rollouts_all_have_one_reward_are_counted() -> None:
    callback = progress()
    callback.step_rewarded(rollouts(*"aabbccdd"), [[1.0, 0.0, 1.0, 1.0, None, 1.0, None, None]])
    assert (callback.zero_gradient, callback.groups) == (3, 4), "b has one reward, c has one that there is, d has none"
    callback.step_rewarded(rollouts(*"ab"), [[1.0, 0.0]])
    assert (callback.zero_gradient, callback.groups) == (5, 6)


def test_a_line_says_how_it_goes() -> None:
    callback = progress(Half(), Half(), weights=[1.0, 3.0], rollouts_per_step=4)
    callback.on_train_begin(None, SimpleNamespace(global_step=0, max_steps=9, is_world_process_zero=False), None)
    callback.step_rewarded(rollouts(*"aabb"), [[1.0, 2.0, None, None], [0.0, 1.0, 1.0, None]])
    for _ in range(2):
        callback.sample_ended()
    callback.on_log(None, None, None, logs={"entropy": 0.25})
    assert callback.line() == (
        "step 0 of 9; 2 of 4 rollouts of the next; reward 3.0000 (best constant 2.0000); read 100.0%; 1.5 tokens; "
        "1 of 2 groups without gradient; entropy 0.250"
    ), "rewards of 1, 5 and 3: what has none has no part"


def test_unparsed_answers_are_warned_of_once_or_stop_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    callback = progress(Half(0.25))
    for _ in range(2):
        callback.step_rewarded(rollouts("a"), [[1.0]])
    assert capsys.readouterr().out.count("WARNING: only 25% of the answers can be parsed") == 1
    with pytest.raises(BadInput, match="25% of the answers of step 0 .*--min_share_read is 50%"):
        progress(Half(0.25), least=0.5).step_rewarded(rollouts("a"), [[1.0]])


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
    monkeypatch.setattr("truthgym.training.rollouts.callbacks.open_engine", lambda trainer: nullcontext("engine"))
    questions = [SimpleNamespace(samples=dict.fromkeys("abcd"))]
    trainer: Any = SimpleNamespace(accelerator=SimpleNamespace(process_index=1, num_processes=2))
    held_out: Any = SimpleNamespace(questions=questions, run=run)
    callback: Any = ValidationCallback(trainer, held_out, [Half()], steps=1, max_samples=9)
    callback.on_train_begin(None, SimpleNamespace(global_step=0, is_world_process_zero=False), None)
    assert requests == [([(0, "b"), (0, "d")], "engine", 0, (1,))]
    assert [rollout.sample_id for rollout in gathered] == ["b", "d"]


def test_several_processes_speak_with_one_voice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    callback = progress(Half(0.25))
    callback.step_rewarded(rollouts("a"), [[1.0]])
    callback.on_log(None, None, None, logs={"loss": 1.0})
    assert capsys.readouterr().out == ""
