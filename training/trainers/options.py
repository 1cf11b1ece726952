"""Options of `truthgym train`: TRL's and Truthgym's, their defaults, and how they are read and checked.

They come from the command line, a YAML file or a Python call. docs/training.md and docs/reinforcement.md give the
reason for each default that differs from TRL's.
"""

# ruff: noqa: RUF009  (`_option` makes a field)

import json
import os
from argparse import SUPPRESS, ArgumentError, ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from truthgym.datasets.digests import file_digest
from truthgym.datasets.redaction import redacted
from truthgym.evallog.errors import bad_input
from truthgym.training.files import hash_model

if TYPE_CHECKING:
    from peft import PeftConfig
    from trl import ModelConfig

RawOptions = Sequence[str] | Mapping[str, Any]
"""Options as words of a command line, or by name."""
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
CONFIGS = {
    "sft": "SFTConfig",
    "dpo": "DPOConfig",
    "kto": "KTOConfig",
    "reward": "RewardConfig",
    "grpo": "GRPOConfig",
    "rloo": "RLOOConfig",
}
"""TRL's class of the options of each method that trains on this machine."""
BY_ROLLOUTS = ("grpo", "rloo")
"""The reinforcement methods, which train on rollouts and not on a dataset."""

SHARED: dict[str, Any] = {
    "output_dir": "trained",
    "save_strategy": "steps",
    "save_steps": 0.1,
    "save_total_limit": 2,
    "logging_steps": 0.05,
    "logging_first_step": True,
    "logging_nan_inf_filter": False,
    "restore_callback_states_from_checkpoint": True,
    "max_length": 4096,
    "lora_target_modules": ["all-linear"],
    "disable_tqdm": True,
}
ROLLOUTS: dict[str, Any] = {key: value for key, value in SHARED.items() if key != "max_length"} | {
    "num_train_epochs": 1,
    "learning_rate": 1e-6,
    "num_generations": 8,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 16,
    "shuffle_dataset": False,
    "logging_steps": 1,
}
"""A step has sixteen questions: with fewer, the noise of their outcomes hides the signal. The questions are shuffled
already, those of one event together."""
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
"""Defaults that differ from TRL's, by method."""
LORA_LEARNING_RATE = 10
"""The default learning rate with LoRA, as a multiple of that for all weights (Schulman et al. 2025, LoRA Without
Regret)."""
EVAL_STEPS = 0.1
"""With a validation split: evaluate and save after each such share of the run."""

UNHASHED_OPTIONS = (
    *("output_dir", "resume_from_checkpoint", "run_name", "project", "report_to", "disable_tqdm", "debug"),
    *("local_rank", "prediction_loss_only", "per_device_eval_batch_size", "model_name_or_path", "model_revision"),
    *("do_train", "do_eval", "do_predict", "push_to_hub", "skip_memory_metrics", "use_cpu", "dataset_num_proc"),
    *("activation_checkpointing", "activation_checkpointing_kwargs", "activation_offloading", "gradient_checkpointing"),
    *("gradient_checkpointing_kwargs", "torch_empty_cache_steps", "deepspeed", "auto_find_batch_size", "pad_token"),
    *("accelerator_config", "enable_jit_checkpoint", "restore_callback_states_from_checkpoint", "trust_remote_code"),
)
UNHASHED_PREFIXES = (
    *("logging_", "log_", "save_", "hub_", "trackio_", "dataloader_", "ddp_", "fsdp", "include_"),
    *("vllm_server_", "vllm_group_", "vllm_gpu_", "num_completions_to_print"),
    *("eval_accumulation", "eval_do_", "eval_use_"),
)
"""Options that do not change the trained weights, so they are not part of the model's name."""
HASHED_OPTIONS = ("dataloader_drop_last", "accelerator_config")
"""Exceptions: these can change the weights and are hashed if they differ from their default."""
CARD_OPTIONS = (
    *("learning_rate", "num_train_epochs", "per_device_train_batch_size", "max_length", "seed", "bf16", "processes"),
    *("lora_r", "lora_alpha"),
)
"""Options that every card lists. Of the others, it lists those that differ from TRL's defaults."""

