"""Options of a conversion: which trajectories become rows, and how."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from truthgym.evallog.errors import bad_input
from truthgym.scorers.statistics.direction import Best

Kind = Literal[
    "sft", "preference", "prompts", "unpaired", "steps", "few_shot", "openai", "verl", "prime-rl", "tinker", "openrlhf"
]
TOKEN_KINDS = ("verl", "prime-rl", "tinker")
OpenAIMethod = Literal["supervised", "preference", "reinforcement"]
Form = Literal["prompt-completion", "messages"]
Reasoning = Literal["keep", "drop", "only"]
Validation = Literal["none", "train", "gt"]
PairBy = Literal["epoch", "solver", "model"]
Pairs = Literal["widest", "all"]
FileFormat = Literal["jsonl", "parquet", "arrow"]
KIND_OF_METHOD: dict[str, Kind] = {
    **{"sft": "sft", "dpo": "preference", "kto": "unpaired", "reward": "preference", "few_shot": "few_shot"},
    **dict.fromkeys(("grpo", "rloo", "reinforcement"), "prompts"),
}
"""The kind of dataset that each training method learns from."""
OPTIONS_BY_KIND: dict[str, tuple[str, ...]] = {
    "form": ("sft",),
    "reasoning": ("sft", "preference", "unpaired"),
    "pair_by": ("preference",),
    "pairs": ("preference",),
    "margin": ("preference",),
}
"""Options that only some kinds of rows have."""
DEFAULT_TOP = 0.1
"""The share of trajectories that is selected by default, as in TruthSeekingGym."""
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Selection:
    """Which trajectories to select. A trajectory must meet every condition."""

    score: str | None = None
    """"KEY", "SCORER" or "SCORER/KEY" of a number in the log."""
    best: Best | None = None
    """Which end of the score is better. None uses the scorer's own direction."""
    top: Annotated[float, Meta(gt=0, le=1)] | None = None
    """The share of trajectories with the best scores, in (0, 1]."""
    count: Annotated[int, Meta(ge=1)] | None = None
    """At most this many of them."""
    threshold: float | None = None
    """Only scores at least as good as this."""
    best_per_question: bool = False
    """Only the best trajectory of each question."""
    aligned: bool = False
    """Only trajectories whose stated belief is on the side of the outcome."""
    everything: bool = False
    """All trajectories, scored or not, with columns that describe their outcome."""
    trajectories: str | None = None
    """Only those that a .csv file lists by `eval_id`, `sample_id` and `epoch`: see `truthgym.analysis.trajectories`."""
    splits: tuple[str, ...] = ("train",)
    seed: int = 0
    """Seed of the draw among trajectories with equal scores."""

    def __post_init__(self) -> None:
        problems = []
        if "test" in self.splits:
            problems.append(
                "--split test: questions of the test split are reserved for evaluation and are never trained on; use "
                "train, or train,validation"
            )
        elif not self.splits or not {*self.splits} <= {*SPLITS}:
            problems.append(f"--split {','.join(self.splits)}: unknown split; use train, or train,validation")
        if self.threshold is not None and not math.isfinite(self.threshold):
            problems.append(f"--threshold {self.threshold} is not finite; give a number")
        conditions = (self.top, self.count, self.threshold)
        if self.everything and (any(c is not None for c in conditions) or self.best_per_question or self.aligned):
            problems.append("--all takes every trajectory; omit --all, or omit the options that select among them")
        check_fields(self, problems)

    @property
    def ranks(self) -> bool:
        """Whether trajectories are compared with one another, so that all must be read before one is selected."""
        return not self.everything and (self.share < 1 or self.count is not None or self.best_per_question)

    @property
    def needs_score(self) -> bool:
        """Whether a score is needed."""
        conditions = (self.top, self.threshold, self.score)
        return not self.everything and (self.ranks or any(condition is not None for condition in conditions))

    @property
    def share(self) -> float:
        """The share to select: `DEFAULT_TOP` unless another condition is set."""
        if self.top is not None:
            return self.top
        selects = self.everything or self.aligned or self.best_per_question or self.trajectories
        return 1.0 if selects or self.count is not None or self.threshold is not None else DEFAULT_TOP

    def passes(self, score: float, aligned: bool | None, best: Best | None) -> bool:
        """Whether a trajectory meets the conditions that do not depend on other trajectories."""
        if self.aligned and not aligned:
            return False
        return self.threshold is None or as_good(score, self.threshold, best)

    def non_default(self) -> dict[str, object]:
        """The options that differ from their defaults, and the splits and the share in any case, for the card."""
        default = Selection()
        options = {name: value for name, value in vars(self).items() if value != getattr(default, name)}
        share = {"top": self.share} if self.ranks and self.share < 1 else {}
        return options | share | {"splits": list(self.splits)}


@dataclass(frozen=True)
class ConversionConfig:
    """How trajectories become rows. Which trajectories to convert is the `Selection`'s."""

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


def check_fields(options: object, problems: Sequence[str] = ()) -> None:
    """Check a dataclass's fields against their annotations, by msgspec: pydantic would add 0.1 s to each conversion."""
    invalid = []
    for name, annotation in get_type_hints(type(options), include_extras=True).items():
        value = getattr(options, name)
        try:
            msgspec.convert(value, annotation)
        except msgspec.ValidationError as error:
            kinds = [kind for kind in (annotation, *get_args(annotation)) if get_origin(kind) is Literal]
            allowed = [str(value) for kind in kinds for value in get_args(kind)]
            expected = f"give one of {', '.join(allowed)}" if allowed else str(error).lower()
            invalid.append(f"{name}={value!r} cannot be used; {expected}")
    if invalid or problems:
        raise bad_input(". ".join([*invalid, *problems]))


def as_good(score: float, limit: float, best: Best | None) -> bool:
    """Whether a score is at least as good as a limit."""
    return score <= limit if best == "lowest" else score >= limit
