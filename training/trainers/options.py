"""Options of `truthgym train`: TRL's and Truthgym's, from the command line, a YAML file or a Python call."""

import json
import os
from argparse import SUPPRESS, ArgumentError, ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from truthgym.datasets.digests import file_digest
from truthgym.evallog.errors import bad_input
from truthgym.training.files import hash_model
from truthgym.training.trainers.base_options import Options
from truthgym.training.trainers.default_options import BY_ROLLOUTS, CONFIGS, DEFAULTS
from truthgym.training.trainers.rollout_options import RolloutOptions, rollout_problems

if TYPE_CHECKING:
    from trl import ModelConfig

RawOptions = Sequence[str] | Mapping[str, Any]
"""Options as words of a command line, or by name."""

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


@dataclass
class Arguments:
    """All options of one run."""

    method: str
    options: Options
    training: Any
    """TRL's class of the method's options, see `CONFIGS`."""
    model: "ModelConfig"

    def settings(self, processes: int = 1) -> dict[str, Any]:
        """The options that determine the result: all but paths, logging, reporting and ways to save memory.

        A whole number is an int: `1` and `1.0` name one model.
        """
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
        return {key: _canonical(hashed[key]) for key in sorted(hashed)}


def option_classes(method: str) -> tuple[type, ...]:
    """The dataclasses whose fields are a method's options: Truthgym's, TRL's of the method and TRL's of the model."""
    import trl

    own = RolloutOptions if method in BY_ROLLOUTS else Options
    return (own, getattr(trl, CONFIGS[method]), trl.ModelConfig)


def parse_options(method: str, raw: RawOptions) -> Namespace:
    """Parse and check options. Nothing is built from them, so that torch's devices stay untouched.

    An option on the command line overrides the same one in the file of `--config`, which overrides the default.
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
        named |= {"gradient_checkpointing": None, "activation_checkpointing": gpu}  # the old name would cause a warning
    if "dataloader_pin_memory" not in parsed.user_set:
        named["dataloader_pin_memory"] = gpu  # without a GPU, torch would warn before each evaluation
    named |= _validation(parsed) if validated else {"eval_strategy": "no", "load_best_model_at_end": False}
    try:
        options, training, model = trl.TrlParser(cast(Any, option_classes(method))).parse_dict(named)
    except (ValueError, TypeError, ImportError) as error:
        raise bad_input(f"truthgym train {method}: these options cannot be used together: {error}") from None
    return Arguments(method, options, training, model)


def read_options(path: Path) -> dict[str, Any]:
    """Read a YAML file of options. As in TRL's scripts, its `env` entries become environment variables."""
    import yaml

    if not path.is_file():
        raise bad_input(f"--config {path}: no such file; give the path of a YAML file.")
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_input(f"--config {path}: not YAML: {error}; write one `option: value` per line.") from None
    if not isinstance(config, dict) or not isinstance(config.get("env") or {}, dict):
        raise bad_input(f"--config {path}: not a mapping; write one `option: value` per line, also below `env:`.")
    for key, value in (config.pop("env", None) or {}).items():
        os.environ[str(key)] = str(value)
    return {str(key): value for key, value in config.items()}


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
    problems = rollout_problems(parsed) if method in BY_ROLLOUTS else []
    if not parsed.model_name_or_path:
        problems.append("no model; set --model_name_or_path to a folder or a name on the Hub")
    if method not in BY_ROLLOUTS and bool(parsed.dataset_name) == bool(parsed.log):
        what = "both --dataset_name and --log" if parsed.log else "no data"
        problems.append(f"{what}; give either --dataset_name FOLDER or --log LOG")
    if parsed.reference_model and method not in ("dpo", "kto", *BY_ROLLOUTS):
        problems.append(f"--reference_model has no effect on {method}; leave it out")
    if problems:
        raise bad_input(f"truthgym train {method}: {'; '.join(problems)}.")


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
        return [_canonical(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