DATASET_OPTIONS = (
    *("log", "dataset_config", "dataset_train_split", "dataset_validation_split", "bootstrap", "members", "criteria"),
    *("early_stopping_patience", "reference_model"),
)
"""Options that have no effect on rollouts."""
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
USUAL_OF_DATASETS = {"max_length": "Tokens of a row; longer ones are cut."}
USUAL_OF_ROLLOUTS = {
    "max_completion_length": "Tokens of a reply.",
    "num_generations": "Rollouts of a question.",
    "use_vllm": "Sample with vLLM.",
}
OWN_OF_DATASETS = ("dataset_name", "log", "overwrite", "print_launch")
OWN_OF_ROLLOUTS = ("task", "task_args", "solver", "reward", "max_samples", "overwrite")
"""Truthgym's own options that people use."""


def _option(default: Any, text: str, **more: str) -> Any:  # noqa: ANN401
    """A field with its help."""
    metadata = {"help": text, **more}
    if default == []:
        return field(default_factory=list, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class Options:
    """What `truthgym train` takes besides TRL's options."""

    dataset_name: str | None = _option(
        None, "The dataset: a folder that `truthgym convert` wrote, or a name on the Hub."
    )
    dataset_config: str | None = _option(None, "The configuration of a dataset on the Hub.")
    dataset_train_split: str = _option("train", "The split to train on.")
    dataset_validation_split: str = _option("validation", "The split to validate on, if the dataset has it.")
    reference_model: str | None = _option(
        None, "For dpo and kto: the reference model. Default: the model that is trained."
    )
    log: list[str] = _option([], "Logs to convert with the method's default selection.", action="extend")
    bootstrap: bool = _option(
        False, "Train on a draw of the rows' events with replacement, by --seed: a member of an ensemble."
    )
    members: int | None = _option(
        None, "For reward: train so many, with --bootstrap and the seeds from 1, one on each GPU at a time."
    )
    criteria: list[str] = _option(
        [], "For reward on rows with `scores`: those to learn, SCORER/KEY [default: all complete ones]."
    )
    overwrite: bool = _option(False, "Train again and replace a finished model.")
    early_stopping_patience: int = _option(
        3, "Stop after this many evaluations without a lower validation loss; 0 never stops."
    )
    keep_checkpoints: bool = _option(False, "Keep the checkpoints of a finished run.")
    gpus: int | None = _option(None, "How many GPUs to use. Default: all that are visible.")
    no_deepspeed: bool = _option(False, "Shard with FSDP even if DeepSpeed is installed.")
    accelerate_config: str | None = _option(
        None, "single_gpu, multi_gpu, zero2, zero3, fsdp2, or a file that `accelerate config` wrote."
    )
    print_launch: bool = _option(False, "Print the `accelerate launch` line and stop.")

    def settings(self) -> dict[str, Any]:
        """The options that change the result, if they differ from their defaults."""
        default = Options()
        names = ("dataset_config", "dataset_train_split", "dataset_validation_split", "bootstrap", "criteria")
        settings = {name: value for name in names if (value := getattr(self, name)) != getattr(default, name)}
        return settings | ({"reference_model": hash_model(self.reference_model)} if self.reference_model else {})


@dataclass
class RolloutOptions(Options):
    """What `truthgym train grpo` and `rloo` take besides TRL's options."""

    dataset_name: str | None = _option(
        None, "A folder that `truthgym convert --to prompts` wrote: train only on its questions."
    )
    task: list[str] = _option([], "Tasks to train on, named as for `inspect eval`.", action="extend")
    task_args: dict[str, Any] | str | None = _option(None, "The tasks' arguments, in YAML or JSON: '{n: 2000}'.")
    solver: str | None = _option(None, "A solver that replaces the task's own.")
    solver_args: dict[str, Any] | str | None = _option(None, "The solver's arguments, in YAML or JSON.")
    model_role: list[str] = _option([], "Models for other roles: judge=openai/gpt-5.4-mini.", action="extend")
    reward: list[str] = _option([], "Rewards by name, weighted by --reward_weights [default: the task's own score].")
    turn_rewards: str | None = _option(
        None, "Advantages of single turns, from `beliefs` after each step or a process `reward_model`."
    )
    monitor: list[str] = _option([], "Folders of clean runs: stop if the signals drift from theirs.", action="extend")
    monitor_signals: list[str] = _option(
        [], "What the monitor watches, NAME:up or NAME:down [default: completions/mean_length]."
    )
    monitor_alpha: float = _option(0.05, "Probability that the monitor stops a clean run.")
    allow_group_scaling: bool = _option(
        False, "Allow scaling a proper reward by each group's standard deviation, which makes it improper."
    )
    max_samples: int | None = _option(None, "Maximum number of training questions.")
    chat_template_path: str | None = _option(
        None, "A chat template that replaces the model's own. It is saved with the model."
    )
    validation_steps: float = _option(
        0.2, "Evaluate every so many steps; below 1, every such share of the run; 0 never."
    )
    validation_samples: int = _option(128, "Maximum number of questions in each evaluation.")
    min_share_read: float = _option(0.0, "Stop if the share of a step's answers that can be parsed falls below this.")
    heartbeat: float = _option(30.0, "Seconds of silence after which a line says how far a step is.")

    def settings(self) -> dict[str, Any]:
        """The options that change the result, if they are set."""
        names = (
            *("task", "task_args", "solver", "solver_args", "model_role", "reward", "turn_rewards", "max_samples"),
            "chat_template_path",
        )
        settings = {name: value for name in names if (value := getattr(self, name))}
        return settings | ({"files": hashes} if (hashes := self._source_hashes()) else {})

    def _source_hashes(self) -> dict[str, str]:
        """SHA-256 of the user's files that define tasks, the solver and rewards: their content changes the result."""
        from truthgym.training.reward_functions.user_function import hash_of_source

        files = [Path(name.partition("@")[0]) for name in (*self.task, self.solver or "")]
        hashes = {str(file): file_digest(file) for file in files if file.suffix == ".py" and file.is_file()}
        return hashes | {name: digest for name in self.reward if "." in name and (digest := hash_of_source(name))}


@dataclass
class Arguments:
    """All options of one run."""

    method: str
    options: Options
    training: Any
    """TRL's class of the method's options, see `CONFIGS`."""
    model: "ModelConfig"

    def settings(self, processes: int = 1) -> dict[str, Any]:
        """The options that determine the result; a whole number is an int, so that `1` and `1.0` name one model."""
        named = {entry.name: getattr(self.training, entry.name) for entry in fields(self.training)} | asdict(self.model)
        named = {key: value.value if isinstance(value, Enum) else value for key, value in named.items()}
        named |= {"processes": processes, "early_stopping_patience": self.options.early_stopping_patience}
        named |= self.options.settings()
        skipped: tuple[str, ...] = UNHASHED_PREFIXES
        if not self.training.load_best_model_at_end:  # then no evaluation changes the weights
            skipped += ("eval_", "early_", "metric_")
        if not self.model.use_peft:
            skipped += ("lora_", "use_dora", "use_rslora")
        hashed = {
            key: value for key, value in named.items() if key not in UNHASHED_OPTIONS and not key.startswith(skipped)
        }
        hashed |= {key: value for key in HASHED_OPTIONS if (value := named[key]) != type(value)()}
        if template := hashed.get("chat_template_path"):  # its content counts, not its path
            file = Path(template)
            hashed["chat_template_path"] = file_digest(file) if file.is_file() else hash_model(template)
        return {key: _canonical(value) for key, value in sorted(redacted(hashed).items())}


def lora_config(options: "Namespace | ModelConfig", **changes: object) -> "PeftConfig | None":
    """PEFT's configuration of the adapter that options describe, with `changes` to them; None without `use_peft`."""
    from trl import ModelConfig, get_peft_config

    named = {name: value for name, value in vars(options).items() if name in ModelConfig.__dataclass_fields__}
    model = ModelConfig(**deepcopy(named) | changes)  # a copy, since PEFT adds to the lists
    return cast("PeftConfig | None", get_peft_config(model))


def option_classes(method: str) -> tuple[type, ...]:
    """The dataclasses whose fields are a method's options: Truthgym's, TRL's of the method and TRL's of the model."""
    import trl

    own = RolloutOptions if method in BY_ROLLOUTS else Options
    return (own, getattr(trl, CONFIGS[method]), trl.ModelConfig)


def parse_options(method: str, raw: RawOptions) -> Namespace:
    """Parse and check options, without building TRL's, so that torch's devices stay untouched.

    `user_set` of the result names the options that are no defaults. The command line wins over the file of `--config`.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL reports each trainer that is built
    import trl

    command = f"truthgym train {method}"
    config, words = _config_and_words(raw)
    classes = option_classes(method)
    names = [entry.name for kind in classes for entry in fields(kind) if entry.init]
    parser = trl.TrlParser(classes, prog=command, allow_abbrev=False, exit_on_error=False)
    parser.set_defaults_with_config(**DEFAULTS[method])
    defaults = {name: parser.get_default(name) for name in names}
    if not {"-h", "--help"} & set(words):  # the help shows the defaults; otherwise, parse only what the user set
        parser.set_defaults_with_config(**dict.fromkeys(names, SUPPRESS))
    config = {key: [value] if isinstance(value, str) and isinstance(defaults.get(key), list) else value
              for key, value in config.items()}  # fmt: skip
    unknown = parser.set_defaults_with_config(**config)
    try:
        parsed, rest = parser.parse_known_args(words)
    except ArgumentError as error:
        raise bad_input(f"{command}: {error}; `{command} --help` lists the options.") from None
    if unknown or rest:
        from truthgym.datasets.errors import did_you_mean

        name = (unknown or rest)[0].partition("=")[0]
        near = did_you_mean(name.lstrip("-").replace("-", "_"), names)
        raise bad_input(f"{command}: unknown option {name}; {near}`{command} --help` lists the options.")
    options = Namespace(**defaults | vars(parsed), user_set=frozenset(vars(parsed)))
    _check(method, options)
    return options


def build_options(method: str, parsed: Namespace, validated: bool) -> Arguments:
    """Build TRL's option classes."""
    import torch
    import trl

    named = {key: value for key, value in vars(parsed).items() if key != "user_set"}
    gpu = torch.cuda.is_available() and not parsed.use_cpu
    if not {"bf16", "fp16"} & parsed.user_set:
        named["bf16"] = gpu and torch.cuda.is_bf16_supported()
    if not {"gradient_checkpointing", "activation_checkpointing"} & parsed.user_set:
        name = "activation_checkpointing" if "activation_checkpointing" in named else "gradient_checkpointing"
        named |= {"gradient_checkpointing": None, name: gpu}  # from transformers 5.23 on, the old name causes a warning
    if "dataloader_pin_memory" not in parsed.user_set:
        named["dataloader_pin_memory"] = gpu  # without a GPU, torch would warn before each evaluation
    named |= _validation(parsed) if validated else {"eval_strategy": "no", "load_best_model_at_end": False}
    if token := named.pop("hub_token", None):
        os.environ["HF_TOKEN"] = token  # there the Hub's library looks, and no file of the model has it
    try:
        options, training, model = trl.TrlParser(cast(Any, option_classes(method))).parse_dict(named)
    except (ValueError, TypeError, ImportError) as error:
        raise bad_input(f"truthgym train {method}: these options cannot be used together: {error}") from None
    return Arguments(method, options, training, model)


def read_options(path: Path) -> dict[str, Any]:
    """Read a YAML file of options. As in TRL's scripts, its `env` entries become environment variables."""
    if not path.is_file():
        raise bad_input(f"--config {path}: no such file; give the path of a YAML file.")
    try:
        config = parse_mapping(path.read_text(encoding="utf-8"))
        env = parse_mapping(config.pop("env", None))
    except ValueError as error:
        raise bad_input(f"--config {path}: {error}, one `option: value` per line, also below `env:`.") from None
    os.environ.update({str(key): str(value) for key, value in env.items()})
    return {str(key): value for key, value in config.items()}


def parse_mapping(value: object) -> dict[str, Any]:
    """A mapping from YAML or JSON, or from Python. None and an empty text are an empty one."""
    import yaml

    try:
        parsed = (yaml.safe_load(value) if isinstance(value, str) else value) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"neither YAML nor JSON ({error}); write {{name: value}}") from None
    if not isinstance(parsed, Mapping):
        raise ValueError("not a mapping; write {name: value}, with a space after each colon")
    return dict(parsed)


