"""Kahneman-Tversky optimisation: the model learns from completions that are each labelled good or bad.

truthgym train kto --model_name_or_path trained/tiny --dataset_name data/labelled
"""

from pathlib import Path

from truthgym.training.trainers.options import RawOptions
from truthgym.training.trainers.training_run import prepare


def kto(options: RawOptions) -> Path:
    """Train on labelled completions, which need not come in pairs.

    If one label is much rarer, weight it with `desirable_weight` or `undesirable_weight`: the KTO paper
    (arXiv:2402.01306) keeps the ratio of weight times count, desirable to undesirable, between 1 and 4/3.

    Args:
        options: Options as on the command line, or by name: `{"model_name_or_path": ..., "dataset_name": ...}`. They
            are those of TRL's KTOConfig and ModelConfig, and of `base_options.Options`.

    Returns:
        The trained model's folder.

    Raises:
        BadInput: Options, a model or data that cannot be used, such as data with one label only.
    """
    with prepare("kto", options) as run:
        if run.finished:
            return run.folder
        from trl import KTOTrainer

        return run.train(run.trainer(KTOTrainer))
