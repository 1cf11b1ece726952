"""Options of `truthgym train grpo` and `rloo`: Truthgym's own, in addition to TRL's."""

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from truthgym.datasets.digests import file_digest
from truthgym.evallog.errors import bad_input
from truthgym.training.trainers.base_options import Options

DATASET_OPTIONS = (
    "log",
    "dataset_config",
    "dataset_train_split",
    "dataset_validation_split",
    "bootstrap",
    "criteria",
    "early_stopping_patience",
    "reference_model",
)
"""Options of the other trainers that have no effect here."""
IGNORED_BY_ROLLOUTS: dict[str, Any] = {
    "min_p": None,
    "repetition_penalty": 1.0,
    "generation_kwargs": None,
    "cache_implementation": None,
    "use_transformers_continuous_batching": False,
    "use_transformers_paged": False,
    "vllm_structured_outputs_regex": None,
}
"""TRL's sampling options that have no effect, with their defaults: Inspect generates the replies, not TRL."""
LIMITS = {
    "validation_steps": (0, inf),
    "min_share_read": (0, 1),
    "heartbeat": (0.01, inf),
    "max_samples": (1, inf),
    "validation_samples": (1, inf),
}
"""Smallest and largest value of an option."""


@dataclass
class RolloutOptions(Options):
    """What `truthgym train grpo` and `rloo` take besides TRL's options."""

    dataset_name: str | None = field(
        default=None,
        metadata={"help": "A folder that `truthgym convert --to prompts` wrote: train only on its questions."},
    )
    task: list[str] = field(
        default_factory=list, metadata={"help": "Tasks to train on, named as for `inspect eval`.", "action": "extend"}
    )
    task_args: dict[str, Any] | str | None = field(
        default=None, metadata={"help": "The tasks' arguments, in YAML or JSON: '{n: 2000}'."}
    )
    solver: str | None = field(default=None, metadata={"help": "A solver that replaces the task's own."})
    solver_args: dict[str, Any] | str | None = field(
        default=None, metadata={"help": "The solver's arguments, in YAML or JSON."}
    )
    model_role: list[str] = field(
        default_factory=list,
        metadata={"help": "Models for other roles: judge=openai/gpt-5.4-mini.", "action": "extend"},
    )
    reward: list[str] = field(
        default_factory=list,
        metadata={"help": "Rewards by name, weighted by --reward_weights [default: the task's own score]."},
    )
    turn_rewards: str | None = field(
        default=None,
        metadata={"help": "Advantages of single turns, from `beliefs` after each step or a process `reward_model`."},
    )
    monitor: list[str] = field(
        default_factory=list,
        metadata={"help": "Folders of clean runs: stop if the signals drift from theirs.", "action": "extend"},
    )
    monitor_signals: list[str] = field(
        default_factory=list,
        metadata={"help": "What the monitor watches, NAME:up or NAME:down [default: completions/mean_length]."},
    )
    monitor_alpha: float = field(default=0.05, metadata={"help": "Probability that the monitor stops a clean run."})
    allow_group_scaling: bool = field(
        default=False,
        metadata={"help": "Allow scaling a proper reward by each group's standard deviation, which makes it improper."},
    )
    max_samples: int | None = field(default=None, metadata={"help": "Maximum number of training questions."})
    chat_template_path: str | None = field(
        default=None, metadata={"help": "A chat template that replaces the model's own. It is saved with the model."}
    )
    validation_steps: float = field(
        default=0.2, metadata={"help": "Evaluate every so many steps; below 1, every such share of the run; 0 never."}
    )
    validation_samples: int = field(default=128, metadata={"help": "Maximum number of questions in each evaluation."})
    min_share_read: float = field(
        default=0.0, metadata={"help": "Stop if the share of a step's answers that can be parsed falls below this."}
    )
    heartbeat: float = field(default=30.0, metadata={"help": "Seconds between two lines of progress output."})

    def settings(self) -> dict[str, Any]:
        """The options that change the result, if they are set."""
        names = ("task", "task_args", "solver", "solver_args", "model_role", "reward", "turn_rewards", "max_samples")
        settings = {name: value for name in names if (value := getattr(self, name))}
        if files := _source_hashes(self):
            settings["files"] = files
        if self.chat_template_path:
            settings["chat_template_path"] = self.chat_template_path
        return settings


