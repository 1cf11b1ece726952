"""Direct preference optimisation: the model learns to prefer the chosen completion to the rejected one.

truthgym train dpo --model_name_or_path trained/tiny --dataset_name data/pairs
"""

from pathlib import Path

from truthgym.training.trainers.options import RawOptions
from truthgym.training.trainers.training_run import prepare


def dpo(options: RawOptions) -> Path:
    """Train on preference pairs, with the base model as the reference.

    The DPO loss alone can lower the probability of both completions, and with it that of any well-formed answer. So a
    supervised term on the chosen completion is added: `loss_type` [sigmoid, sft] with weights [1, 0.5]. On a tiny
    model, pair accuracy was 0.98 without the term and 0 % of the answers could be parsed; with it, 0.96 and 88 to 98 %.

    Args:
        options: Options as on the command line, or by name: `{"model_name_or_path": ..., "dataset_name": ...}`. They
            are those of TRL's DPOConfig and ModelConfig, and of `base_options.Options`.

    Returns:
        The trained model's folder.

    Raises:
        BadInput: Options, a model or data that cannot be used.
    """
    with prepare("dpo", options) as run:
        if run.finished:
            return run.folder
        from trl import DPOTrainer

        return run.train(run.trainer(DPOTrainer))
