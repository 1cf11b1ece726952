"""The contract with TRL: what its trainers read of rollouts, and that nothing else gets gradient."""

import inspect
import math
from collections import defaultdict
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from inspect_ai.scorer import Score

from tests.training.rollouts.conftest import Train
from truthgym.datasets.errors import BadInput
from truthgym.training.reward_functions.rollout import Rollout
from truthgym.training.rollouts.runner import TokenRow, TrainingSample
from truthgym.training.rollouts.trl_adapter import (
    MOST_WEIGHT,
    RolloutAdapter,
    _grpo,
    _rloo,
    check_turn_rewards,
    complete,
    prompt_of,
    token_advantages,
    turn_advantages,
    turn_rewards,
)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """What TRL's trainers make of the rollouts, and the gradient of each token's log-probability."""
    import trl

    seen: dict[str, list[Any]] = {"samples": [], "inputs": [], "logprobs": []}
    run = RolloutAdapter.run

    def recording(self: RolloutAdapter, prompts: Any, trainer: Any) -> None:
        run(self, prompts, trainer)
        seen["samples"].append(list(self.samples))

    monkeypatch.setattr(RolloutAdapter, "run", recording)
    for kind in (trl.GRPOTrainer, trl.RLOOTrainer):
        score, measure = kind._generate_and_score_completions, kind._get_per_token_logps_and_entropies

        def scored(self: Any, inputs: Any, score: Any = score) -> Any:
            seen["inputs"].append(score(self, inputs))
            return dict(seen["inputs"][-1])

        def logprobs_of(self: Any, *args: Any, measure: Any = measure, **options: Any) -> Any:
            logprobs, *rest = measure(self, *args, **options)
            if logprobs.requires_grad:
                logprobs.retain_grad()
                seen["logprobs"].append((args[1], logprobs))
            return (logprobs, *rest)

        monkeypatch.setattr(kind, "_generate_and_score_completions", scored)
        monkeypatch.setattr(kind, "_get_per_token_logps_and_entropies", logprobs_of)
    return seen


def row_of(ids: list[int], watched: dict[str, list[Any]]) -> TokenRow:
    """The row of a rollout, found by the ids that the trainer has for it, with padding on both sides."""
    pad = watched["inputs"][0]["prompt_ids"].shape[1]
    rows: list[TokenRow] = [sample.row for sample in watched["samples"][0]]
    tokens = [row.prompt_ids + row.completion_ids for row in rows]
    return next(
        row for row, whole in zip(rows, tokens, strict=True) if ids[pad - len(row.prompt_ids) :][: len(whole)] == whole
    )


def check_tokens(inputs: dict[str, Any], samples: list[TrainingSample]) -> None:
    """The trainer has the tokens of each rollout, and no others."""
    longest = inputs["completion_ids"].shape[1]
    for at, row in enumerate(sample.row for sample in samples):
        length = len(row.completion_ids)
        assert inputs["prompt_ids"][at][inputs["prompt_mask"][at] == 1].tolist() == row.prompt_ids
        assert inputs["completion_ids"][at][:length].tolist() == row.completion_ids
        assert inputs["completion_mask"][at].tolist() == [1] * length + [0] * (longest - length)


def paid(samples: list[TrainingSample]) -> Any:
    """What `letters` pays the rollouts, a row for each question."""
    import torch

    return torch.tensor([float(len(sample.rollout.answer) + sample.rollout.epoch) for sample in samples]).view(2, 4)


