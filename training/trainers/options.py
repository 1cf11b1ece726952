"""Options of `truthgym train`: TRL's own and a few of ours, from a YAML file, the command line or a function's call."""

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from truthgym.evallog.errors import bad_input
from truthgym.training.artifacts import hash_file, hash_model
from truthgym.training.trainers.base_options import Options
from truthgym.training.trainers.defaults import BY_ROLLOUTS, CONFIGS, DEFAULTS
from truthgym.training.trainers.rollout_options import Reinforcement, settle
from truthgym.training.trainers.yaml_options import as_words, read_options

if TYPE_CHECKING:
    from trl import ModelConfig

Given = Sequence[str] | Mapping[str, Any]
"""Options as words of a command line, or by name."""

LORA_RATE = 10
"""With LoRA the learning rate is this many times that of all weights (Schulman et al. 2025, LoRA Without Regret)."""

EVALUATIONS = 0.1
"""With a validation split: evaluated and saved after each such share of the run."""

SILENT = (
    *("output_dir", "resume_from_checkpoint", "run_name", "project", "report_to", "disable_tqdm", "debug"),
    *("local_rank", "prediction_loss_only", "per_device_eval_batch_size", "model_name_or_path", "model_revision"),
    *("do_train", "do_eval", "do_predict", "push_to_hub", "skip_memory_metrics", "use_cpu", "dataset_num_proc"),
    *("activation_checkpointing", "activation_checkpointing_kwargs", "activation_offloading", "gradient_checkpointing"),
    *("gradient_checkpointing_kwargs", "torch_empty_cache_steps", "deepspeed", "auto_find_batch_size", "pad_token"),
    *("accelerator_config", "enable_jit_checkpoint", "restore_callback_states_from_checkpoint", "trust_remote_code"),
)
SILENT_STARTS = (
    *("logging_", "log_", "save_", "hub_", "trackio_", "dataloader_", "ddp_", "fsdp", "include_"),
    *("vllm_server_", "vllm_group_", "vllm_gpu_", "num_completions_to_print"),
    *("eval_accumulation", "eval_do_", "eval_use_"),
)
"""Options that leave the trained weights as they are, and so have no part in a model's name."""
LOUD = ("dataloader_drop_last", "accelerator_config")
"""Of these, those that may change the weights where they are not as usual."""


@dataclass
class Arguments:
    """All options of one run."""

    method: str
    options: Options
    training: Any
    """TRL's class of the method's options, see `CONFIGS`."""
    model: "ModelConfig"

    def settings(self, processes: int = 1) -> dict[str, Any]:
        """What decides the result: all options but paths, logging, reporting and how memory is saved.

        Args:
            processes: How many train at once: the batch grows with them.
        """
        named = {entry.name: getattr(self.training, entry.name) for entry in fields(self.training)} | asdict(self.model)
        named = {key: value.value if isinstance(value, Enum) else value for key, value in named.items()}
        named |= {"processes": processes, "early_stopping_patience": self.options.early_stopping_patience}
        named |= self.options.settings()
        kept = {key: value for key, value in named.items() if key not in SILENT and not key.startswith(SILENT_STARTS)}
        kept |= {key: value for key in LOUD if (value := named[key]) != type(value)()}
        if template := kept.get("chat_template_path"):  # what it says counts, not where it lies
            file = Path(template)
            kept["chat_template_path"] = hash_file(file) if file.is_file() else hash_model(template)
        if not self.training.load_best_model_at_end:  # then nothing that is measured changes the weights
            kept = {key: value for key, value in kept.items() if not key.startswith(("eval_", "early_", "metric_"))}
        if not self.model.use_peft:
            kept = {
                key: value for key, value in kept.items() if not key.startswith(("lora_", "use_dora", "use_rslora"))
            }
        return dict(sorted(kept.items()))


def options_of(method: str) -> type[Options]:
    """The class of a method's options besides TRL's."""
    return Reinforcement if method in BY_ROLLOUTS else Options


