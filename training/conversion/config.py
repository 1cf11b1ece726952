"""How the trajectories of logs become rows of a dataset."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from truthgym.training.conversion.messages import Reasoning
from truthgym.training.conversion.rows import Form
from truthgym.training.conversion.selection import PairBy, Pairs, Validation, check_fields
from truthgym.training.conversion.writer import FileFormat

Kind = Literal[
    "sft", "preference", "prompts", "unpaired", "steps", "few_shot", "openai", "verl", "prime-rl", "tinker", "openrlhf"
]
TOKEN_KINDS = ("verl", "prime-rl", "tinker")
"""Kinds whose rows are tokens, see `token_rows`."""
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
    model: str | None = None
    """For `TOKEN_KINDS`: the model that is to be trained, whose tokenizer and log-probabilities the rows have."""

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
        if self.to in TOKEN_KINDS:
            if not self.model:
                problems.append(f"--to {self.to} needs --model FOLDER for token ids and log-probabilities")
            if self.form != "prompt-completion":
                problems.append(f"--form {self.form}: {self.to} has one row per reply")
        elif self.model:
            problems.append(f"--model is an option of --to {', '.join(TOKEN_KINDS)}")
        for name, value in self.non_default().items():
            if self.row_kind not in OPTIONS_BY_KIND.get(name, (self.row_kind,)):
                problems.append(f"{name}={value!r} has no effect")
        check_fields(self, [f"--to {self.to}: {problem}; omit it" for problem in problems])

    @property
    def row_kind(self) -> str:
        """The kind of rows. Those of other trainers are another format of one of ours."""
        kinds = {"supervised": "sft", "preference": "preference", "reinforcement": "prompts"}
        if self.to == "openai":
            return kinds[self.method]
        return "sft" if self.to in TOKEN_KINDS else "prompts" if self.to == "openrlhf" else self.to

    @property
    def written_format(self) -> FileFormat:
        """Rows of tokens are parquet, which those trainers read."""
        return "parquet" if self.to in TOKEN_KINDS else self.file_format

    def non_default(self) -> dict[str, Any]:
        """The options that differ from their defaults, for the card. `to` has no default."""
        fields = type(self).__dataclass_fields__
        return {name: value for name, value in vars(self).items() if name != "to" and value != fields[name].default}
