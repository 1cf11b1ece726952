"""Direct preference optimisation: the model learns to prefer the chosen completion to the rejected one.

truthgym train dpo --model_name_or_path trained/tiny --dataset_name data/pairs
"""

from pathlib import Path

from truthgym.training.trainers.options import Given
from truthgym.training.trainers.run import prepare


def dpo(given: Given) -> Path:
    """Train on preference pairs, against the model as it was.

    By itself the loss may lower the probability of both completions, and with it that of any well-formed answer. So a
    supervised term on the chosen one goes along: `loss_type` [sigmoid, sft], weights [1, 0.5]. On a tiny model, pair
    accuracy was 0.98 without it and 0 % of the answers could be read; with it 0.96 and 88 to 98 %.

    Args:
        given: Options as on the command line, or by name. They are TRL's DPOConfig and ModelConfig, and ours
            (`arguments.Options`).

    Returns:
        The trained model's folder.

    Raises:
        BadInput: Options, a model or data that cannot be used.
    """
    with prepare("dpo", given) as run:
        if run.finished:
            return run.folder
        from trl import DPOTrainer

        return run.train(run.trainer(DPOTrainer))