def rollout_problems(parsed: Namespace) -> list[str]:
    """Parse the options that are YAML, and check those that concern rollouts."""
    parsed.task_args = _mapping("task_args", parsed.task_args)
    parsed.solver_args = _mapping("solver_args", parsed.solver_args)
    problems = [] if parsed.task else ["no task; name one, such as --task truthgym/urns"]
    for option in parsed.model_role:
        if not all(str(option).partition("=")):
            problems.append(f"--model_role {option}: write ROLE=MODEL, such as judge=openai/gpt-5.4-mini")
    for option in sorted(parsed.user_set & {*DATASET_OPTIONS, "eval_strategy", "eval_steps"}):
        remedy = "set --validation_steps instead" if option.startswith("eval") else "leave it out"
        problems.append(f"--{option} has no effect on rollouts; {remedy}")
    for option, default in IGNORED_BY_ROLLOUTS.items():
        if getattr(parsed, option, default) != default:
            problems.append(
                f"--{option} has no effect, since Inspect generates the replies and not TRL; set --temperature, "
                "--top_p and --top_k instead"
            )
    if parsed.user_set & {"vllm_server_base_url", "vllm_server_host"} and "vllm_mode" not in parsed.user_set:
        parsed.vllm_mode = "server"
    if parsed.use_vllm and parsed.vllm_mode == "colocate" and parsed.vllm_tensor_parallel_size > 1:
        problems.append(
            f"--vllm_tensor_parallel_size {parsed.vllm_tensor_parallel_size}: the processes run different samples, so "
            "their engines cannot work in step; leave it out, or use --vllm_mode server"
        )
    for option, (least, most) in LIMITS.items():
        value = getattr(parsed, option)
        if value is not None and not least <= value <= most:
            limits = f"of at least {least}" if most == inf else f"from {least} to {most}"
            problems.append(f"--{option} {value}: give a number {limits}")
    return problems


def roles_by_name(options: Sequence[str]) -> dict[str, str]:
    """Models by role, from `ROLE=MODEL`."""
    return {role: model for role, _, model in (str(option).partition("=") for option in options)}


def _source_hashes(options: RolloutOptions) -> dict[str, str]:
    """SHA-256 of the user's files that define tasks, the solver and rewards: their content changes the result."""
    from truthgym.training.reward_functions.user_function import hash_of_source

    files = [Path(name.partition("@")[0]) for name in (*options.task, options.solver or "")]
    hashes = {str(file): file_digest(file) for file in files if file.suffix == ".py" and file.is_file()}
    return hashes | {name: digest for name in options.reward if "." in name and (digest := hash_of_source(name))}


def parse_mapping(value: object) -> dict[str, Any]:
    """A mapping from YAML or JSON, or from Python. None and an empty text are an empty one."""
    import yaml

    try:
        parsed = (yaml.safe_load(value) if isinstance(value, str) else value) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"neither YAML nor JSON ({error}); write {{name: value}}") from None
    if not isinstance(parsed, Mapping):
        raise ValueError("not a mapping; write {name: value}, with a space after each colon")
    return dict(parsed)


def _mapping(name: str, value: object) -> dict[str, Any]:
    """An option's value as a dictionary that JSON can hold."""
    try:
        parsed = parse_mapping(value)
    except ValueError as error:
        raise bad_input(f"--{name} {value!r}: {error}.") from None
    return {str(key): each for key, each in json.loads(json.dumps(parsed, default=str)).items()}
