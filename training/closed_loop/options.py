"""Options of `truthgym loop`: one model for the command line, the YAML file and the call from Python."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from truthgym.datasets.errors import one_of
from truthgym.datasets.redaction import redacted
from truthgym.evallog.errors import bad_input
from truthgym.training.conversion.options import KIND_OF_METHOD, ConversionConfig, Selection
from truthgym.training.files import write_atomically
from truthgym.training.providers.provider import OPTIONS
from truthgym.training.trainers.options import BY_ROLLOUTS, parse_mapping

Method = Literal["sft", "dpo", "kto", "grpo", "rloo", "few_shot"]
METHODS = get_args(Method)
CONFIG_FILE = "loop.json"
BUFFER = re.compile(r"current|full|rolling\((\d+)\)")
WITH_REFERENCE = ("dpo", "kto")
"""Methods that compare the model in training with a reference model on a dataset."""
UNHASHED_OPTIONS = {"out", "rounds", "max_connections", "display", "yes"}
"""Options that may change when a loop is resumed: they do not change what is there already."""
SELECTION_OPTIONS = tuple(entry.name for entry in fields(Selection))
ALIASES = {"all": "everything", "split": "splits"}
"""Options of `truthgym convert` that `Selection` calls otherwise."""


def _convert_options(value: object) -> dict[str, Any]:
    """Options of `truthgym convert` under the names of `Selection` and `ConversionConfig`."""
    options = {str(name).replace("-", "_"): entry for name, entry in parse_mapping(value).items()}
    options = {ALIASES.get(name, name): entry for name, entry in options.items()}
    names = {*SELECTION_OPTIONS, *(entry.name for entry in fields(ConversionConfig))}
    for name in options:
        one_of("option of --convert", name, sorted(names))
    if isinstance(options.get("splits"), str):
        options["splits"] = options["splits"].split(",")
    return options


YamlDict = Annotated[dict[str, Any], BeforeValidator(parse_mapping)]
ConvertOptions = Annotated[dict[str, Any], BeforeValidator(_convert_options)]
Tasks = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class LoopConfig(BaseModel):
    """The options of `truthgym loop`. The descriptions of the fields are the command's help."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model_name_or_path: str = Field(
        description="Model to start from: a folder, a name on the Hub, or with --provider the provider's name."
    )
    task: Tasks = Field(description="Task: truthgym/urns, FILE.py, FILE.py@NAME. Repeatable.", min_length=1)
    out: str = Field(description="Folder of the loop: logs, datasets, models and the report.")
    task_args: YamlDict = Field(default={}, description="Arguments of the tasks, such as '{n: 2000}'.")
    train_args: YamlDict = Field(default={}, description="Additional task arguments for training questions.")
    held_out_args: YamlDict = Field(default={}, description="Additional task arguments for held-out questions.")
    solver: str | None = Field(default=None, description="Solver, as in Inspect.")
    solver_args: YamlDict = Field(default={}, description="Arguments of the solver.")
    method: Method = Field(default="grpo", description="Training method.")
    provider: Literal["hf", "vllm", "openai", "together"] | None = Field(
        default=None, description="Provider of the model; openai and together train it as well. [default: hf]"
    )
    rounds: int = Field(default=1, ge=1, description="Number of rounds.")
    buffer: str = Field(
        default="current", description="Rounds whose answers a round trains on: current, rolling(K) or full."
    )
    reference: Literal["start", "round"] = Field(
        default="start", description="Reference of dpo and kto: the model that the loop, or that the round starts from."
    )
    epochs: int | None = Field(
        default=None, ge=1, description="Answers to each training question [default: 4; 1 for grpo and rloo]."
    )
    limit: int | None = Field(default=None, ge=1, description="Maximum number of training questions.")
    held_out_epochs: int = Field(default=4, ge=1, description="Answers to each held-out question.")
    held_out_limit: int | None = Field(default=None, ge=1, description="Maximum number of held-out questions.")
    fresh: bool = Field(default=False, description="New training questions each round, by another seed of the task.")
    convert: ConvertOptions = Field(default={}, description="Options of truthgym convert.")
    train: YamlDict = Field(default={}, description="Options of truthgym train; also everything after --.")
    model_args: YamlDict = Field(default={}, description="Arguments of Inspect's provider, such as '{device: cpu}'.")
    model_role: YamlDict = Field(default={}, description="Models for roles, such as '{judge: openai/gpt-5.4}'.")
    generate: YamlDict = Field(default={}, description="Other generation options, such as '{temperature: 0.7}'.")
    max_tokens: int | None = Field(default=None, ge=1, description="Maximum tokens of one reply.")
    max_connections: int | None = Field(default=None, ge=1, description="Concurrent calls; with hf, the batch size.")
    seed: int = Field(default=0, ge=0, description="Seed of sampling and of training.")
    any_task: bool = Field(default=False, description="Allow tasks without splits: a hash of each id makes the split.")
    yes: bool = Field(default=False, description="Submit paid fine-tuning jobs without asking.")
    display: Literal["none", "plain", "log", "rich", "conversation", "full"] = Field(
        default="none", description="Inspect's display: none, plain, rich, full."
    )

    @property
    def train_epochs(self) -> int:
        """Answers to each training question. Reinforcement samples its own, so there one is enough to measure."""
        return self.epochs or (1 if self.method in BY_ROLLOUTS else 4)

    def buffered_rounds(self, round_: int) -> range:
        """The rounds whose answers a round trains on."""
        match = BUFFER.fullmatch(self.buffer)
        size = round_ if self.buffer == "full" else int(match[1]) if match and match[1] else 1
        return range(max(1, round_ - size + 1), round_ + 1)

    @property
    def trains_at_provider(self) -> bool:
        """Whether openai or together trains the model."""
        return self.provider in OPTIONS and self.method != "few_shot"

    @property
    def selection(self) -> Selection | None:
        """Which answers to learn from. None is the method's default."""
        options = {name: value for name, value in self.convert.items() if name in SELECTION_OPTIONS}
        if not options and self.method == "sft" and not self.any_task:
            return Selection(aligned=True)  # docs/training_urns.md compares it with the top share
        if "splits" in options:
            options["splits"] = tuple(options["splits"])
        return Selection(**options) if options else None

    @property
    def conversion(self) -> ConversionConfig:
        """How answers become rows."""
        options = {name: value for name, value in self.convert.items() if name not in SELECTION_OPTIONS}
        if self.provider == "openai" and self.method != "few_shot":
            options = {"to": "openai", "method": {"dpo": "preference"}.get(self.method, "supervised")} | options
        return ConversionConfig(**({"to": KIND_OF_METHOD[self.method], "any_task": self.any_task} | options))

    def hashed(self) -> dict[str, Any]:
        """The options that decide the result, as JSON values without keys, for `loop.json`."""
        options: dict[str, Any] = redacted(json.loads(self.model_dump_json(exclude=UNHASHED_OPTIONS)))
        return options


