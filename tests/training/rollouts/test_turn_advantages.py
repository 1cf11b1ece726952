"""Advantages of single turns: their arithmetic, what steps earn, and that TRL's loss takes them."""

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from inspect_ai.scorer import Score

from truthgym.datasets.errors import BadInput
from truthgym.training.reward_functions.rollout import Rollout
from truthgym.training.rollouts.runner import TokenRow
from truthgym.training.rollouts.trl_adapter import (
    check_turn_rewards,
    token_advantages,
    turn_advantages,
    turn_rewards,
)


def rollout(name: str, *beliefs: float, steps: tuple[float, ...] = (), target: str = "yes") -> Rollout:
    told = [
        {"stage": "prior" if not i else "step", "elicitor": "self", "value": value} for i, value in enumerate(beliefs)
    ]
    told.insert(1, {"stage": "prior 2", "elicitor": "self", "value": 0.5})
    scores = {"martingale": Score(value=0, metadata={"beliefs": told}),
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
    turns = [turn_rewards(kind, *one) for one in zip((vain, plain), final, strict=True)]
    bad, good = turn_advantages(turns, ["q", "q"])
    assert bad is not None
    assert good is not None
    assert max(bad) < 0 < min(good), "every turn of it is pushed down"


def test_a_turn_is_compared_with_the_same_turn_of_its_group() -> None:
    found = turn_advantages([[1.0, 2.0], [3.0, 0.0], [5.0]], ["q", "q", "r"])
    assert found == [[0.0, 1.0], [0.0, -1.0], [0.0]], "sums to go 3, 2 and 3, 0; r has none to compare with"


def test_tokens_get_the_advantage_of_their_turn() -> None:
    assert token_advantages([1, 1, 0, 0, 1], [2.0, -1.0]) == [2.0, 2.0, 0.0, 0.0, -1.0]
    assert token_advantages([1, 0, 1], [1.0]) is None


def test_the_trainer_gets_an_advantage_for_each_token() -> None:
    import torch
    from trl import GRPOTrainer

    from truthgym.training.rollouts.trl_adapter import RolloutAdapter, _by_turn

    adapter = RolloutAdapter(None, [], turn_rewards="beliefs")  # type: ignore[arg-type]
    first, second = rollout("a", 0.5, 0.8, 0.6), rollout("a", 0.5, 0.5, 0.6)
    row = TokenRow([1], [5, 6, 7, 8], [1, 0, 1, 1], [0.0] * 4)
    adapter.samples = [SimpleNamespace(rollout=sampled, row=row) for sampled in (first, second, rollout("b"))]  # type: ignore[misc]
    adapter.values = [[-0.2, -0.6, -1.0], [None, 7.0, 7.0]]
    adapter._score_turns([first, second, rollout("b")], [1.0, 0.0], slice(0, 3))

    class Base:
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            return {"advantages": torch.tensor([1.0, -1.0, 0.25]), "completion_ids": torch.zeros(3, 5)}

    output = _by_turn(Base, adapter)()._generate_and_score_completions([])
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
