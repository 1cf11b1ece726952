"""The options of `truthgym train` that people use, for its help and for the page."""

from dataclasses import fields

from truthgym.training.trainers.base_options import Options
from truthgym.training.trainers.default_options import BY_ROLLOUTS, DEFAULTS
from truthgym.training.trainers.rollout_options import RolloutOptions

METHODS = {
    "sft": "on completions, or on messages",
    "dpo": "on preference pairs",
    "kto": "on completions labelled good or bad",
    "reward": "a reward model, on preference pairs or on labelled reasoning steps",
    "grpo": "by reinforcement on any Inspect task, with each rollout compared to its group's mean",
    "rloo": "the same, compared to the mean of the other rollouts, with the whole reply as one action",
    "reinforcement": "with a grader, at a provider",
    "few_shot": "no weights: turns the best trajectories of logs into examples",
}
USUAL = {
    "config": "YAML file with options; the command line wins.",
    "model_name_or_path": "The model to start from: a folder, or a name on the Hub.",
    "output_dir": "Folder of all trained models.",
    "num_train_epochs": "Passes over the data; --max_steps counts steps instead.",
    "learning_rate": "Highest learning rate; ten times the default with --use_peft.",
    "per_device_train_batch_size": "Rows, or rollouts, in a forward pass of each device.",
    "gradient_accumulation_steps": "Forward passes per step.",
    "use_peft": "Train a LoRA adapter (--lora_r, --lora_alpha) and merge it.",
    "seed": "Seed.",
    "report_to": "trackio, wandb, none, ...",
}
"""TRL's options that people use, of every method."""
OF_ROLLOUTS = {
    "max_completion_length": "Tokens of a reply.",
    "num_generations": "Rollouts of a question.",
    "use_vllm": "Sample with vLLM.",
}
OF_DATASETS = {"max_length": "Tokens of a row; longer ones are cut."}
OWN = ("dataset_name", "log", "overwrite", "print_launch")
OWN_OF_ROLLOUTS = ("task", "task_args", "solver", "reward", "max_samples", "overwrite")


def usual_options(method: str) -> dict[str, tuple[str, str]]:
    """The options that people use: name to help and to the default that differs from TRL's ("": none)."""
    by_rollouts, defaults = method in BY_ROLLOUTS, DEFAULTS.get(method, {})
    own = {entry.name: entry.metadata["help"] for entry in fields(RolloutOptions if by_rollouts else Options)}
    texts = {name: own[name] for name in (OWN_OF_ROLLOUTS if by_rollouts else OWN)}
    if method not in DEFAULTS:
        shared = {
            "model_name_or_path": USUAL["model_name_or_path"],
            "log" if method == "few_shot" else "dataset_name": "",
        }
        return {name: (text or own[name], "") for name, text in shared.items()}
    texts = USUAL | (OF_ROLLOUTS if by_rollouts else OF_DATASETS) | texts
    return {name: (text, str(defaults.get(name, ""))) for name, text in texts.items()}
