"""Reward modelling: a model learns to score the chosen completion above the rejected one.

truthgym train reward --model_name_or_path trained/tiny --dataset_name data/pairs
"""

from pathlib import Path

from truthgym.training.trainers.options import Given
from truthgym.training.trainers.process_reward import process_reward
from truthgym.training.trainers.run import prepare


def reward(given: Given) -> Path:
    r"""Train a reward model on preference pairs; on rows of labelled steps, a process reward model.

    The loss is $-\log \sigma(r_{chosen} - r_{rejected})$ (Bradley and Terry), with a small term that keeps the mean
    reward at 0.

    Args:
        given: Options as on the command line, or by name. They are TRL's RewardConfig and ModelConfig, and ours
            (`arguments.Options`).

    Returns:
        The trained model's folder: a sequence classifier whose one number is the reward.

    Raises:
        BadInput: Options, a model or data that cannot be used.
    """
    with prepare("reward", given) as run:
        if run.finished:
            return run.folder
        if run.data.steps:
            return process_reward(run)
        from trl import RewardTrainer

        return run.train(run.trainer(RewardTrainer))