def parse_config(options: Mapping[str, Any]) -> LoopConfig:
    """Check all options that can be checked without a task or a model."""
    options = {str(name).replace("-", "_"): value for name, value in options.items()}
    from inspect_ai.model import GenerateConfig

    from truthgym.training.convert import resolve_selection

    for name in options:
        one_of("option of truthgym loop", name, list(LoopConfig.model_fields))
    try:
        config = LoopConfig(**options)
        for name in config.generate:
            one_of("option of --generate", name, list(GenerateConfig.model_fields))
        GenerateConfig(**config.generate)
        selection, conversion = config.selection, config.conversion
    except ValidationError as error:
        raise bad_input(f"truthgym loop: {'; '.join(map(_describe, error.errors()))}") from None
    except TypeError as error:
        raise bad_input(f"truthgym loop: {error}") from None
    if contradictions := list(_contradictions(config)):
        raise bad_input(f"truthgym loop: {'; '.join(contradictions)}")
    resolve_selection(conversion, selection or Selection())
    return config


def _describe(error: ErrorDetails) -> str:
    """An option that pydantic rejects."""
    name = str(error["loc"][0])
    if error["type"] == "missing":
        return f"--{name} is missing ({LoopConfig.model_fields[name].description})"
    return f"{name}={error['input']!r} cannot be used: {error['msg'].removeprefix('Value error, ')}"


