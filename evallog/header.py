"""Reads the header of a log: its run, its status and its results."""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from truthgym.evallog.archive import EvalArchive, check_no_pointer
from truthgym.evallog.errors import bad_input
from truthgym.evallog.schema import decode_json

T = TypeVar("T")
Status = Literal["started", "success", "cancelled", "error"]


class Scorer(msgspec.Struct):
    name: str
    options: dict[str, Any] | None = None


class Config(msgspec.Struct):
    epochs: int | None = None
    sample_shuffle: bool | int | None = None
    """Whether the questions were shuffled, or the seed."""


class Revision(msgspec.Struct):
    commit: str = ""
    dirty: bool | None = None
    """Whether files were changed after it."""


class Dataset(msgspec.Struct):
    samples: int | None = None
    """Questions, also those that a limit left out."""
    sample_ids: list[int | str] | None = None
    """The questions asked."""


class RoleModel(msgspec.Struct):
    model: str
    args: dict[str, Any] = {}


class Spec(msgspec.Struct, kw_only=True):
    """The run's specification (`EvalSpec`)."""

    task: str
    task_registry_name: str | None = None
    task_version: int | str = 0
    model: str
    model_args: dict[str, Any] = {}
    model_base_url: str | None = None
    model_generate_config: dict[str, Any] = {}
    model_roles: dict[str, RoleModel | list[RoleModel]] | None = None
    task_args: dict[str, Any] = {}
    metadata: dict[str, Any] | None = None
    config: Config = msgspec.field(default_factory=Config)
    dataset: Dataset = msgspec.field(default_factory=Dataset)
    revision: Revision | None = None
    created: str
    eval_id: str
    task_id: str = ""
    solver: str | None = None
    """None if the run used the task's own solver."""
    solver_args: dict[str, Any] | None = None
    scorers: list[Scorer] | None = None
    """In the order in which they scored."""

    @property
    def comparable(self) -> str:
        """The task and the number of its version, such as `truthgym/urns 2`: scores compare if both are the same."""
        return f"{self.task_registry_name or self.task} {str(self.task_version).partition('-')[0]}"

    @property
    def asked(self) -> int:
        """Questions asked, in each epoch."""
        return self.dataset.samples or 0 if self.dataset.sample_ids is None else len(self.dataset.sample_ids)


class PlanStep(msgspec.Struct):
    solver: str
    params_passed: dict[str, Any] | None = None


class Plan(msgspec.Struct):
    steps: list[PlanStep] = []


class Usage(msgspec.Struct):
    """Tokens that a model has read and written. What a provider's own cache answered is not in `input_tokens`."""

    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_cache_read: int | None = None
    input_tokens_cache_write: int | None = None
    total_cost: float | None = None
    """Dollars. None unless the run was given prices (`inspect eval --model-cost-config`)."""

    @property
    def read(self) -> int:
        return self.input_tokens + (self.input_tokens_cache_read or 0) + (self.input_tokens_cache_write or 0)


class Stats(msgspec.Struct):
    completed_at: str = ""
    model_usage: dict[str, Usage] = {}
    """By model, in all roles. Replies from Inspect's cache are not in it."""


class Figure(msgspec.Struct):
    value: float | None = None
    """None if it is not a number."""


OLD_REASONS = re.compile(r"^(unidentified_|cannot_tell_)")
"""What stood before the names of reasons in earlier logs, where `reason_` stands today."""
OLD_VERDICTS: dict[str, dict[float, float | None]] = {
    "sycophantic_reasoning": {1: 11, 2: 12, 3: 13},
    "value_influence": {1: 21, 2: 22, 3: 23, 4: 24, 5: 25},
    "world_uplift": {1: 31, -1: 32, 0: None},
}
"""By scorer, the codes of verdicts in earlier logs with those of today. None: cannot tell."""

NO_FAULT_NEEDS = {"sycophantic_reasoning": "user_distance", "value_influence": "excess_influence"}
"""By scorer, a figure that a log holds if its verdict 0 was tested: earlier ones acquitted who was not convicted."""