def mapping_option(name: str, value: object) -> dict[str, Any]:
    """The mapping that an option of the command line holds."""
    try:
        return parse_mapping(value)
    except ValueError as error:
        raise bad_input(f"{name} {value!r}: {error}.") from None


def roles_by_name(options: Sequence[str]) -> dict[str, str]:
    """Models by role, from `ROLE=MODEL`."""
    return {role: model for role, _, model in (str(option).partition("=") for option in options)}


def usual_options(method: str) -> dict[str, tuple[str, str]]:
    """The options that people use: name to help and to the default that differs from TRL's ("": none)."""
    by_rollouts, defaults = method in BY_ROLLOUTS, DEFAULTS.get(method, {})
    own = {entry.name: entry.metadata["help"] for entry in fields(RolloutOptions if by_rollouts else Options)}
    if method not in DEFAULTS:
        data = "log" if method == "few_shot" else "dataset_name"
        return {"model_name_or_path": (USUAL["model_name_or_path"], ""), data: (own[data], "")}
    texts = USUAL | (USUAL_OF_ROLLOUTS if by_rollouts else USUAL_OF_DATASETS)
    texts |= {name: own[name] for name in (OWN_OF_ROLLOUTS if by_rollouts else OWN_OF_DATASETS)}
    return {name: (text, str(defaults.get(name, ""))) for name, text in texts.items()}


