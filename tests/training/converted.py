"""Logs and the rows that they are converted to, for tests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, EvalSample, read_eval_log, write_eval_log

Rows = list[dict[str, Any]]
Edited = Callable[..., Path]


def rows(folder: Path, split: str = "train") -> Rows:
    """The rows of a dataset."""
    return [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()]


def edit_log(log: Path, path: Path, change: Callable[[EvalLog], object]) -> Path:
    """A copy of a log, changed by a function."""
    edited = read_eval_log(str(log))
    change(edited)
    path.parent.mkdir(exist_ok=True)
    write_eval_log(edited, str(path))
    return path


def of_split(path: Path, split: str) -> list[EvalSample]:
    """The samples of a split."""
    return [sample for sample in read_eval_log(str(path)).samples or [] if sample.metadata["split"] == split]


def brier(sample: EvalSample) -> float:
    """The sample's Brier score."""
    assert sample.scores
    value = sample.scores["brier"].value
    assert isinstance(value, dict)
    return float(str(value["brier_score"]))
