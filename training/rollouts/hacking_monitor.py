"""Watches a run for reward hacking: warns, and saves and stops it, when its signals drift from those of clean runs.

truthgym train grpo ... --monitor trained/CLEAN_RUN --monitor_signals completions/mean_length rewards/brier/mean:down
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.drift import DriftTest, calibrate
from truthgym.training.files import STATE_FILE
from truthgym.training.trainers.model_card import read_card
from truthgym.training.trainers.training_run import log_main

if TYPE_CHECKING:
    from numpy.typing import NDArray

WARNING_ALPHA = 4
"""A warning has this many times the probability of a stop in a clean run, at most one half."""
SIGNALS = ("completions/mean_length",)
CADENCE = ("processes", "per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation",
           "num_generations", "max_completion_length", "temperature")  # fmt: skip
"""Options that decide of how many and of which rollouts an entry is the mean."""
Status = Literal["OK", "WARNING", "STOP"]


class HackingMonitor(TrainerCallback):  # type: ignore[misc]
    """A sequential test on what the trainer logs: `OK`, `WARNING`, or `STOP`, after which the run saves and ends.

    A signal is the name of what TRL logs, with ":up" (the default) or ":down" for the suspicious direction. `clean` is,
    of each clean run, log entries x signals; `alpha` is the probability of a stop in a clean run of `checkpoints` log
    entries.
    """

    def __init__(
        self, signals: Sequence[str], clean: "Sequence[NDArray[np.float64]]", alpha: float, checkpoints: int
    ) -> None:
        self.signals = [name.partition(":")[0] for name in signals]
        self.signs = np.array([-1.0 if name.endswith(":down") else 1.0 for name in signals])
        try:
            tests = [calibrate([run * self.signs for run in clean], level, checkpoints)
                     for level in (alpha, min(WARNING_ALPHA * alpha, 0.5))]  # fmt: skip
        except ValueError as error:
            raise BadInput(
                f"--monitor: {error}; give more clean runs, or name other signals with --monitor_signals"
            ) from None
        self.test: DriftTest = tests[0]
        self.warning: float = tests[1].threshold
        self.trace: list[list[float]] = []
        self.status: Status = "OK"
        self.reason = ""

    def on_train_begin(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        self.trace = [row for entry in state.log_history if (row := self._row(entry)) is not None]

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **fields: object) -> None:
        logs = fields.get("logs")
        row = self._row(logs) if isinstance(logs, Mapping) else None
        if row is None or self.status == "STOP":
            return
        self.trace.append(row)
        statistic = self.test.statistic(np.array(self.trace) * self.signs)[-1]
        before = self.status
        self.status = "STOP" if statistic > self.test.threshold else "WARNING" if statistic > self.warning else "OK"
        means = ", ".join(f"{name} {value:.3g} ({mean * sign:.3g} in clean runs)" for name, value, mean, sign in
                          zip(self.signals, row, self.test.mean, self.signs, strict=True))  # fmt: skip
        self.reason = (
            f"step {state.global_step}: {means}; the statistic is {statistic:.2f}, and a run like the clean ones "
            f"is estimated to exceed {self.test.threshold:.2f} with probability {self.test.alpha:g}"
        )
        if self.status == "STOP":
            control.should_save = control.should_training_stop = True
        if self.status != before:
            log_main(f"Monitor {self.status}, {self.reason}")

    def note(self) -> str:
        """A sentence for the model's card."""
        ending = f"Monitor {self.status}" + (f", {self.reason}" if self.status != "OK" else "")
        return f"{ending} (of {len(self.trace)} log entries)."

    def _row(self, entry: Mapping[str, object]) -> list[float] | None:
        """The signals of a log entry; None if it has none of them, as at the end of a run."""
        values = [entry.get(name) for name in self.signals]
        numbers = [float(value) if isinstance(value, int | float) else np.nan for value in values]
        return None if np.isnan(numbers).all() else numbers


def kind_of_run(tasks: str, base_hash: str, logging_steps: float, settings: Mapping[str, object]) -> dict[str, object]:
    """What decides how much a run's log entries vary: of the run to watch and of clean ones it must be the same."""
    return {"tasks": tasks, "base model": base_hash, "--logging_steps": int(logging_steps)} | {
        f"--{name}": settings.get(name) for name in CADENCE
    }


def monitor_of(
    folders: Sequence[str], signals: Sequence[str] | None, alpha: float, checkpoints: int, kind: Mapping[str, object]
) -> HackingMonitor | None:
    """The monitor that the options ask for; None without any."""
    if not folders:
        if signals:
            raise BadInput(
                "--monitor_signals without a null trace: name the folder of a run that is known to be clean with "
                "--monitor, such as one of the same task with the true score as its reward"
            )
        return None
    if not 0 < alpha < 1:
        raise BadInput(f"--monitor_alpha {alpha}: give a probability between 0 and 1, such as 0.05")
    names = list(signals or SIGNALS)
    for name in names:
        if name.partition(":")[2] not in ("", "up", "down"):
            raise BadInput(f"--monitor_signals {name}: write NAME, NAME:up or NAME:down")
    return HackingMonitor(
        names, [_history(Path(folder), names, kind) for folder in folders], alpha, max(1, checkpoints)
    )


def _history(folder: Path, signals: Sequence[str], kind: Mapping[str, object]) -> "NDArray[np.float64]":
    file = folder / STATE_FILE
    if not file.is_file():
        raise BadInput(f"--monitor {folder}: there is no {STATE_FILE}; give the folder of a finished run")
    state = json.loads(file.read_text(encoding="utf-8"))
    entries, card = state.get("log_history", []), read_card(folder)
    theirs = kind_of_run(card.dataset, card.base_hash, state.get("logging_steps", 1), card.config)
    if other := next((name for name in kind if kind[name] != theirs[name]), None):
        raise BadInput(
            f"--monitor {folder}: its {other} is {theirs[other]!r}, and that of this run {kind[other]!r}; its entries "
            "vary by another amount, so give clean runs that differ from this one in the reward and seed only"
        )
    names = [name.partition(":")[0] for name in signals]
    for name in names:
        if not any(name in entry for entry in entries):
            logged = ", ".join(sorted({key for entry in entries for key in entry}))
            raise BadInput(f"--monitor {folder}: the run logged no {name}; it logged {logged}")
    rows = [[float(entry[name]) for name in names] for entry in entries if all(name in entry for name in names)]
    return np.array(rows, dtype=float).reshape(-1, len(names))
