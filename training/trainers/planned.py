"""What options plan, as far as it decides a run's memory: the adapter and the load of one step."""

from argparse import Namespace
from typing import TYPE_CHECKING, cast

from truthgym.training.trainers.defaults import BY_ROLLOUTS
from truthgym.training.trainers.memory import Load

if TYPE_CHECKING:
    from peft import PeftConfig


def lora_of(parsed: Namespace) -> "PeftConfig | None":
    """PEFT's configuration as options give it."""
    from trl import ModelConfig, get_peft_config

    names = ModelConfig.__dataclass_fields__
    model = ModelConfig(**{name: value for name, value in vars(parsed).items() if name in names})
    return cast("PeftConfig | None", get_peft_config(model))


def load_of(method: str, parsed: Namespace, length: int, checkpointing: bool, mixed: bool) -> Load:
    """What decides a run's memory besides the model."""
    loaded = {"bfloat16": 16, "float16": 16}.get(parsed.dtype, 32)
    # Reinforcement holds a second model only where the distance from it counts.
    reference = method in ("dpo", "kto") or (method in BY_ROLLOUTS and parsed.beta > 0)
    return Load(
        sequences=parsed.per_device_train_batch_size * (2 if method in ("dpo", "reward") else 1),
        length=length,
        checkpointing=checkpointing,
        reference=reference and not parsed.use_peft,
        bits=4 if parsed.load_in_4bit else 8 if parsed.load_in_8bit else loaded,
        mixed=mixed,
    )
