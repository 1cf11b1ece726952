"""Options of `truthgym train grpo` and `rloo` besides TRL's: what is asked, by which solver, for which reward."""

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import bad_input
from truthgym.training.artifacts import hash_file
from truthgym.training.trainers.base_options import Options

UNUSED = ("log", "dataset_config", "dataset_train_split", "dataset_validation_split", "early_stopping_patience")
"""Options of the other trainers that have no part here."""
UNHEARD: dict[str, Any] = {
    "min_p": None,
    "repetition_penalty": 1.0,
    "generation_kwargs": None,
    "cache_implementation": None,
    "use_transformers_continuous_batching": False,
    "use_transformers_paged": False,
    "vllm_structured_outputs_regex": None,
}
"""TRL's options of its own sampling, which does not take place: Inspect asks the model."""


@dataclass
class Reinforcement(Options):
    """What reinforcement takes besides TRL's options."""

    dataset_name: str | None = field(
        default=None,
        metadata={"help": "A folder of `truthgym convert --to prompts`: only the questions that it names."},
    )
    task: list[str] = field(
        default_factory=list, metadata={"help": "Tasks to train on, as `inspect eval` names them.", "action": "extend"}
    )
    task_args: dict[str, Any] | str | None = field(
        default=None, metadata={"help": "Their arguments, in YAML or JSON: '{n: 2000}'."}
    )
    solver: str | None = field(default=None, metadata={"help": "The solver in place of the task's own."})
    solver_args: dict[str, Any] | str | None = field(default=None, metadata={"help": "Its arguments."})
    model_role: list[str] = field(
        default_factory=list,
        metadata={"help": "Models of other roles: judge=openai/gpt-5.4-mini.", "action": "extend"},
    )
    reward: list[str] = field(
        default_factory=list,
        metadata={"help": "Rewards by name, weighed by --reward_weights [default: the task's own score]."},
    )
    allow_group_scaling: bool = field(
        default=False, metadata={"help": "Scale a proper reward by each group's own spread, which makes it improper."}
    )
    max_samples: int | None = field(default=None, metadata={"help": "At most so many questions to train on."})
    chat_template_path: str | None = field(
        default=None, metadata={"help": "A chat template in place of the model's own. It is saved with the model."}
    )
    validation_steps: float = field(
        default=0.2, metadata={"help": "Evaluate after so many steps; below 1, a share of all. 0 never does."}
    )
    validation_samples: int = field(default=128, metadata={"help": "Questions of each such evaluation, at most."})
    min_share_read: float = field(
        default=0.0, metadata={"help": "Stop where fewer of a step's answers than this share can be read."}
    )
    heartbeat: float = field(default=30.0, metadata={"help": "Seconds between two lines that say how it goes."})

    def settings(self) -> dict[str, Any]:
        """Those that decide the result."""
        names = ("task", "task_args", "solver", "solver_args", "model_role", "reward", "max_samples")
        told = {name: value for name in names if (value := getattr(self, name))}
        files = _files(self)
        told |= {"files": files} if files else {}
        return told | ({"chat_template_path": self.chat_template_path} if self.chat_template_path else {})


def settle(method: str, parsed: Namespace) -> None:
    """Read what is YAML, and refuse what has no part in reinforcement.

    Raises:
        BadInput: No task, arguments that are no mapping, a role without a model, or an option with no effect here.
    """
    if not parsed.task:
        raise bad_input(f"truthgym train {method}: no task; name one with --task truthgym/urns")
    parsed.task_args = _mapping("task_args", parsed.task_args)
    parsed.solver_args = _mapping("solver_args", parsed.solver_args)
    for option in parsed.model_role:
        if not all(str(option).partition("=")):
            raise bad_input(f"--model_role {option}: write ROLE=MODEL, such as judge=openai/gpt-5.4-mini")
    for option in sorted(parsed.given & {*UNUSED, "eval_strategy", "eval_steps"}):
        told = "; evaluations are set with --validation_steps" if option.startswith("eval") else ""
        raise bad_input(f"truthgym train {method}: --{option} has no part in reinforcement{told}; leave it out")
    for option, usual in UNHEARD.items():
        if getattr(parsed, option, usual) != usual:
            raise bad_input(
                f"truthgym train {method}: --{option} has no effect, since Inspect asks the model and not TRL; sample "
                "with --temperature, --top_p and --top_k"
            )
    if parsed.use_vllm and parsed.vllm_mode != "server":
        if "vllm_mode" in parsed.given:
            raise bad_input(f"--vllm_mode {parsed.vllm_mode}: rollouts need a server of its own; leave the option out")
        parsed.vllm_mode = "server"
    for option, least, most in (("validation_steps", 0, None), ("min_share_read", 0, 1), ("heartbeat", 0.01, None)):
        value = getattr(parsed, option)
        if not (least <= value and (most is None or value <= most)):
            raise bad_input(f"--{option} {value}: give a number from {least}{f' to {most}' if most else ' up'}")
    for option in ("max_samples", "validation_samples"):
        value = getattr(parsed, option)
        if value is not None and value < 1:
            raise bad_input(f"--{option} {value}: give 1 or more")


def _files(options: Reinforcement) -> dict[str, str]:
    """SHA-256 of the user's files in which tasks, the solver and rewards stand: what they say decides the result."""
    from truthgym.training.reward_functions.user_function import hash_of_source

    named = [Path(name.partition("@")[0]) for name in (*options.task, options.solver or "")]
    told = {str(file): hash_file(file) for file in named if file.suffix == ".py" and file.is_file()}
    return told | {name: digest for name in options.reward if "." in name and (digest := hash_of_source(name))}


def roles(named: Sequence[str]) -> dict[str, str]:
    """Models of other roles, by role, from ROLE=MODEL."""
    return {role: model for role, _, model in (str(option).partition("=") for option in named)}


def _mapping(name: str, given: object) -> dict[str, Any]:
    import yaml

    if given is None:
        return {}
    try:
        read = yaml.safe_load(given) if isinstance(given, str) else given
    except yaml.YAMLError as error:
        raise bad_input(f"--{name} {given}: not YAML ({error}); write {{name: value}}") from None
    if not isinstance(read, Mapping):
        raise bad_input(f"--{name} {given!r}: write {{name: value}}")
    return {str(key): value for key, value in json.loads(json.dumps(dict(read), default=str)).items()}
