"""Options of `truthgym loop`, from a YAML file, the command line or a call, checked before anything costs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from truthgym.evallog.errors import bad_input
from truthgym.training.conversion.config import Kind, Settings
from truthgym.training.conversion.selection import Selection
from truthgym.training.rollouts.questions import nearest
from truthgym.training.trainers.defaults import BY_ROLLOUTS

Method = Literal["sft", "dpo", "kto", "grpo", "rloo", "few_shot"]
KINDS: dict[Method, Kind] = {
    "sft": "sft",
    "dpo": "preference",
    "kto": "unpaired",
    "grpo": "prompts",
    "rloo": "prompts",
    "few_shot": "few_shot",
}
"""What each method learns from, see `settings.Kind`."""
Provider = Literal["hf", "vllm", "openai", "together"]
VENDORS = {"openai": ("sft", "dpo"), "together": ("sft", "dpo")}
"""Who trains themselves, and by which methods of the loop."""
SETTINGS_FILE = "loop.json"
PASSING = ("out", "rounds", "max_connections", "display", "yes")
"""Options that may differ where a loop goes on: they change nothing that is there already."""


def _read(value: object) -> object:
    """A mapping, or the YAML or JSON text of one."""
    import yaml

    if not isinstance(value, str):
        return {} if value is None else value
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ValueError(f"it is neither YAML nor JSON ({error}); write {{name: value}}") from None
    if not isinstance(read, dict):
        raise ValueError("it holds no options; write {name: value}, with a space after each colon")
    return read


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


Options = Annotated[dict[str, Any], BeforeValidator(_read)]


class Loop(BaseModel):
    """What `truthgym loop` takes. Its fields' descriptions are the command's help."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model_name_or_path: str = Field(
        description="The model to start from: a folder, a name on the hub, or with --provider a vendor's name."
    )
    task: Annotated[list[str], BeforeValidator(_several)] = Field(
        description="What is asked: truthgym/urns, FILE.py, FILE.py@NAME. Can be given again.", min_length=1
    )
    out: str = Field(description="Folder of the loop: logs, datasets, models and the report.")
    task_args: Options = Field(default={}, description="Arguments of the tasks, as in '{n: 2000}'.")
    train_args: Options = Field(default={}, description="More of them where the questions are trained on.")
    held_out_args: Options = Field(default={}, description="More of them in the held-out evaluation.")
    solver: str | None = Field(default=None, description="How the model reasons, as in Inspect.")
    solver_args: Options = Field(default={}, description="Arguments of the solver.")
    method: Method = Field(default="grpo", description="How it learns.")
    provider: Provider | None = Field(
        default=None, description="Who answers; openai and together train as well. [default: hf]"
    )
    rounds: int = Field(default=1, ge=1, description="How often it is asked, trained and asked again.")
    epochs: int | None = Field(
        default=None, ge=1, description="Answers to each question to train on [default: 4; 1 for grpo and rloo]."
    )
    limit: int | None = Field(default=None, ge=1, description="Questions to train on at most.")
    held_out_epochs: int = Field(default=4, ge=1, description="Answers to each held-out question.")
    held_out_limit: int | None = Field(default=None, ge=1, description="Held-out questions at most.")
    fresh: bool = Field(default=False, description="New training questions each round, by another seed of the task.")
    convert: Options = Field(default={}, description="How answers become a dataset: options of truthgym convert.")
    train: Options = Field(default={}, description="Options of truthgym train; also everything after --.")
    model_args: Options = Field(default={}, description="Arguments of Inspect's provider, as in '{device: cpu}'.")
    model_role: Options = Field(default={}, description="Models for roles, as in '{judge: openai/gpt-5.4}'.")
    generate: Options = Field(default={}, description="More options of generation, as in '{temperature: 0.7}'.")
    max_tokens: int | None = Field(default=None, ge=1, description="Of one reply.")
    max_connections: int | None = Field(default=None, ge=1, description="Calls at a time; with hf, of one batch.")
    seed: int = Field(default=0, ge=0, description="Of sampling and of training.")
    any_task: bool = Field(default=False, description="Tasks without a split too: a hash of each id makes one.")
    yes: bool = Field(default=False, description="Spend at a vendor without asking.")
    display: Literal["none", "plain", "log", "rich", "conversation", "full"] = Field(
        default="none", description="Inspect's display: none, plain, rich, full."
    )

    @property
    def answers(self) -> int:
        """Answers to each question to train on. Reinforcement makes its own: one tells how the model does."""
        return self.epochs or (1 if self.method in BY_ROLLOUTS else 4)

    @property
    def vendor(self) -> bool:
        """Whether a vendor trains."""
        return self.provider in VENDORS

    @property
    def selection(self) -> Selection | None:
        """Which answers to learn from. None is the method's own default."""
        chosen = {name: value for name, value in self.convert.items() if name in SELECTS}
        if not chosen and self.method == "sft" and not self.any_task:
            return Selection(aligned=True)  # docs/training_urns.md: what the top share does, and what this does
        return Selection(**chosen) if chosen else None

    @property
    def conversion(self) -> Settings:
        """How they become rows."""
        given = {name: value for name, value in self.convert.items() if name not in SELECTS}
        if self.provider == "openai" and self.method != "few_shot":
            given = {"to": "openai", "method": {"dpo": "preference"}.get(self.method, "supervised")} | given
        return Settings(**({"to": KINDS[self.method], "any_task": self.any_task} | given))

    def settled(self) -> dict[str, Any]:
        """What decides the result, for the loop's folder."""
        told: dict[str, Any] = json.loads(self.model_dump_json(exclude=set(PASSING)))
        return told