def _contradictions(config: LoopConfig) -> Iterator[str]:
    """Options that contradict each other, and what to do."""
    method = config.method
    if config.trains_at_provider:
        offered = [name for name in OPTIONS[str(config.provider)] if name in METHODS]
        if method not in offered:
            yield f"--method {method}: {config.provider} trains by {', '.join(offered)} only; use one, or few_shot"
    if repeated := {name for name in config.task if config.task.count(name) > 1}:
        yield f"--task: {', '.join(sorted(repeated))} is named twice; give each task once"
    for name in ("task_args", "train_args", "held_out_args"):
        args = getattr(config, name)
        if any("split" in some for some in (args, *args.values()) if isinstance(some, Mapping)):
            yield f"--{name}: the loop sets split itself (train to learn from, test held out); leave it out"
    match = BUFFER.fullmatch(config.buffer)
    if not match:
        yield f"--buffer {config.buffer}: write current, rolling(K) or full"
    elif match[1] and not int(match[1]):
        yield f"--buffer {config.buffer}: the buffer is empty, so there is nothing to train on; give rolling(1) or more"
    elif config.buffer != "current" and KIND_OF_METHOD[method] in ("prompts", "few_shot"):
        yield f"--buffer {config.buffer}: {method} is not trained on a dataset of answers; leave it out"
    if method == "dpo" and config.train_epochs < 2 and config.convert.get("pair_by", "epoch") == "epoch":
        yield "--epochs 1: dpo compares answers to one question; give 2 or more"
    if method in BY_ROLLOUTS and config.convert:
        yield f"--convert: {method} learns from all questions, not from answers; leave it out"
    if config.conversion.row_kind != KIND_OF_METHOD[method]:
        yield f"--convert: {method} does not learn from to={config.conversion.to}; leave `to` out"


def parse_training_options(words: Sequence[str]) -> dict[str, Any]:
    """Parse words of a command line, such as `--learning_rate 5e-4 --use_peft`, into options by name."""
    options: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = name.replace("-", "_")
            options[name] = [value] if equals else []
        elif not name:
            raise bad_input(f"truthgym loop: {word!r} after -- has no option; write --learning_rate 5e-4")
        else:
            options[name].append(word)
    return {name: values if len(values) > 1 else values[0] if values else True for name, values in options.items()}


def open_folder(config: LoopConfig) -> Path:
    """Create the loop's folder with its `loop.json`, or resume the loop that is there."""
    out, options = Path(config.out), config.hashed()
    file = out / CONFIG_FILE
    present = [path for path in out.iterdir() if path.name[0] != "."] if out.is_dir() else [out] if out.exists() else []
    if present and file not in present:
        raise bad_input(f"--out {out}: not the folder of a loop; give a new folder, or that of a loop to resume")
    if present in ([], [file]):  # no model has answered yet, so the options may still change
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(options, indent=2, ensure_ascii=False) + "\n")
        return out
    added = LoopConfig.model_fields.keys() & {"buffer", "reference"}  # a loop of before had them as they are by default
    before = {name: LoopConfig.model_fields[name].default for name in added}
    before |= json.loads(file.read_text(encoding="utf-8"))
    changed = sorted(name for name in before.keys() | options.keys() if before.get(name) != options.get(name))
    if changed:
        changes = "; ".join(
            f"{name} was {json.dumps(before.get(name))} and is {json.dumps(options.get(name))}" for name in changed
        )
        raise bad_input(
            f"--out {out}: holds a loop with other options: {changes}. Give another folder, or these options"
        )
    return out
