"""Reward modelling: a model learns to score the chosen completion above the rejected one.

truthgym train reward --model_name_or_path trained/tiny --dataset_name data/pairs
"""

from pathlib import Path

from truthgym.training.trainers.options import RawOptions
from truthgym.training.trainers.process_reward import process_reward
from truthgym.training.trainers.training_run import prepare


def reward(options: RawOptions) -> Path:
    r"""Train a reward model on preference pairs; on rows of labelled steps, a process reward model.

    The loss on pairs is $-\log \sigma(r_{chosen} - r_{rejected})$ (Bradley and Terry), with a small term that keeps the
    mean reward near 0.

    Args:
        options: Options as on the command line, or by name: `{"model_name_or_path": ..., "dataset_name": ...}`. They
            are those of TRL's RewardConfig and ModelConfig, and of `base_options.Options`.

    Returns:
        The trained model's folder: a sequence classifier with one output, the reward; for steps, a token classifier.

    Raises:
        BadInput: Options, a model or data that cannot be used.
    """
    with prepare("reward", options) as run:
        if run.finished:
            return run.folder
        if run.data.steps:
            return process_reward(run)
        from trl import RewardTrainer

        return run.train(run.trainer(RewardTrainer))
