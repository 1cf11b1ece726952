"""Settings: how the trajectories of logs become rows of a dataset."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from truthgym.evallog.errors import bad_input
from truthgym.training.conversion.messages import Reasoning
from truthgym.training.conversion.pairs import PairBy, Pairs
from truthgym.training.conversion.rows import Form
from truthgym.training.conversion.selection import Validation
from truthgym.training.conversion.writer import FileFormat

Kind = Literal["sft", "preference", "prompts", "unpaired", "steps", "few_shot", "openai"]
Method = Literal["supervised", "preference", "reinforcement"]
"""What OpenAI calls its fine-tuning methods."""
UNSCORED = ("prompts", "steps")
"""Kinds for which no score selects unless one is asked for."""
FEW = 100
"""The most examples for few_shot where no number is given: TruthSeekingGym's."""

ONLY: dict[str, tuple[str, ...]] = {
    "form": ("sft",),
    "reasoning": ("sft", "preference", "unpaired"),
    "pair_by": ("preference",),
    "pairs": ("preference",),
    "margin": ("preference",),
}
"""Settings that have a part in some kinds of rows alone."""


@dataclass(frozen=True)
class Settings:
    """How trajectories become rows. What to choose is the `Selection`'s."""

    to: Kind
    form: Form = "prompt-completion"
    reasoning: Reasoning = "drop"
    validation: Validation = "none"
    pair_by: PairBy = "epoch"
    pairs: Pairs = "widest"
    margin: float = 0.0
    method: Method = "supervised"
    """Of `openai`."""
    grader: str | None = None
    """Of `openai` with reinforcement: a grader's name, or a file with OpenAI's JSON."""
    file_format: FileFormat = "jsonl"
    any_task: bool = False

    def __post_init__(self) -> None:
        known = {"to": Kind, "form": Form, "reasoning": Reasoning, "validation": Validation, "pair_by": PairBy,
                 "pairs": Pairs, "method": Method, "file_format": FileFormat}  # fmt: skip
        for name, values in known.items():
            if getattr(self, name) not in get_args(values):
                raise bad_input(f"{name}={getattr(self, name)!r}: known are {', '.join(get_args(values))}")
        if self.margin < 0:
            raise bad_input(f"margin={self.margin}: give 0 or more")
        if self.to == "few_shot" and self.validation != "none":
            raise bad_input("few_shot examples are shown, not trained on: there is nothing to validate; leave it out")
        if self.file_format != "jsonl" and self.to in ("few_shot", "openai"):
            raise bad_input(f"--to {self.to} is read as .jsonl only; leave out --file-format {self.file_format}")

        usual = {name: entry.default for name, entry in type(self).__dataclass_fields__.items()}
        for name, kinds in ONLY.items():
            if getattr(self, name) != usual[name] and self.rows not in kinds:
                raise bad_input(f"{name}={getattr(self, name)!r} has no part in --to {self.to}; leave it out")
        if self.to != "openai" and (self.method != "supervised" or self.grader):
            raise bad_input("--method and --grader are those of --to openai; leave them out")
        if self.grader and self.method != "reinforcement":
            raise bad_input(f"--grader {self.grader}: it grades where --method is reinforcement; leave it out")

    @property
    def rows(self) -> str:
        """The kind of rows, for which `openai` is another spelling."""
        spelled = {"supervised": "sft", "preference": "preference", "reinforcement": "prompts"}
        return spelled[self.method] if self.to == "openai" else self.to

    def said(self) -> dict[str, Any]:
        """What was asked for, for the card: all that is not as usual."""
        usual = Settings(self.to)
        return {name: value for name, value in vars(self).items() if value != getattr(usual, name)}
