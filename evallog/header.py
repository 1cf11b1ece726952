"""The header of a log: which run it holds, how it ended, and what it was scored with."""

import json
from pathlib import Path
from typing import Any, Literal

import msgspec

from truthgym.evallog.archive import EvalMembers
from truthgym.evallog.errors import bad_input

Status = Literal["started", "success", "cancelled", "error"]


class Dataset(msgspec.Struct):
    name: str | None = None
    location: str | None = None
    samples: int | None = None


class Scorer(msgspec.Struct):
    """A scorer of the run, as the task set it up."""

    name: str
    options: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class Shard(msgspec.Struct):
    shard: str = ""
    log: str = ""


class Shards(msgspec.Struct):
    """What a log was merged from. Its samples are theirs."""

    ledger: list[Shard] = []


class Spec(msgspec.Struct, kw_only=True):
    """What was run (`EvalSpec`)."""

    task: str
    model: str
    created: str
    eval_id: str
    run_id: str = ""
    task_id: str = ""
    task_registry_name: str | None = None
    task_args: dict[str, Any] = {}
    solver: str | None = None
    """None where the run took the task's own."""
    solver_args: dict[str, Any] | None = None
    dataset: Dataset = msgspec.field(default_factory=Dataset)
    scorers: list[Scorer] | None = None
    shards: Shards | None = None
    metadata: dict[str, Any] | None = None


class PlanStep(msgspec.Struct):
    solver: str
    params: dict[str, Any] = {}


class Plan(msgspec.Struct):
    steps: list[PlanStep] = []


class Stats(msgspec.Struct):
    started_at: str = ""
    completed_at: str = ""


class Header(msgspec.Struct, kw_only=True):
    """All of a log but its samples."""

    version: int = 2
    """Of the log format."""
    status: Status = "started"
    """`success` where all of it was run; samples may have failed all the same. `started` where it still runs, or
    crashed."""
    eval: Spec
    plan: Plan = msgspec.field(default_factory=Plan)
    stats: Stats = msgspec.field(default_factory=Stats)
    invalidated: bool = False

    @property
    def completed_at(self) -> str:
        """When the run ended, in ISO 8601; where it did not, when it began."""
        return self.stats.completed_at or self.eval.created

    @property
    def solver_name(self) -> str:
        """The solver's name: the one that was asked for, or the last of the task's own."""
        return self.eval.solver or (self.plan.steps[-1].solver if self.plan.steps else "")


def header_of(place: Path, members: EvalMembers | None, named: str) -> Header:
    """Read a log's header.

    Args:
        place: The file.
        members: Its members, where it is an .eval log; None for a .json log, which Inspect reads.
        named: What the log is called in errors.

    Raises:
        BadInput: It is no log.
    """
    if members is not None:
        # A run that never finished has no header, but what it began with.
        name = next((name for name in ("header.json", "_journal/start.json") if name in members), None)
        if name is None:
            raise bad_input(f"{named} is a zip file, but no log: it has no header.json; give an .eval log of Inspect")
        content = members.read(name)
        try:
            return msgspec.json.decode(content, type=Header)
        except msgspec.DecodeError:
            pass  # metrics of NaN, or a shape of an older version
        try:
            return msgspec.convert(json.loads(content), Header)
        except (ValueError, msgspec.ValidationError):
            pass
    return _by_inspect(place, named)


def _by_inspect(place: Path, named: str) -> Header:
    from inspect_ai.log import read_eval_log

    try:
        log = read_eval_log(str(place), header_only=True)
        return msgspec.convert(log.model_dump(mode="json", exclude_none=True, exclude={"results", "samples"}), Header)
    except Exception as error:  # Inspect raises what its parsers raise
        first = str(error).partition("\n")[0]
        raise bad_input(
            f"{named} cannot be read as a log ({type(error).__name__}: {first}); give an .eval or .json log of Inspect"
        ) from None
