"""Options that make a proper reward improper, and the effect of group scaling on a calibrated model."""

from types import SimpleNamespace
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.reward_functions.resolve import (
    IMPROPER_OPTIONS,
    check_scaling,
    check_weights,
    resolve_rewards,
)

TASKS = {"truthgym/urns": ["brier"], "truthgym/sycophancy": ["sycophantic_reasoning"]}
GRPO = {"scale_rewards": "none", "multi_objective_aggregation": "sum_then_normalize"}
RLOO = {"normalize_advantages": False, "reward_clip_range": None}
IMPROPER: list[dict[str, Any]] = [
    GRPO | {"scale_rewards": "group"},
    GRPO | {"scale_rewards": True},
    GRPO | {"scale_rewards": "batch"},
    GRPO | {"multi_objective_aggregation": "normalize_then_sum"},
    RLOO | {"normalize_advantages": True},
    RLOO | {"reward_clip_range": (-0.5, 0.0)},
]
NAMES = ["group", "true", "batch", "normalize-then-sum", "advantages", "clip"]


@pytest.mark.parametrize("options", IMPROPER, ids=NAMES)
@pytest.mark.parametrize("reward", ["brier", "log_score", "spherical"])
def test_a_proper_reward_is_not_scaled_unless_the_user_says_so(reward: str, options: dict[str, Any]) -> None:
    rewards, arguments = resolve_rewards(["format", reward], TASKS), SimpleNamespace(**options)
    with pytest.raises(BadInput, match=rf"reward={reward} would stop being proper.*--allow_group_scaling"):
        check_scaling(rewards, arguments, allowed=False)
    check_scaling(rewards, arguments, allowed=True)


@pytest.mark.parametrize("options", [GRPO, GRPO | {"scale_rewards": False}, RLOO], ids=["grpo", "false", "rloo"])
def test_what_leaves_a_proper_reward_proper_passes(options: dict[str, Any]) -> None:
    check_scaling(resolve_rewards(["brier"], TASKS), SimpleNamespace(**options), allowed=False)


def test_other_rewards_may_be_scaled() -> None:
    check_scaling(resolve_rewards(["format", "shorter"], TASKS), SimpleNamespace(**IMPROPER[0]), allowed=False)


@pytest.mark.slow
def test_trls_own_defaults_are_what_the_guard_takes_them_for() -> None:
    """Options that it looks for are there, and GRPO's default is the one that it refuses."""
    trl = pytest.importorskip("trl")
    grpo, rloo = trl.GRPOConfig(bf16=False), trl.RLOOConfig(bf16=False)
    assert [name for name in IMPROPER_OPTIONS if hasattr(grpo, name)] == [
        "scale_rewards",
        "multi_objective_aggregation",
    ]
    assert [name for name in IMPROPER_OPTIONS if hasattr(rloo, name)] == ["normalize_advantages", "reward_clip_range"]
    rewards = resolve_rewards([], {"truthgym/urns": ["brier"]})
    with pytest.raises(BadInput, match="--scale_rewards group"):
        check_scaling(rewards, grpo, allowed=False)
    check_scaling(rewards, rloo, allowed=False)
    check_scaling(rewards, trl.GRPOConfig(bf16=False, scale_rewards="none"), allowed=False)


@pytest.mark.parametrize(
    ("names", "weights", "words"),
    [
        (["brier"], [1.0, 2.0], "2 for 1 rewards"),
        (["brier", "format"], [1.0, float("nan")], "nan for format"),
        (["brier", "format"], [-1.0, 1.0], "brier would reward being wrong"),
        (["consistency", "brier"], [1.0, 0.0], "consistency is maximised"),
    ],
    ids=["number", "nan", "negative", "consistency-alone"],
)
def test_weights_that_cannot_be_meant(names: list[str], weights: list[float], words: str) -> None:
    rewards = resolve_rewards(names, {"truthgym/sycophancy": ["sycophantic_reasoning"]})
    with pytest.raises(BadInput, match=words):
        check_weights(rewards, weights)


def test_weights_that_can() -> None:
    check_weights(resolve_rewards(["brier", "shorter"], TASKS), [1.0, 0.0])
    check_weights(resolve_rewards(["brier", "shorter"], TASKS), None)
