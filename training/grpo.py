"""Group relative policy optimisation on any Inspect task.

truthgym train grpo --model_name_or_path trained/tiny --task truthgym/urns --task_args '{n: 2000, paradigms: brier}'
"""

from pathlib import Path

from truthgym.training.trainers.options import RawOptions


def grpo(given: RawOptions) -> Path:
    """Train on rollouts of Inspect tasks: of each question several, each paid against the mean of them.

    Rewards are not scaled (`scale_rewards` none): divided by their spread within a question's group, as TRL does by
    itself, a proper score would pay for saying 0 or 1 (Bereket and Leskovec 2025, arXiv:2508.11800).

    Args:
        given: Options as on the command line, or by name. They are TRL's GRPOConfig and ModelConfig, and ours
            (`rollout_options.RolloutOptions`).

    Returns:
        The trained model's folder. Each step's rollouts are an Inspect log in its `rollouts/`.

    Raises:
        BadInput: Options, a model, a task or a reward that cannot be used; the test split.
    """
    from truthgym.training.rollouts.trainer import train_on_rollouts

    return train_on_rollouts("grpo", given)
