"""Truthgym's own options of every local trainer, in addition to TRL's."""

from dataclasses import dataclass, field
from typing import Any

from truthgym.training.files import hash_model


@dataclass
class Options:
    """What `truthgym train` takes besides TRL's options."""

    dataset_name: str | None = field(
        default=None, metadata={"help": "The dataset: a folder that `truthgym convert` wrote, or a name on the Hub."}
    )
    dataset_config: str | None = field(default=None, metadata={"help": "The configuration of a dataset on the Hub."})
    dataset_train_split: str = field(default="train", metadata={"help": "The split to train on."})
    dataset_validation_split: str = field(
        default="validation", metadata={"help": "The split to validate on, if the dataset has it."}
    )
    reference_model: str | None = field(
        default=None, metadata={"help": "For dpo and kto: the reference model. Default: the model that is trained."}
    )
    log: list[str] = field(
        default_factory=list,
        metadata={"help": "Logs to convert with the method's default selection.", "action": "extend"},
    )
    bootstrap: bool = field(
        default=False,
        metadata={"help": "Train on a draw of the rows' events with replacement, by --seed: a member of an ensemble."},
    )
    criteria: list[str] = field(
        default_factory=list,
        metadata={"help": "For reward on rows with `scores`: those to learn, SCORER/KEY [default: all complete ones]."},
    )
    overwrite: bool = field(default=False, metadata={"help": "Train again and replace a finished model."})
    early_stopping_patience: int = field(
        default=3, metadata={"help": "Stop after this many evaluations without a lower validation loss; 0 never stops."}
    )
    keep_checkpoints: bool = field(default=False, metadata={"help": "Keep the checkpoints of a finished run."})
    gpus: int | None = field(default=None, metadata={"help": "How many GPUs to use. Default: all that are visible."})
    no_deepspeed: bool = field(default=False, metadata={"help": "Shard with FSDP even if DeepSpeed is installed."})
    accelerate_config: str | None = field(
        default=None,
        metadata={"help": "single_gpu, multi_gpu, zero2, zero3, fsdp2, or a file that `accelerate config` wrote."},
    )
    print_launch: bool = field(default=False, metadata={"help": "Print the `accelerate launch` line and stop."})

    def settings(self) -> dict[str, Any]:
        """The options that change the result, if they differ from their defaults."""
        default = Options()
        names = ("dataset_config", "dataset_train_split", "dataset_validation_split", "bootstrap", "criteria")
        settings = {name: value for name in names if (value := getattr(self, name)) != getattr(default, name)}
        return settings | ({"reference_model": hash_model(self.reference_model)} if self.reference_model else {})
