"""The contract with TRL: what its trainers read of rollouts, and that nothing else gets gradient."""

import inspect
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from truthgym.training.rollouts.runner import TokenRow, TrainingSample
from truthgym.training.rollouts.trl_adapter import RolloutAdapter, complete, prompt_of
from truthgym.training.train import TRAINERS


@pytest.fixture
def reward_of_letters(tmp_path: Path) -> str:
    """A reward that differs from rollout to rollout, so that there is a gradient."""
    (tmp_path / "letters.py").write_text(
        "def letters(completions, epoch, log_metric, **_):\n"
        "    log_metric('longest', max(len(one[0]['content']) for one in completions))\n"
        "    return [len(one[0]['content']) + of for one, of in zip(completions, epoch)]\n"
    )
    return f"{tmp_path / 'letters.py'}:letters"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """What TRL's trainers make of the rollouts, and the gradient of each token's log-probability."""
    import trl

    seen: dict[str, list[Any]] = {"made": [], "inputs": [], "logprobs": []}
    run = RolloutAdapter.run

    def keeping(self: RolloutAdapter, prompts: Any, trainer: Any) -> None:
        run(self, prompts, trainer)
        seen["made"].append(list(self.samples))

    monkeypatch.setattr(RolloutAdapter, "run", keeping)
    for kind in (trl.GRPOTrainer, trl.RLOOTrainer):
        score, measure = kind._generate_and_score_completions, kind._get_per_token_logps_and_entropies

        def scored(self: Any, inputs: Any, score: Any = score) -> Any:
            seen["inputs"].append(score(self, inputs))
            return dict(seen["inputs"][-1])

        def measured(self: Any, *args: Any, measure: Any = measure, **options: Any) -> Any:
            logprobs, *rest = measure(self, *args, **options)
            if logprobs.requires_grad:
                logprobs.retain_grad()
                seen["logprobs"].append((args[1], logprobs))
            return (logprobs, *rest)

        monkeypatch.setattr(kind, "_generate_and_score_completions", scored)
        monkeypatch.setattr(kind, "_get_per_token_logps_and_entropies", measured)
    return seen


def train(method: str, base: Path, out: Path, **options: Any) -> Path:

    given: dict[str, Any] = {
        "model_name_or_path": str(base),
        "task": ["truthgym/urns"],
        "task_args": {"n": 60, "paradigms": "brier"},
        "output_dir": str(out / "trained"),
        "max_steps": 1,
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "max_completion_length": 6,
        "report_to": "none",
        "validation_steps": 0,
    }
    folder = TRAINERS[method](given | options)
    assert isinstance(folder, Path)
    return folder


def row_of(ids: list[int], watched: dict[str, list[Any]]) -> TokenRow:
    """The row of a rollout, found by the ids that the trainer has for it, with padding on both sides."""
    pad = watched["inputs"][0]["prompt_ids"].shape[1]
    rows: list[TokenRow] = [one.row for one in watched["made"][0]]
    tokens = [row.prompt_ids + row.completion_ids for row in rows]
    return next(
        row for row, known in zip(rows, tokens, strict=True) if ids[pad - len(row.prompt_ids) :][: len(known)] == known
    )