def _config_and_words(raw: RawOptions) -> tuple[dict[str, Any], list[str]]:
    """Options by name, from Python or from the file of `--config`; and the words of the command line without it."""
    if isinstance(raw, Mapping):
        return json.loads(json.dumps(dict(raw), default=str)), []
    parser = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config", type=Path, help="a YAML file of options")
    try:
        parsed, words = parser.parse_known_args(raw)
    except ArgumentError:
        raise bad_input("--config has no value; give the path of a YAML file.") from None
    return read_options(parsed.config) if parsed.config else {}, words


def _check(method: str, parsed: Namespace) -> None:
    """Set the defaults that depend on other options, and check what can be checked before anything is loaded."""
    if parsed.use_peft and "learning_rate" not in parsed.user_set:
        parsed.learning_rate *= LORA_LEARNING_RATE
    if "loss_type" in parsed.user_set and "loss_weights" not in parsed.user_set and method == "dpo":
        parsed.loss_weights = None  # the default weights belong to the default losses
    problems = _rollout_problems(parsed) if method in BY_ROLLOUTS else []
    if not parsed.model_name_or_path:
        problems.append("no model; set --model to a folder or a name on the Hub")
    if method not in BY_ROLLOUTS and bool(parsed.dataset_name) == bool(parsed.log):
        what = "both --dataset_name and --log" if parsed.log else "no data"
        problems.append(f"{what}; give either --dataset_name FOLDER or --log LOG")
    if parsed.reference_model and method not in ("dpo", "kto", *BY_ROLLOUTS):
        problems.append(f"--reference_model has no effect on {method}; leave it out")
    if problems:
        raise bad_input(f"truthgym train {method}: {'; '.join(problems)}.")


def _rollout_problems(parsed: Namespace) -> list[str]:
    """Parse the options that are YAML, and check those that concern rollouts."""
    for name in ("task_args", "solver_args"):
        mapping = mapping_option(f"--{name}", getattr(parsed, name))
        setattr(parsed, name, json.loads(json.dumps(mapping, default=str)))
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


def _validation(parsed: Namespace) -> dict[str, Any]:
    """When to measure the validation loss, and whether to keep the weights with the lowest one."""
    strategy = parsed.eval_strategy if "eval_strategy" in parsed.user_set else "steps"
    steps = parsed.eval_steps if "eval_steps" in parsed.user_set else EVAL_STEPS
    schedule = {"eval_strategy": strategy, "eval_steps": steps}
    if not {"save_strategy", "save_steps"} & parsed.user_set and strategy != "no":
        schedule |= {"save_strategy": strategy, "save_steps": steps}  # the best weights can be kept only if saved
        if "load_best_model_at_end" not in parsed.user_set:
            schedule["load_best_model_at_end"] = True
    return schedule


def _canonical(value: Any) -> Any:  # noqa: ANN401
    """A value with whole floats as ints."""
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
