"""Logs and the rows that they are converted to, for tests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inspect_ai import eval
from inspect_ai.log import read_eval_log, write_eval_log

from tests.fixtures import QUIET
from truthgym.tasks.worlds import urns

Rows = list[dict[str, Any]]
Edited = Callable[..., Path]


def rows(folder: Path, split: str = "train") -> Rows:
    """The rows of a dataset."""
    return [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()]


def ask_urns(folder: Path, n: int = 40, paradigms: Any = "brier", split: str = "all", **options: Any) -> Path:
    """The log of noisy forecasts, of three epochs if nothing else is said."""
    noisy = {"model": "reference/bayesian", "model_args": {"noise": 0.2, "seed": 1}, "epochs": 3}
    settings: dict[str, Any] = noisy | QUIET | options
    log = eval(urns(n=n, paradigms=paradigms, split=split), log_dir=str(folder), **settings)[0]
    assert log.status == "success", log.error
    return Path(log.location.removeprefix("file://"))


def edit_log(log: Path, path: Path, change: Callable[[Any], object]) -> Path:
    """A copy of a log, changed by a function."""
    edited = read_eval_log(str(log))
    change(edited)
    path.parent.mkdir(exist_ok=True)
    write_eval_log(edited, str(path))
    return path


def of_split(path: Path, split: str) -> list[Any]:
    """The samples of a split."""
    return [sample for sample in read_eval_log(str(path)).samples or [] if sample.metadata["split"] == split]


def brier(sample: Any) -> float:
    """The sample's Brier score."""
    return float(sample.scores["brier"].value["brier_score"])


def scored_as(value: float) -> Callable[[Any], None]:
    """A change of a log: each answer has this Brier score."""

    def change(log: Any) -> None:
        for sample in log.samples:
            sample.scores["brier"].value = {"brier_score": value}

    return change


def only(split: str) -> Callable[[Any], None]:
    """A change of a log: it holds the samples of this split alone."""

    def change(log: Any) -> None:
        log.samples = [sample for sample in log.samples if sample.metadata["split"] == split]

    return change


def unscored(log: Any) -> None:
    """A change of a log: no answer is scored."""
    for sample in log.samples:
        sample.scores = None
