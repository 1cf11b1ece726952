"""Supervised fine-tuning: the model learns to write the completions of a dataset.

truthgym train sft --model_name_or_path trained/tiny --dataset_name data/top
"""

from pathlib import Path

from truthgym.training.trainers.options import Given
from truthgym.training.trainers.run import prepare

EVERY = "The loss is over whole conversations: what the user says is learnt as well."


def sft(given: Given) -> Path:
    """Train on prompts and completions (the loss is the completion's) or on messages.

    Args:
        given: Options as on the command line, or by name: `{"model_name_or_path": ..., "dataset_name": ...}`. They
            are TRL's SFTConfig and ModelConfig, and ours (`arguments.Options`).

    Returns:
        The trained model's folder.

    Raises:
        BadInput: Options, a model or data that cannot be used.
    """
    with prepare("sft", given) as run:
        if run.finished:
            return run.folder
        from trl import SFTTrainer

        trainer = run.trainer(SFTTrainer)
        every = "messages" in run.data.train.column_names and not run.arguments.training.assistant_only_loss
        if every and trainer.is_world_process_zero():
            print(f"{EVERY} --assistant_only_loss trains on the replies alone.", flush=True)
        return run.train(trainer, lambda: [EVERY] if every else [])
