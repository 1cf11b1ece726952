"""Defaults of `truthgym train` that differ from TRL's."""

from typing import Any

CONFIGS = {
    "sft": "SFTConfig",
    "dpo": "DPOConfig",
    "kto": "KTOConfig",
    "reward": "RewardConfig",
    "grpo": "GRPOConfig",
    "rloo": "RLOOConfig",
}
"""TRL's class of each method's options. `reward` on labelled steps uses the same one."""
BY_ROLLOUTS = ("grpo", "rloo")
"""The reinforcement methods, which train on rollouts and not on a dataset."""

SHARED: dict[str, Any] = {
    "output_dir": "trained",
    "save_strategy": "steps",
    "save_steps": 0.1,
    "save_total_limit": 2,
    "logging_steps": 0.05,
    "logging_first_step": True,
    "restore_callback_states_from_checkpoint": True,
    "max_length": 4096,
    "lora_target_modules": ["all-linear"],
}
ROLLOUTS: dict[str, Any] = {key: value for key, value in SHARED.items() if key != "max_length"} | {
    "num_train_epochs": 1,
    "learning_rate": 1e-6,
    "num_generations": 8,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 16,
    "shuffle_dataset": False,
    "disable_tqdm": True,
}
"""Shared by the two reinforcement methods. A step has sixteen questions: with fewer, the noise of their outcomes hides
the signal. The questions are shuffled already, those of one event together."""
DEFAULTS: dict[str, dict[str, Any]] = {
    "sft": SHARED | {"num_train_epochs": 2, "learning_rate": 1e-5},
    "dpo": SHARED
    | {"num_train_epochs": 1, "learning_rate": 1e-6, "loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.5]},
    "kto": SHARED | {"num_train_epochs": 1, "learning_rate": 1e-6},
    "reward": SHARED
    | {
        "num_train_epochs": 1,
        "learning_rate": 1e-5,
        "center_rewards_coefficient": 0.01,
        "lora_task_type": "SEQ_CLS",
        "lora_modules_to_save": ["score"],
    },
    "grpo": ROLLOUTS | {"scale_rewards": "none"},
    "rloo": ROLLOUTS,
}
"""By method. docs/training.md and docs/reinforcement.md give the reason for each."""

CARD_OPTIONS = (
    "learning_rate",
    "num_train_epochs",
    "per_device_train_batch_size",
    "max_length",
    "seed",
    "bf16",
    "processes",
    "lora_r",
    "lora_alpha",
)
"""Options that every card lists. Of the others, it lists those that differ from TRL's defaults."""