def test_marked_tokens_alone_get_gradient(
    base: Path, tmp_path: Path, watched: dict[str, list[Any]], reward_of_letters: str
) -> None:
    import torch

    options: dict[str, Any] = {"solver": "truthgym/chain_of_thought", "solver_args": {"steps": 2}}
    folder = train("grpo", base, tmp_path, reward=[reward_of_letters], **options)
    samples: list[TrainingSample] = watched["made"][0]
    assert (folder / "README.md").is_file()
    inputs = watched["inputs"][0]
    longest = inputs["completion_ids"].shape[1]
    for at, one in enumerate(samples):
        length = len(one.row.completion_ids)
        assert inputs["prompt_ids"][at][inputs["prompt_mask"][at] == 1].tolist() == one.row.prompt_ids
        assert inputs["completion_ids"][at][:length].tolist() == one.row.completion_ids
        assert inputs["completion_mask"][at].tolist() == [1] * length + [0] * (longest - length)
        assert inputs["tool_mask"][at][:length].tolist() == one.row.mask
        assert inputs["sampling_per_token_logps"][at][:length].tolist() == pytest.approx(one.row.logprobs)
        assert 0 < sum(one.row.mask) < length
    assert [sample.rollout.epoch for sample in samples] == [1, 2, 3, 4] * 2
    assert len({one.rollout.sample_id for one in samples[:4]}) == 1
    rewards = torch.tensor([len(one.rollout.answer) + one.rollout.epoch for one in samples], dtype=torch.float32)
    groups = rewards.view(2, 4)
    assert torch.allclose(inputs["advantages"], (groups - groups.mean(1, keepdim=True)).flatten(), atol=1e-5)
    ids, logprobs = watched["logprobs"][0]
    trained = 0
    for row, values, gradient in zip(ids.tolist(), logprobs.tolist(), logprobs.grad.tolist(), strict=True):
        known = row_of(row, watched)
        length = len(known.mask)
        marked = [value for value, mask in zip(values[:length], known.mask, strict=True) if mask]
        kept = [value for value, mask in zip(known.logprobs, known.mask, strict=True) if mask]
        assert marked == pytest.approx(kept, abs=1e-4), "the trainer reckons with what was sampled"
        assert not any(value for value, mask in zip(gradient[:length], known.mask, strict=True) if not mask)
        assert not any(gradient[length:])
        trained += sum(value != 0 for value in gradient)
    assert trained > 0


def test_a_lora_adapter_in_bf16_is_sampled_as_it_is_trained(
    base: Path, tmp_path: Path, watched: dict[str, list[Any]], reward_of_letters: str
) -> None:
    """A new adapter changes nothing, so all logprobs are those of the base, in the trainer's mixed precision."""
    for lora in ({}, {"use_peft": True, "lora_r": 4}):
        train("grpo", base, tmp_path, reward=[reward_of_letters], bf16=True, use_cpu=True, **lora)
    rows, adapted = ([sample.row for sample in samples] for samples in watched["made"])
    assert [row.completion_ids for row in rows] == [row.completion_ids for row in adapted]
    for row, other in zip(rows, adapted, strict=True):
        assert row.logprobs == pytest.approx(other.logprobs, abs=1e-6)


def test_each_reply_is_a_row_of_rloo(
    base: Path, tmp_path: Path, watched: dict[str, list[Any]], reward_of_letters: str
) -> None:
    import torch

    options: dict[str, Any] = {"solver": "truthgym/chain_of_thought", "solver_args": {"steps": 1}}
    train("rloo", base, tmp_path, reward=[reward_of_letters], **options)
    samples: list[TrainingSample] = watched["made"][0]
    inputs = watched["inputs"][0]
    for at, one in enumerate(samples):
        length = len(one.row.completion_ids)
        assert all(one.row.mask)
        assert inputs["prompt_ids"][at][inputs["prompt_mask"][at] == 1].tolist() == one.row.prompt_ids
        assert inputs["completion_ids"][at][:length].tolist() == one.row.completion_ids
        assert inputs["old_logps"][at].item() == pytest.approx(sum(one.row.logprobs), abs=1e-3)
    rewards = torch.tensor(
        [len(sample.rollout.answer) + sample.rollout.epoch for sample in samples], dtype=torch.float32
    )
    groups = rewards.view(2, 4)
    others = (groups.sum(1, keepdim=True) - groups) / 3
    assert torch.allclose(inputs["advantages"], (groups - others).flatten(), atol=1e-4)


def test_what_we_rely_on_in_trl_is_there() -> None:
    import trl

    assert "rollout_func" in inspect.signature(trl.GRPOTrainer.__init__).parameters
    assert 'extra_fields.pop("env_mask"' in inspect.getsource(trl.GRPOTrainer._generate)
    assert list(inspect.signature(trl.RLOOTrainer._tokenize_prompts).parameters) == ["self", "prompts"]
    source = inspect.getsource(trl.RLOOTrainer._generate)
    assert "prompt_ids, images, multimodal_fields = self._tokenize_prompts(prompts)" in source
    assert "completion_ids = self._generate_single_turn(prompt_ids, images, multimodal_fields)" in source
    for kind in (trl.GRPOTrainer, trl.RLOOTrainer):
        assert "_last_loaded_step" in inspect.getsource(kind)
        assert "eos_token_ids" in inspect.getsource(kind.__init__)
        assert 'reward_kwargs["log_metric"]' in inspect.getsource(kind._calculate_rewards)
        # A rollout without any reward is left out of its group's statistics, and has no advantage.
        source = inspect.getsource(kind)
        assert "unscorable_mask = torch.isnan(rewards_per_func).all(dim=1)" in source
        assert "rewards[unscorable_mask] = torch.nan" in source
        assert "advantages = torch.nan_to_num(advantages, nan=0.0)" in source


