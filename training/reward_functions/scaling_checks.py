"""Checks that the trainer's options keep a proper reward proper on its way from the reward to the gradient."""

from collections.abc import Sequence

import numpy as np

from truthgym.datasets.errors import BadInput
from truthgym.training.reward_functions.rollout import Reward

IMPROPER_OPTIONS: dict[str, tuple[object, str]] = {
    "scale_rewards": ("none", "divides rewards by their own spread"),
    "multi_objective_aggregation": ("sum_then_normalize", "divides each reward by its spread within each group"),
    "normalize_advantages": (False, "divides rewards by their own spread"),
    "reward_clip_range": (None, "makes all sufficiently wrong answers equally bad"),
}
"""Options of GRPO and RLOO that can make a proper reward improper: the harmless value, and what all others do."""
ALIASES: dict[object, object] = {False: "none", True: "group"}
"""Booleans that GRPO's configuration accepts for `scale_rewards`."""


def check_scaling(rewards: Sequence[Reward], training_arguments: object, allowed: bool) -> None:
    """Refuse trainer options under which a proper reward would not be maximised by honest probabilities.

    The spread within a group depends on the outcome that its answers share: it is small for an expected outcome, and
    dividing by it amplifies those rewards. What remains of a Brier reward is the sign of the outcome, and the best
    answer is 0 or 1. The spread of a whole batch has a weaker effect of the same kind, which fades with the number of
    questions in the batch: see docs/rewards.md and studies/training/group_scaling.py.
    """
    proper = [reward.name for reward in rewards if reward.proper]
    if allowed or not proper:
        return
    for option, (harmless, effect) in IMPROPER_OPTIONS.items():
        value = getattr(training_arguments, option, harmless)
        if option == "scale_rewards":
            value = ALIASES.get(value, value)
        if value != harmless:
            raise BadInput(
                f"--{option} {value} {effect}, so reward={proper[0]} would stop being proper: it would reward answers "
                f"of 0 or 1 over honest probabilities. Use --{option} {harmless}, or --allow_group_scaling to proceed"
            )


def check_weights(rewards: Sequence[Reward], weights: Sequence[float] | None) -> None:
    """Refuse reward weights under which a reward would defeat its purpose."""
    weights = [1.0] * len(rewards) if weights is None else list(weights)
    names = " ".join(reward.name for reward in rewards)
    if len(weights) != len(rewards):
        raise BadInput(f"--reward_weights: {len(weights)} for {len(rewards)} rewards ({names}); give one per reward")
    has_proper = any(reward.proper and weight > 0 for reward, weight in zip(rewards, weights, strict=True))
    problems = []
    for reward, weight in zip(rewards, weights, strict=True):
        if not np.isfinite(weight):
            problems.append(f"--reward_weights: {weight} for {reward.name}; give a finite number")
        elif reward.proper and weight < 0:
            problems.append(
                f"--reward_weights: {weight:g} for {reward.name} would reward being wrong; higher is better in every "
                "reward here, so give a weight above 0"
            )
        elif reward.name == "consistency" and weight and not has_proper:
            problems.append(
                "reward=consistency is maximised by giving the same answer to every question; add a proper reward with "
                "a weight above 0, such as --reward consistency brier"
            )
    if problems:
        raise BadInput("; ".join(problems))