def test_marked_tokens_alone_get_gradient(train: Train, watched: dict[str, list[Any]]) -> None:
    import torch

    folder = train(max_steps=1, solver="truthgym/chain_of_thought", solver_args={"steps": 2})
    samples: list[TrainingSample] = watched["samples"][0]
    assert (folder / "README.md").is_file()
    inputs = watched["inputs"][0]
    check_tokens(inputs, samples)
    for at, sample in enumerate(samples):
        length = len(sample.row.completion_ids)
        assert inputs["tool_mask"][at][:length].tolist() == sample.row.mask
        assert inputs["sampling_per_token_logps"][at][:length].tolist() == pytest.approx(sample.row.logprobs)
        assert 0 < sum(sample.row.mask) < length
    assert [sample.rollout.epoch for sample in samples] == [1, 2, 3, 4] * 2
    assert len({sample.rollout.sample_id for sample in samples[:4]}) == 1
    groups = paid(samples)
    assert torch.allclose(inputs["advantages"], (groups - groups.mean(1, keepdim=True)).flatten(), atol=1e-5)
    ids, logprobs = watched["logprobs"][0]
    trained = 0
    for row, values, gradient in zip(ids.tolist(), logprobs.tolist(), logprobs.grad.tolist(), strict=True):
        tokens = row_of(row, watched)
        length = len(tokens.mask)
        marked = [value for value, mask in zip(values[:length], tokens.mask, strict=True) if mask]
        sampled = [value for value, mask in zip(tokens.logprobs, tokens.mask, strict=True) if mask]
        assert marked == pytest.approx(sampled, abs=1e-4), "the trainer reckons with what was sampled"
        assert not any(value for value, mask in zip(gradient[:length], tokens.mask, strict=True) if not mask)
        assert not any(gradient[length:])
        trained += sum(value != 0 for value in gradient)
    assert trained > 0


def test_a_lora_adapter_in_bf16_is_sampled_as_it_is_trained(train: Train, watched: dict[str, list[Any]]) -> None:
    """A new adapter changes nothing, so all logprobs are those of the base, in the trainer's mixed precision."""
    for lora in ({}, {"use_peft": True, "lora_r": 4}):
        train(max_steps=1, bf16=True, use_cpu=True, **lora)
    rows, adapted = ([sample.row for sample in samples] for samples in watched["samples"])
    assert [row.completion_ids for row in rows] == [row.completion_ids for row in adapted]
    for row, other in zip(rows, adapted, strict=True):
        assert row.logprobs == pytest.approx(other.logprobs, abs=1e-6)


def test_each_reply_is_a_row_of_rloo(train: Train, watched: dict[str, list[Any]]) -> None:
    import torch

    train("rloo", max_steps=1, solver="truthgym/chain_of_thought", solver_args={"steps": 1})
    samples: list[TrainingSample] = watched["samples"][0]
    inputs = watched["inputs"][0]
    check_tokens(inputs, samples)
    for at, sample in enumerate(samples):
        assert all(sample.row.mask)
        assert inputs["old_logps"][at].item() == pytest.approx(sum(sample.row.logprobs), abs=1e-3)
    groups = paid(samples)
    others = (groups.sum(1, keepdim=True) - groups) / 3
    assert torch.allclose(inputs["advantages"], (groups - others).flatten(), atol=1e-3)


def test_a_rollout_without_any_reward_has_no_part_in_trl() -> None:
    """It is left out of its group's statistics, and has no advantage."""
    import trl

    for kind in (trl.GRPOTrainer, trl.RLOOTrainer):
        source = inspect.getsource(kind)
        assert "unscorable_mask = torch.isnan(rewards_per_func).all(dim=1)" in source
        assert "advantages = torch.nan_to_num(advantages, nan=0.0)" in source


def test_a_reward_that_is_missing_beside_others_is_the_mean_of_its_group() -> None:
    """TRL would count it as 0: the best value of the first reward, and the worst of the second."""
    groups = ["q", "q", "q", "p", "p"]
    values: list[Any] = [[-1.0, None, -0.5, -0.2, None], [0.5, 0.5, 0.9, None, None]]
    assert complete(values, groups) == [[-1.0, -0.75, -0.5, -0.2, None], [0.5, 0.5, 0.9, None, None]]
    assert complete(values[:1], groups) == values[:1], "TRL leaves out a rollout without any reward"


def test_rewards_are_computed_once_and_not_for_empty_rows(monkeypatch: pytest.MonkeyPatch) -> None:
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

    def runs(keys_of_run: Any, engine: Any, step: int, rank: Any) -> list[TrainingSample]:
        keys.append((keys_of_run, step, rank))
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


