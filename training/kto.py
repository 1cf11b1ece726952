"""Kahneman-Tversky optimisation: the model learns from completions that are each labelled good or bad.

truthgym train kto --model_name_or_path trained/tiny --dataset_name data/labelled
"""

from pathlib import Path

from truthgym.training.trainers.options import Given
from truthgym.training.trainers.run import prepare


def kto(given: Given) -> Path:
    """Train on labelled completions, which need no partner.

    Where one label is much rarer, weigh it with `desirable_weight` or `undesirable_weight`: the KTO paper
    (arXiv:2402.01306) keeps the ratio of weight times number between 1 and 4/3.

    Args:
        given: Options as on the command line, or by name. They are TRL's KTOConfig and ModelConfig, and ours
            (`arguments.Options`).

    Returns:
        The trained model's folder.

    Raises:
        BadInput: Options, a model or data that cannot be used; among them, data with one label only.
    """
    with prepare("kto", given) as run:
        if run.finished:
            return run.folder
        from trl import KTOTrainer

        return run.train(run.trainer(KTOTrainer))
