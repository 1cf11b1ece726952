"""The guard of proper rewards: what a trainer may not do to them between the reward and the gradient."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from truthgym.evallog.errors import bad_input

if TYPE_CHECKING:
    from truthgym.training.reward_functions.rollout import Reward

FORBIDDEN: dict[str, tuple[object, str]] = {
    "scale_rewards": ("none", "divides rewards by their own spread"),
    "multi_objective_aggregation": ("sum_then_normalize", "divides each reward by its spread within each group"),
    "normalize_advantages": (False, "divides rewards by their own spread"),
    "reward_clip_range": (None, "makes wrong answers equally bad"),
}
"""Options of GRPO and RLOO that make a proper reward improper: the value that does not, and what the others do."""
ALIASES: dict[object, object] = {False: "none", True: "group"}
"""What GRPO's configuration takes for a name."""


def check_scaling(rewards: "Sequence[Reward]", training_arguments: object, allowed: bool) -> None:
    """Refuse options of the trainer with which a proper reward would no longer pay for saying what is believed.

    The spread within a group depends on the outcome that its answers share: where it is small, for an outcome that was
    expected, the division makes much of it. What remains of a Brier reward is the sign of the outcome, and the best
    answer is 0 or 1. The spread of a whole batch does the same to a lesser degree, the less so the more questions are
    in it: see `drift` and docs/rewards.md.

    Args:
        rewards: The rewards of the run.
        training_arguments: TRL's GRPOConfig or RLOOConfig.
        allowed: Whether the user has said that it shall be so: `--allow_group_scaling`.

    Raises:
        BadInput: A proper reward, and an option that makes it improper.
    """
    proper = [reward.name for reward in rewards if reward.proper]
    if allowed or not proper:
        return
    for option, (harmless, what) in FORBIDDEN.items():
        given = getattr(training_arguments, option, harmless)
        if option == "scale_rewards":
            given = ALIASES.get(given, given)
        if given != harmless:
            raise bad_input(
                f"--{option} {given} {what}, and reward={proper[0]} would no longer be best for who says what it "
                f"believes, but for who says 0 or 1; leave it at {harmless}, or say --allow_group_scaling"
            )


def check_weights(rewards: "Sequence[Reward]", weights: Sequence[float] | None) -> None:
    """Refuse weights under which rewards would not do what they are for.

    Args:
        rewards: The rewards of the run.
        weights: TRL's `reward_weights`, one for each; None is 1 for all.

    Raises:
        BadInput: Another number of weights, one that is no number, a proper reward with a weight below 0, or
            `consistency` without a proper reward beside it.
    """
    held = [1.0] * len(rewards) if weights is None else list(weights)
    names = " ".join(reward.name for reward in rewards)
    if len(held) != len(rewards):
        raise bad_input(f"--reward_weights: {len(held)} for {len(rewards)} rewards ({names}); give one for each")
    for reward, weight in zip(rewards, held, strict=True):
        if not np.isfinite(weight):
            raise bad_input(f"--reward_weights: {weight} for {reward.name}; give a number")
        if reward.proper and weight < 0:
            raise bad_input(
                f"--reward_weights: {weight:g} for {reward.name} pays for being wrong; higher is better in every "
                "reward here, so give a weight above 0"
            )
    honest = any(reward.proper and weight > 0 for reward, weight in zip(rewards, held, strict=True))
    for reward, weight in zip(rewards, held, strict=True):
        if reward.name == "consistency" and weight and not honest:
            raise bad_input(
                "reward=consistency is had best by one answer to every question; name a proper reward beside it, such "
                "as --reward consistency brier, with a weight above 0"
            )


def drift(
    level: float,
    probability: float,
    scaling: str = "none",
    *,
    groups: int = 1,
    generations: int = 8,
    spread: float = 0.03,
    draws: int = 4000,
    seed: int = 0,
) -> tuple[float, float]:
    r"""Where a Brier reward, scaled as GRPO scales it, pushes a stated belief: above 0 up, below 0 down.

    $$E\big[\,A_i\,(b_i-x)\,\big],\qquad A_i=\frac{R_i-\bar R}{s}$$

    of answers b that are `level` plus or minus `spread` with equal chances; R = -(b - y)², one outcome y for each
    group; s is 1, or the standard deviation of R within the group or the batch. The policy gradient of the mean answer
    is this but for a positive factor.

    Args:
        level: The belief x that is stated, between `spread` and 1 - `spread`.
        probability: Of the outcome "yes". A proper reward pushes towards it from both sides.
        scaling: GRPO's `scale_rewards`: none, batch or group.
        groups: Questions in a batch, all with the same level and probability.
        generations: Answers to each.
        spread: Of the answers.
        draws: Batches simulated.
        seed: Of the draws.

    Returns:
        The drift and its standard error.
    """
    rng = np.random.default_rng(seed)
    stated = level + spread * rng.choice([-1.0, 1.0], size=(draws, groups, generations))
    outcome = rng.random((draws, groups, 1)) < probability
    reward = -np.square(stated - outcome)
    advantage = reward - reward.mean(axis=2, keepdims=True)
    if scaling != "none":
        over = reward if scaling == "group" else reward.reshape(draws, 1, -1)
        advantage /= over.std(axis=2, ddof=1, keepdims=True) + 1e-4  # as TRL has it
    push = (advantage * (stated - level)).mean(axis=(1, 2))
    return float(push.mean()), float(push.std(ddof=1) / np.sqrt(draws))