class ScorerResults(msgspec.Struct):
    """What a scorer reports of a run (`EvalScore`), by the names and codes of today."""

    name: str
    scorer: str
    params: dict[str, Any] = {}
    """The arguments that the scorer was made with."""
    reducer: str | None = None
    """How Inspect made one value of a question's epochs. None: there is one epoch, or the metrics take each."""
    metrics: dict[str, Figure] = {}
    """Estimate first."""
    scored_samples: int | None = None
    """Questions with a score, of their epochs together."""
    unscored_samples: int | None = None

    def __post_init__(self) -> None:
        if "verdict" not in self.metrics:
            return
        name = self.scorer.rpartition("/")[2]
        old, codes = self.metrics["verdict"].value, OLD_VERDICTS.get(name, {})
        self.metrics["verdict"].value = old if old is None else codes.get(old, old)
        if old == 0 and NO_FAULT_NEEDS.get(name, "verdict") not in self.metrics:
            self.metrics["verdict"].value = None
            self.metrics["reason_not_tested"] = Figure(1.0)
        self.metrics = {OLD_REASONS.sub("reason_", name): figure for name, figure in self.metrics.items()}


class Results(msgspec.Struct):
    total_samples: int = 0
    """Questions times epochs."""
    completed_samples: int = 0
    scores: list[ScorerResults] = []

    @property
    def estimates(self) -> list[ScorerResults]:
        """The scorers' results, without `foreign` ones."""
        return [score for score in self.scores if score not in self.foreign]

    @property
    def foreign(self) -> list[ScorerResults]:
        """Passes of Truthgym's scorers by a metric of Inspect (`inspect score --metric`), which knows no dict."""
        names = {id(score): score.scorer.rpartition("/")[2].rstrip("0123456789") for score in self.scores}
        own = {names[id(score)] for score in self.scores if "share_scored" in score.metrics}
        return [score for score in self.scores if names[id(score)] in own and "share_scored" not in score.metrics]


class Header(msgspec.Struct, kw_only=True):
    """A log without its samples."""

    version: int = 2
    """Version of the log format."""
    status: Status = "started"
    """`success` if the run finished, even if samples failed. `started` if it is still running or crashed."""
    eval: Spec
    plan: Plan = msgspec.field(default_factory=Plan)
    stats: Stats = msgspec.field(default_factory=Stats)
    results: Results | None = None
    invalidated: bool = False
    """Whether samples were invalidated (`inspect_ai.log.invalidate_samples`)."""

    @property
    def completed_at(self) -> str:
        """When the run ended, in ISO 8601; if it did not end, when it started."""
        return self.stats.completed_at or self.eval.created

    @property
    def solver_name(self) -> str:
        """The name of the run's solver, or else of the last solver of the task."""
        return self.eval.solver or (self.plan.steps[-1].solver if self.plan.steps else "")

    @property
    def rescored(self) -> dict[str, str]:
        """Names of scores that repeat an earlier one, as `repeated_scores`."""
        return repeated_scores([(scorer.name, scorer.options) for scorer in self.eval.scorers or []])


def repeated_scores(scorers: Iterable[tuple[str, Mapping[str, Any] | None]]) -> dict[str, str]:
    """Names of scores that repeat an earlier one (same scorer and options but `figures`), with that one's name."""
    counts, first, repeated = Counter[str](), dict[str, str](), dict[str, str]()
    for scorer, options in scorers:
        base = scorer.rpartition("/")[2]
        name = f"{base}{counts[base] or ''}"
        counts[base] += 1
        scoring = {option: value for option, value in (options or {}).items() if option != "figures"}
        repeated[name] = first.setdefault(f"{base} {scoring}", name)
    return {name: earlier for name, earlier in repeated.items() if name != earlier}


def with_newest(scores: Mapping[str, T], repeated: Mapping[str, str]) -> dict[str, T]:
    """Scores by name, in which the name of one that was repeated stands for the newest."""
    newest = dict(scores)
    for newer, name in repeated.items():
        if newer in newest:
            newest[name] = newest.pop(newer)
    return newest


def parse_header(path: Path, archive: EvalArchive | None, name: str) -> Header:
    if archive is None:
        content = path.read_bytes()
    else:
        # A run that never finished has no header.json, only the record of its start.
        member = next((member for member in ("header.json", "_journal/start.json") if member in archive), None)
        if member is None:
            raise bad_input(f"{name} is a zip file but not a log: it has no header.json; give an .eval log of Inspect")
        with archive:
            content = archive.read(member)
    try:
        with contextlib.suppress(msgspec.ValidationError):  # the schema of an older version
            return decode_json(content, msgspec.json.Decoder(Header))
        json.loads(content)  # stops at a depth of nesting for which Inspect's reader takes gigabytes
        from inspect_ai.log import read_eval_log

        log = read_eval_log(str(path), header_only=True)
        return msgspec.convert(log.model_dump(mode="json", exclude_none=True, exclude={"samples"}), Header)
    except Exception as error:  # Inspect raises what its parsers raise
        check_no_pointer(path, name)
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise bad_input(f"{name} cannot be read as a log ({reason}); give an .eval or .json log of Inspect") from None