def rollout(name: str, *beliefs: float, steps: tuple[float, ...] = (), target: str = "yes") -> Rollout:
    recorded = [
        {"stage": "prior" if not i else "step", "elicitor": "self", "value": value} for i, value in enumerate(beliefs)
    ]
    recorded.insert(1, {"stage": "prior 2", "elicitor": "self", "value": 0.5})
    scores = {"martingale": Score(value=0, metadata={"beliefs": recorded}),
              "reward_model": Score(value=0, metadata={"steps": list(steps)})}  # fmt: skip
    return Rollout("urns", name, 1, "?", target, scores=scores)


def test_beliefs_pay_each_turn_for_what_it_changed() -> None:
    rewards = turn_rewards("beliefs", rollout("a", 0.5, 0.8, 0.6), 0.0)
    # Brier scores 0.25, 0.04, 0.16
    assert rewards == pytest.approx([0.21, -0.12])
    assert sum(rewards or []) == pytest.approx(0.25 - 0.16), "the improvement on the prior"
    assert turn_rewards("beliefs", rollout("a", 0.5, 0.8, target="unknown"), 0.0) is None
    assert turn_rewards("beliefs", rollout("a", 0.5), 0.0) is None
    assert turn_rewards("beliefs", rollout("a", 0.5, 0.8), None) is None, "without a reward there is no last turn's"


def test_more_steps_never_pay_by_a_process_model_and_fewer_are_not_compared() -> None:
    few, many = (turn_rewards("reward_model", rollout("a", steps=(0.9,) * n), -0.25) for n in (2, 5))
    assert few == pytest.approx([-0.1, -0.35])
    assert sum(many or []) < sum(few or [])
    assert turn_rewards("reward_model", rollout("a"), 0.0) is None
    assert turn_advantages([few, many, [0.0]], ["q", "q", "r"]) == [None, None, [0.0]], "TRL's advantage decides"


@pytest.mark.parametrize("kind", ["beliefs", "reward_model"])
@pytest.mark.parametrize("answer", ["unread", "wrong"])
def test_empty_steps_and_a_belief_that_is_not_stated_do_not_win(kind: str, answer: str) -> None:
    """The probe says 0.9 or each step is empty and so never wrong, but the answer cannot be read or is wrong."""
    vain = rollout("a", 0.5, 0.7, 0.9, steps=(0.99, 0.99))
    plain = rollout("a", 0.5, 0.6, 0.8, steps=(0.9, 0.9))
    final = [-1.0 if answer == "unread" else -0.81, -0.04]  # as `brier` pays them
    turns = [turn_rewards(kind, *pair) for pair in zip((vain, plain), final, strict=True)]
    bad, good = turn_advantages(turns, ["q", "q"])
    assert bad is not None
    assert good is not None
    assert max(bad) < 0 < min(good), "every turn of it is pushed down"


def test_a_turn_is_compared_with_the_same_turn_of_its_group() -> None:
    advantages = turn_advantages([[1.0, 2.0], [3.0, 0.0], [5.0]], ["q", "q", "r"])
    assert advantages == [[0.0, 1.0], [0.0, -1.0], [0.0]], "sums to go 3, 2 and 3, 0; r has none to compare with"
    assert token_advantages([1, 1, 0, 0, 1], [2.0, -1.0]) == [2.0, 2.0, 0.0, 0.0, -1.0]
    assert token_advantages([1, 0, 1], [1.0]) is None


