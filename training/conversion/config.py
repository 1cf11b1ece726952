"""How the trajectories of logs become rows of a dataset."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from truthgym.training.conversion.messages import Reasoning
from truthgym.training.conversion.rows import Form
from truthgym.training.conversion.selection import PairBy, Pairs, Validation, check_fields
from truthgym.training.conversion.writer import FileFormat

Kind = Literal["sft", "preference", "prompts", "unpaired", "steps", "few_shot", "openai"]
OpenAIMethod = Literal["supervised", "preference", "reinforcement"]
"""OpenAI's names of its fine-tuning methods."""

OPTIONS_BY_KIND: dict[str, tuple[str, ...]] = {
    "form": ("sft",),
    "reasoning": ("sft", "preference", "unpaired"),
    "pair_by": ("preference",),
    "pairs": ("preference",),
    "margin": ("preference",),
}
"""Options that only some kinds of rows have."""


@dataclass(frozen=True)
class ConversionConfig:
    """How trajectories become rows. Which trajectories to convert is the `Selection`'s.

    Raises:
        BadInput: A value or a combination that is not allowed.
    """

    to: Kind
    form: Form = "prompt-completion"
    reasoning: Reasoning = "drop"
    validation: Validation = "none"
    pair_by: PairBy = "epoch"
    pairs: Pairs = "widest"
    margin: Annotated[float, Meta(ge=0)] = 0.0
    method: OpenAIMethod = "supervised"
    """For `openai`."""
    grader: str | None = None
    """For `openai` with reinforcement: a grader's name, or a file with OpenAI's JSON."""
    file_format: FileFormat = "jsonl"
    any_task: bool = False

    def __post_init__(self) -> None:
        problems = []
        if self.to == "few_shot" and self.validation != "none":
            problems.append(f"--validation {self.validation}: few-shot examples are not trained on")
        if self.file_format != "jsonl" and self.to in ("few_shot", "openai"):
            problems.append(f"--file-format {self.file_format}: {self.to} is read as .jsonl only")
        if self.to != "openai" and (self.method != "supervised" or self.grader):
            problems.append("--method and --grader are options of --to openai")
        elif self.grader and self.method != "reinforcement":
            problems.append(f"--grader {self.grader} needs --method reinforcement, got {self.method}")
        for name, value in self.non_default().items():
            if self.row_kind not in OPTIONS_BY_KIND.get(name, (self.row_kind,)):
                problems.append(f"{name}={value!r} has no effect")
        check_fields(self, [f"--to {self.to}: {problem}; omit it" for problem in problems])

    @property
    def row_kind(self) -> str:
        """The kind of rows. `openai` is another format of one of the others."""
        kinds = {"supervised": "sft", "preference": "preference", "reinforcement": "prompts"}
        return kinds[self.method] if self.to == "openai" else self.to

    def non_default(self) -> dict[str, Any]:
        """The options that differ from their defaults, for the card. `to` has no default."""
        fields = type(self).__dataclass_fields__
        return {name: value for name, value in vars(self).items() if name != "to" and value != fields[name].default}