SELECTS = tuple(entry.name for entry in fields(Selection))
SPELLED = {"all": "everything", "split": "splits"}
"""What `truthgym convert` calls two of them."""


def read_loop(given: Mapping[str, Any]) -> Loop:
    """Check all options that can be checked alone.

    Raises:
        BadInput: One that there is not, or a value that cannot be used.
    """
    spelled = {str(name).replace("-", "_"): value for name, value in given.items()}
    for name in spelled:
        if name not in Loop.model_fields:
            raise bad_input(f"truthgym loop: there is no option {name!r}{nearest(name, Loop.model_fields)}")
    try:
        asked = Loop(**spelled)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        if first["type"] == "missing":
            raise bad_input(f"truthgym loop: no {name}; {Loop.model_fields[name].description}") from None
        told = first["msg"].removeprefix("Value error, ")
        raise bad_input(f"truthgym loop: {name}={first['input']!r} cannot be used: {told}") from None
    return _converted(_checked(asked))


def _checked(asked: Loop) -> Loop:
    from inspect_ai.model import GenerateConfig

    if twice := {name for name in asked.task if asked.task.count(name) > 1}:
        raise bad_input(f"--task: {', '.join(sorted(twice))} is named twice; give each task once")
    if asked.vendor and asked.method not in VENDORS[str(asked.provider)] and asked.method != "few_shot":
        can = ", ".join(VENDORS[str(asked.provider)])
        raise bad_input(f"--method {asked.method}: {asked.provider} trains by {can}; few_shot needs nobody's training")
    for name in asked.generate:
        if name not in GenerateConfig.model_fields:
            raise bad_input(f"--generate: there is no option {name!r}{nearest(name, GenerateConfig.model_fields)}")
    try:
        GenerateConfig(**asked.generate)
    except ValidationError as error:
        first = error.errors()[0]
        raise bad_input(f"--generate: {first['loc'][0]}={first['input']!r} cannot be used: {first['msg']}") from None
    for name in ("task_args", "train_args", "held_out_args"):
        for held in (getattr(asked, name), *getattr(asked, name).values()):
            if isinstance(held, Mapping) and "split" in held:
                raise bad_input(
                    f"--{name}: split is the loop's: train to learn from, test to be held out; leave it out"
                )
    if asked.method == "dpo" and asked.answers < 2 and asked.convert.get("pair_by", "epoch") == "epoch":
        raise bad_input("--epochs 1: dpo compares answers to one question, of which there must be 2 or more")
    if asked.method == "few_shot" and asked.any_task:
        raise bad_input("--any_task: few_shot shows examples before Truthgym's own questions alone; leave it out")
    if asked.method in BY_ROLLOUTS and asked.convert:
        raise bad_input(f"--convert: {asked.method} learns from all questions, whatever was answered; leave it out")
    return asked


def _converted(asked: Loop) -> Loop:
    """With the options of the conversion under the names that they have here, each known."""
    from truthgym.training.convert import fitting

    known = {*SELECTS, *Settings.__dataclass_fields__}
    told: dict[str, Any] = {}
    for name, value in asked.convert.items():
        name = SPELLED.get(str(name).replace("-", "_"), str(name).replace("-", "_"))
        if name not in known:
            raise bad_input(f"--convert: there is no option {name!r}{nearest(name, known)}")
        told[name] = tuple(str(value).split(",")) if name == "splits" and isinstance(value, str) else value
    asked = asked.model_copy(update={"convert": told})
    try:
        _ = asked.selection, asked.conversion
    except TypeError as error:
        raise bad_input(f"--convert {told}: these cannot be used: {error}") from None
    fitting(asked.conversion, asked.selection or Selection())
    if asked.conversion.rows != KINDS[asked.method]:
        raise bad_input(f"--convert: {asked.method} does not learn from to={asked.conversion.to}; leave `to` out")
    return asked


def by_name(words: Sequence[str]) -> dict[str, Any]:
    """Options of training by name, from words of a command line.

    Raises:
        BadInput: A word that belongs to no option.
    """
    told: dict[str, Any] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, given, value = word[2:].replace("-", "_").partition("=")[0], "=" in word, word.partition("=")[2]
            told[name] = value if given else True
        elif not name:
            raise bad_input(f"truthgym loop: {word!r} after -- belongs to no option; write --learning_rate 5e-4")
        else:
            held = told[name]
            told[name] = word if held is True else [*(held if isinstance(held, list) else [held]), word]
    return told


def settle(asked: Loop) -> Path:
    """Take a folder for a loop, or go on with the one that is there.

    Raises:
        BadInput: Something else is there, or a loop with other settings.
    """
    out, held = Path(asked.out), asked.settled()
    file = out / SETTINGS_FILE
    there = [path for path in out.iterdir() if path.name[0] != "."] if out.is_dir() else [out] if out.exists() else []
    if there and file not in there:
        raise bad_input(f"--out {out}: something else is there; give a new folder, or that of a loop to go on with")
    if there in ([], [file]):  # a loop that has asked nobody yet may take other settings
        out.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f".{file.name}.partial")
        beside.write_text(json.dumps(held, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        beside.replace(file)
        return out
    before = json.loads(file.read_text(encoding="utf-8"))
    names = sorted(name for name in before.keys() | held.keys() if before.get(name) != held.get(name))
    if names:
        told = "; ".join(f"{name} was {_json(before.get(name))} and is {_json(held.get(name))}" for name in names)
        raise bad_input(f"--out {out}: it holds a loop with other settings: {told}. Give another folder, or these")
    return out


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


METHODS = get_args(Method)