def test_the_trainer_gets_an_advantage_for_each_token() -> None:
    import torch
    from trl import GRPOTrainer

    adapter = RolloutAdapter(None, [], turn_rewards="beliefs")  # type: ignore[arg-type]
    first, second = rollout("a", 0.5, 0.8, 0.6), rollout("a", 0.5, 0.5, 0.6)
    row = TokenRow([1], [5, 6, 7, 8], [1, 0, 1, 1], [0.0] * 4)
    adapter.samples = [SimpleNamespace(rollout=sampled, row=row) for sampled in (first, second, rollout("b"))]  # type: ignore[misc]
    adapter.values = [[-0.2, -0.6, -1.0], [None, 7.0, 7.0]]
    adapter._score_turns([first, second, rollout("b")], [1.0, 0.0], slice(0, 3))

    class Base:
        use_vllm, importance_sampling_level = True, "token"

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            return {"advantages": torch.tensor([1.0, -1.0, 0.25]), "completion_ids": torch.zeros(3, 5)}

    output = _grpo(Base, adapter)()._generate_and_score_completions([])
    # sums to go 0.09 - 0.2 and -0.12 - 0.2 of the first, 0.09 - 0.6 twice of the second; the second reward weighs 0
    assert output["advantages"].tolist() == [
        pytest.approx([0.2, 0, 0.095, 0.095, 0]),
        pytest.approx([-0.2, 0, -0.095, -0.095, 0]),
        [0.25] * 5,
    ], "where turns are unknown, TRL's own"
    assert "advantages.dim() == 1" in inspect.getsource(GRPOTrainer._compute_loss), "it takes rollouts x tokens"
    assert hasattr(GRPOTrainer, "_generate_and_score_completions")

    with pytest.raises(BadInput, match="no rollout has a number for each of its steps"):
        adapter._score_turns([rollout("b")] * 3, [1.0, 0.0], slice(0, 3))


@pytest.mark.parametrize(("vllm", "level", "ours"), [(False, "token", True), (True, "token", False),
                                                     (False, "sequence", False)])  # fmt: skip
def test_grpo_weighs_each_token_by_what_the_sampler_found(vllm: bool, level: str, ours: bool) -> None:
    """With vLLM, TRL does it; a ratio of whole replies has a range too narrow for rounding."""
    import torch

    class Base:
        use_vllm, importance_sampling_level = vllm, level

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            return {"sampling_per_token_logps": torch.tensor([[-1.0]])}

    adapter = RolloutAdapter(None, [])  # type: ignore[arg-type]
    assert ("old_per_token_logps" in _grpo(Base, adapter)()._generate_and_score_completions([])) == ours
    from trl import GRPOTrainer

    assert 'inputs.get("old_per_token_logps")' in inspect.getsource(GRPOTrainer._compute_loss)


def test_rloo_weighs_each_reply_by_what_the_sampler_found() -> None:
    import torch

    class Base:
        accelerator = SimpleNamespace(gather=lambda found: found)

        def __init__(self) -> None:
            self._metrics: dict[str, Any] = {"train": defaultdict(list)}

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            return {"old_logps": torch.full((4,), -1.0), "advantages": torch.full((4,), 2.0)}

    def row(mask: int, *logprobs: Any) -> Any:
        return SimpleNamespace(row=TokenRow([1], [5] * len(logprobs), [mask] * len(logprobs), list(logprobs)))

    trainer = _rloo(Base)(adapter=SimpleNamespace(samples=[row(1, -0.6, -0.9), row(1, -3.0, -2.0), row(1, -0.5, None),
                                                           row(0, 0.0)]))  # fmt: skip
    weights = trainer._generate_and_score_completions([])["advantages"] / 2
    assert weights.tolist() == pytest.approx([math.exp(0.5), MOST_WEIGHT, 1, 1]), "what vLLM leaves open weighs 1"
    logged = trainer._metrics["train"]
    assert logged["sampling/importance_sampling_ratio/max"] == [pytest.approx(math.exp(4))]
    assert logged["sampling/sampling_logp_difference/mean"] == [pytest.approx(4.5 / 4)]


@pytest.mark.parametrize(
    ("kind", "method", "problem"),
    [
        ("belief", "grpo", "known: beliefs, reward_model"),
        ("beliefs", "rloo", "rloo trains single replies"),
        ("reward_model", "grpo", "the task urns does not have"),
    ],
)
def test_turn_rewards_that_cannot_be_had(kind: str, method: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        check_turn_rewards(kind, method, {"urns": ["martingale"]})
    check_turn_rewards("beliefs", "grpo", {"urns": ["martingale"]})
