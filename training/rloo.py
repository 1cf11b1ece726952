"""REINFORCE with the leave-one-out baseline on any Inspect task.

truthgym train rloo --model_name_or_path trained/tiny --task truthgym/urns --task_args '{n: 2000, paradigms: brier}'
"""

from pathlib import Path

from truthgym.training.trainers.options import RawOptions


def rloo(given: RawOptions) -> Path:
    """Train on rollouts of Inspect tasks: of each question several, each paid against the mean of the others.

    The reward is that of the whole reply (Ahmadian et al. 2024, arXiv:2402.14740). Where a solver lets the model speak
    more than once, each rollout trains one of its replies, drawn at random, after all that came before it.

    Args:
        given: As of `grpo`, with TRL's RLOOConfig.

    Returns:
        As `grpo`.

    Raises:
        BadInput: As `grpo`.
    """
    from truthgym.training.rollouts.trainer import train_on_rollouts

    return train_on_rollouts("rloo", given)
