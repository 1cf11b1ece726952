"""Supervised fine-tuning: the model learns the completions of a dataset.

truthgym train sft --model_name_or_path trained/tiny --dataset_name data/top
"""

from pathlib import Path

from truthgym.training.trainers.options import RawOptions
from truthgym.training.trainers.training_run import log_main, prepare

WHOLE_CONVERSATIONS = "The loss covers whole conversations, including the user's messages."


def sft(options: RawOptions) -> Path:
    """Train on prompts and completions, with the loss on completions only, or on messages, with the loss on all.

    Args:
        options: Options as on the command line, or by name: `{"model_name_or_path": ..., "dataset_name": ...}`. They
            are those of TRL's SFTConfig and ModelConfig, and of `base_options.Options`.

    Returns:
        The trained model's folder.

    Raises:
        BadInput: Options, a model or data that cannot be used.
    """
    with prepare("sft", options) as run:
        if run.finished:
            return run.folder
        from trl import SFTTrainer

        trainer = run.trainer(SFTTrainer)
        notes = []
        if "messages" in run.data.train.column_names and not run.arguments.training.assistant_only_loss:
            notes = [WHOLE_CONVERSATIONS]
            log_main(f"{WHOLE_CONVERSATIONS} --assistant_only_loss trains on the replies only.")
        return run.train(trainer, lambda: notes)
