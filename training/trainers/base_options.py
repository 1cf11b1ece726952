"""Options that every trainer takes besides TRL's own."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


SPLITS = ("dataset_config", "dataset_train_split", "dataset_validation_split")


PATIENCE = 3


@dataclass
class Options:
    """What `truthgym train` takes besides TRL's options."""

    dataset_name: str | None = field(
        default=None, metadata={"help": "The dataset: a folder that `truthgym convert` wrote, or a name on the hub."}
    )
    dataset_config: str | None = field(default=None, metadata={"help": "The configuration of a dataset on the hub."})
    dataset_train_split: str = field(default="train", metadata={"help": "The split to train on."})
    dataset_validation_split: str = field(
        default="validation", metadata={"help": "The split to validate on, where the dataset has it."}
    )
    log: list[str] = field(
        default_factory=list,
        metadata={"help": "Logs to convert with the method's default selection.", "action": "extend"},
    )
    overwrite: bool = field(default=False, metadata={"help": "Train anew what is there already."})
    early_stopping_patience: int = field(
        default=PATIENCE,
        metadata={"help": "Stop after this many evaluations without a lower validation loss; 0 never stops."},
    )
    keep_checkpoints: bool = field(default=False, metadata={"help": "Keep the checkpoints of a finished run."})
    ignore_memory: bool = field(default=False, metadata={"help": "Train where the device's memory may not do."})
    gpus: int | None = field(default=None, metadata={"help": "How many GPUs to use. Default: all that are found."})
    no_deepspeed: bool = field(default=False, metadata={"help": "Shard with FSDP although DeepSpeed is installed."})
    accelerate_config: str | None = field(
        default=None,
        metadata={"help": "single_gpu, multi_gpu, zero2, zero3, fsdp2, or a file of `accelerate config`."},
    )
    print_launch: bool = field(default=False, metadata={"help": "Print the `accelerate launch` line and stop."})

    def settings(self) -> dict[str, Any]:
        """Those that decide the result."""
        there = {key: getattr(self, key) for key in SPLITS}
        return {key: value for key, value in there.items() if value != getattr(Options(), key)}
