"""Defaults of `truthgym train`: where they differ from TRL's own."""

from typing import Any

CONFIGS = {
    "sft": "SFTConfig",
    "dpo": "DPOConfig",
    "kto": "KTOConfig",
    "reward": "RewardConfig",
    "grpo": "GRPOConfig",
    "rloo": "RLOOConfig",
}
"""TRL's class of each method's options. `reward` on labelled steps uses the same."""
BY_ROLLOUTS = ("grpo", "rloo")
"""The methods of reinforcement: they train on what the model itself writes, not on a dataset."""

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
"""What the two methods of reinforcement share. Sixteen questions a step: with fewer, the luck of their outcomes
drowns what could be learned from them. The samples come shuffled, those of one event together."""
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
"""Where they differ from TRL's. docs/training.md and docs/reinforcement.md give the reason of each."""

MAIN = (
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
"""Options that every card shows; of the others, those that are not TRL's own defaults."""