def parse_options(method: str, given: Given) -> Namespace:
    """Read options without building anything from them: torch's devices stay untouched.

    Returns:
        Every option by name. `given` holds the names of those that were given.

    Raises:
        BadInput: No such file, an option that there is not, or a value of the wrong kind.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL tells its makers of each trainer that is built
    import trl

    classes: Any = (options_of(method), getattr(trl, CONFIGS[method]), trl.ModelConfig)
    parser = trl.TrlParser(classes, prog=f"truthgym train {method}", allow_abbrev=False)

    def fail(message: str) -> None:
        raise bad_input(f"truthgym train {method}: {message}; `truthgym train {method} --help` lists the options")

    parser.error = fail  # argparse would print all 200 options first
    known = {action.dest for action in parser._actions}
    config, words = _config_file(given)
    for key in config:
        if key not in known or key == "help":
            raise bad_input(f"{_place(given)}: there is no option {key!r}{_nearest(key, known)}")
    several = frozenset(action.dest for action in parser._actions if action.nargs in ("+", "*"))
    hints = {name: hint for held in classes for name, hint in get_type_hints(held).items()}
    configured, unsaid = as_words(config, several, hints, _place(given))
    parser.set_defaults_with_config(**(DEFAULTS[method] | unsaid))
    parsed: Namespace
    parsed, rest = parser.parse_known_args([*configured, *words])
    if rest:
        key = rest[0].lstrip("-").partition("=")[0].replace("-", "_")
        raise bad_input(f"truthgym train {method}: there is no option {rest[0]!r}{_nearest(key, known)}")
    named = {word.lstrip("-").partition("=")[0].replace("-", "_") for word in words if word.startswith("--")}
    parsed.given = set(config) | named | {key.removeprefix("no_") for key in named}
    _settle(method, parsed)
    return parsed


def build(method: str, parsed: Namespace, validated: bool) -> Arguments:
    """Build TRL's classes from options.

    Args:
        method: See `CONFIGS`.
        parsed: See `parse_options`.
        validated: Whether there is a validation split.

    Raises:
        BadInput: Options that TRL refuses.
    """
    import torch
    import trl

    named = {key: value for key, value in vars(parsed).items() if key != "given"}
    gpu = torch.cuda.is_available() and not parsed.use_cpu
    if not {"bf16", "fp16"} & parsed.given:
        named["bf16"] = gpu and torch.cuda.is_bf16_supported()
    if not {"gradient_checkpointing", "activation_checkpointing"} & parsed.given:
        named |= {"gradient_checkpointing": None, "activation_checkpointing": gpu}  # TRL sets the old name, which warns
    if "dataloader_pin_memory" not in parsed.given:
        named["dataloader_pin_memory"] = gpu  # without one, torch warns of it before each evaluation
    named |= _validation(parsed) if validated else {"eval_strategy": "no", "load_best_model_at_end": False}
    parser = trl.TrlParser(cast(Any, (options_of(method), getattr(trl, CONFIGS[method]), trl.ModelConfig)))
    try:
        options, training, model = parser.parse_dict(named)
    except (ValueError, TypeError, ImportError) as error:
        raise bad_input(f"truthgym train {method}: these options cannot be used together: {error}") from None
    return Arguments(method, options, training, model)


def _validation(parsed: Namespace) -> dict[str, Any]:
    """When to measure the validation loss, and whether to keep the weights with the lowest."""
    when = parsed.eval_strategy if "eval_strategy" in parsed.given else "steps"
    steps = parsed.eval_steps if "eval_steps" in parsed.given else EVALUATIONS
    told = {"eval_strategy": when, "eval_steps": steps}
    if not {"save_strategy", "save_steps"} & parsed.given and when != "no":
        told |= {"save_strategy": when, "save_steps": steps}  # the best can be kept only where it is saved
        if "load_best_model_at_end" not in parsed.given:
            told["load_best_model_at_end"] = True
    return told


def _settle(method: str, parsed: Namespace) -> None:
    """Fill in the defaults that depend on other options."""
    if parsed.use_peft and "learning_rate" not in parsed.given:
        parsed.learning_rate *= LORA_RATE
    if "loss_type" in parsed.given and "loss_weights" not in parsed.given and method == "dpo":
        parsed.loss_weights = None  # ours are the weights of our two losses
    if not parsed.model_name_or_path:
        raise bad_input(f"truthgym train {method}: no model; name one with --model_name_or_path FOLDER or a hub's NAME")
    if method in BY_ROLLOUTS:
        settle(method, parsed)
    elif bool(parsed.dataset_name) == bool(parsed.log):
        what = "both a dataset and logs" if parsed.log else "no data"
        raise bad_input(f"truthgym train {method}: {what}; give either --dataset_name FOLDER or --log LOG")


def _config_file(given: Given) -> tuple[dict[str, Any], list[str]]:
    """The options of the YAML file, and the words that are left."""
    if isinstance(given, Mapping):
        return dict(given), []
    words = [part for word in given for part in (word.split("=", 1) if word.startswith("--config=") else [word])]
    if "--config" not in words:
        return {}, words
    at = words.index("--config")
    if at + 1 == len(words):
        raise bad_input("--config: no file is named; give the path of a YAML file")
    return read_options(Path(words[at + 1])), words[:at] + words[at + 2 :]


def _place(given: Given) -> str:
    return "The call" if isinstance(given, Mapping) else "The file that --config names"


def _nearest(key: str, known: set[str]) -> str:
    near = get_close_matches(key, known, 1)
    return f"; did you mean {near[0]!r}?" if near else "; `--help` lists the options"