def test_a_prompt_names_its_sample() -> None:
    from datasets import Dataset

    rows = Dataset.from_list([{"prompt": prompt_of((1, "urns:3"), "Red?")}, {"prompt": prompt_of((0, "7"), "Blue?")}])
    assert rows[0]["prompt"] == [{"role": "user", "content": "Red?", "sample": "1:urns:3"}]


def test_a_reward_that_is_missing_beside_others_is_the_mean_of_its_group() -> None:
    """TRL would count it as 0: the best value of the first reward, and the worst of the second."""
    groups = ["q", "q", "q", "p", "p"]
    values: list[Any] = [[-1.0, None, -0.5, -0.2, None], [0.5, 0.5, 0.9, None, None]]
    assert complete(values, groups) == [[-1.0, -0.75, -0.5, -0.2, None], [0.5, 0.5, 0.9, None, None]]
    assert complete(values[:1], groups) == values[:1], "TRL leaves out a rollout without any reward"


def test_rewards_are_computed_once_and_not_for_empty_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from truthgym.training.reward_functions.rollout import Rollout

    calls: list[list[str]] = []
    samples = [
        TrainingSample(Rollout("task", name, 1, "?", "yes", answer="x"), TokenRow([1], [2], [mask], [0.0]))
        for name, mask in (("a:b", 1), ("c", 0))
    ]

    class Letters:
        name, proper, figures = "letters", False, MappingProxyType({"longest": 3.0})

        def __call__(self, rollouts: Any) -> list[float | None]:
            calls.append([rollout.sample_id for rollout in rollouts])
            return [1.0, 2.0]

        def baseline(self, rollouts: Any) -> float | None:
            return 0.5

        def read(self, rollouts: Any) -> float:
            return 1.0

    keys: list[Any] = []

    def runs(given: Any, engine: Any, step: int, rank: Any) -> list[TrainingSample]:
        keys.append((given, step, rank))
        return samples

    figures: list[Any] = []
    monkeypatch.setattr("accelerate.utils.gather_object", lambda some: some + some)  # another process had the same
    hook = RolloutAdapter(SimpleNamespace(run=runs), [Letters()], lambda *seen: figures.append(seen))  # type: ignore[arg-type]
    trainer = SimpleNamespace(
        args=SimpleNamespace(use_vllm=True, vllm_mode="colocate", vllm_max_model_length=None),
        state=SimpleNamespace(global_step=4),
        accelerator=SimpleNamespace(process_index=1, is_main_process=True),
        vllm_generation=None,
        _last_loaded_step=4,
        eos_token_ids=[0],
        model=SimpleNamespace(config=SimpleNamespace(get_text_config=SimpleNamespace)),
    )
    output = hook([prompt_of((0, "a:b"), "?"), prompt_of((2, "c"), "?")], trainer)
    hook([prompt_of((0, "a:b"), "?")], trainer)
    assert keys == [([(0, "a:b"), (2, "c")], 4, (0, 1)), ([(0, "a:b")], 4, (1, 1))], "a second run has other luck"
    assert output["env_mask"] == [[1], [0]]
    logged: dict[str, float] = {}
    paid = hook.functions()[0](["?", "?"], ["x", "x"], log_metric=logged.__setitem__)
    assert paid == [1.0, None]
    assert len(calls) == 2, "once a run"
    rollouts = [sample.rollout for sample in samples]
    assert figures[0] == (rollouts * 2, [[1.0, None, 1.0, None]]), "what is told is of all processes"
    assert logged == {"rewards/letters/best_constant": 0.5, "share_read": 1.0, "failed_rollouts": 0, "longest": 3.0}
