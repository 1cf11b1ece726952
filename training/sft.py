"""Supervised fine-tuning: the model learns the completions of a dataset.

truthgym train sft --model_name_or_path trained/tiny --dataset_name data/top
"""

from pathlib import Path

from truthgym.training.trainers.dataset import empty_thoughts
from truthgym.training.trainers.options import RawOptions
from truthgym.training.trainers.training_run import log_main, prepare

WHOLE_CONVERSATIONS = "The loss covers whole conversations, including the user's messages."
EMPTY_THOUGHTS = (
    "The chat template writes an empty thought before each reply without one, and the loss covers it: the model learns "
    "not to think. Rows of `truthgym convert --form prompt-completion` leave it out of the loss."
)


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
        whole = "messages" in run.data.train.column_names
        if whole and not run.arguments.training.assistant_only_loss:
            notes = [WHOLE_CONVERSATIONS]
            log_main(f"{WHOLE_CONVERSATIONS} --assistant_only_loss trains on the replies only.")
        if whole and run.data.conversational and empty_thoughts(run.data, run.tokenizer):
            notes.append(EMPTY_THOUGHTS)
            log_main(f"WARNING: {EMPTY_THOUGHTS}")
        return run.train(trainer, lambda: notes)
