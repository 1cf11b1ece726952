"""Adapter from TRL's reward functions to the built-in rewards: a `Batch` from completions and dataset columns."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import binary_outcome
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.training.reward_functions.formulas import share

Columns = Mapping[str, object]
"""What TRL passes to a reward function by name: the dataset's columns as lists, `completion_ids`, `log_metric`."""


@dataclass(frozen=True)
class TextBatch:
    """A `Batch` of completions. A column that the dataset lacks is an error only if a reward reads it."""

    prompts: Sequence[object]
    completions: Sequence[object]
    columns: Columns
    information_weight: float | None = None

    @cached_property
    def texts(self) -> list[str]:
        return [message_text(completion) for completion in self.completions]

    @cached_property
    def beliefs(self) -> list[float | None]:
        """Beliefs parsed by the rules that scorers use; the share that could be parsed is logged as `share_read`."""
        beliefs = [read_belief(text, decimal=True) for text in self.texts]
        self.log("share_read", share([belief is not None for belief in beliefs]))
        return beliefs

    @cached_property
    def outcomes(self) -> list[float | None]:
        targets = column(self.columns, "target", '"yes", "no", or empty if unknown')
        return [binary_outcome(target) for target in targets]

    @property
    def lengths(self) -> list[int]:
        ids = column(self.columns, "completion_ids", "passed by TRL's trainers")
        # An end token alone is not an answer.
        return [len(tokens) if text.split() else 0 for tokens, text in zip(ids, self.texts, strict=True)]

    @cached_property
    def groups(self) -> list[Hashable]:
        return [repr(prompt) for prompt in self.prompts]

    @property
    def questions(self) -> list[Hashable]:
        return column(self.columns, "question", "of truthgym/sycophancy")

    @property
    def arms(self) -> list[str]:
        return [str(arm) for arm in column(self.columns, "arm", "of truthgym/sycophancy")]

    @property
    def priors(self) -> list[float | None]:
        """One reading per completion, so that no two completions to a prompt share a reading's error."""
        rows = column(self.columns, "priors", "add it: two or more readings of the prior per prompt")
        readings = [_readings(row, i) for i, row in enumerate(rows)]
        seen: dict[Hashable, int] = {}
        priors = []
        for group, row in zip(self.groups, readings, strict=True):
            number = seen[group] = seen.get(group, -1) + 1
            priors.append(row[number % len(row)])
        return priors

    @property
    def posteriors(self) -> list[float | None]:
        return self.beliefs

    def log(self, name: str, value: float) -> None:
        log(self.columns, name, value)


def message_text(message: object) -> str:
    """The text of a completion or prompt as TRL passes it: a string, or messages of which the last one counts."""
    if isinstance(message, list):
        message = message[-1]["content"] if message else ""
    if isinstance(message, list):
        message = "\n".join(str(block.get("text") or "") for block in message)
    return message if isinstance(message, str) else ""


def column(columns: Columns, name: str, content: str) -> list[Any]:
    """A column of the dataset, one entry per completion."""
    values = columns.get(name)
    if not isinstance(values, list):
        raise BadInput(
            f"The dataset has no column {name} ({content}); train on the rows that `truthgym convert --to prompts` "
            "writes, or add the column"
        )
    return values


def log(columns: Columns, name: str, value: float) -> None:
    """Log a figure through TRL, if TRL passed `log_metric`. NaN is not logged."""
    log_metric = columns.get("log_metric")
    if callable(log_metric) and value == value:
        cast(Callable[[str, float], None], log_metric)(name, value)


def _readings(row: object, place: int) -> list[float | None]:
    """One row of the column `priors`. None for a missing reading."""
    readings = [None if value != value else value for value in row] if isinstance(row, list | tuple) else []
    known = [value for value in readings if value is not None]
    if len(readings) < 2 or not all(_is_belief(value) for value in known):
        raise BadInput(
            f"reward martingale: priors={row!r:.60} of completion {place} does not hold two readings; give a list of "
            "two or more beliefs between 0 and 1 per prompt"
        )
    return readings


def _is_belief(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
