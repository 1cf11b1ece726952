"""Watches a run for reward hacking: warns, and saves and stops it, when its signals drift from those of clean runs.

truthgym train grpo ... --monitor trained/CLEAN_RUN --monitor_signals completions/mean_length rewards/brier/mean:down
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from truthgym.datasets.errors import BadInput
from truthgym.training.drift_monitor import DriftMonitor
from truthgym.training.files import STATE_FILE
from truthgym.training.trainers.model_card import read_card
from truthgym.training.trainers.options import CONFIGS
from truthgym.training.trainers.training_run import CURVE_PLOT, MONITOR, log_main

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIGNALS = ("completions/mean_length",)
LIMITS = ("warning", "stop")
"""Thresholds of the statistic, which dashboards (`--report_to`) get beside it."""
CADENCE = ("processes", "per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation",
           "num_generations", "max_completion_length", "temperature")  # fmt: skip
"""Options that decide of how many and of which rollouts an entry is the mean."""


class HackingMonitor(TrainerCallback):  # type: ignore[misc]
    """A `DriftMonitor` on what the trainer logs, to which it adds its statistic: at STOP the run saves and ends."""

    def __init__(self, monitor: DriftMonitor) -> None:
        self.monitor = monitor
        self.reason = ""

    def on_train_begin(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        for entry in state.log_history:
            self._update(entry, int(entry.get("step", 0)))

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **fields: object) -> None:
        logs = fields.get("logs")
        if isinstance(logs, dict):
            self._update(logs, state.global_step)
            if seen := self.monitor.state():
                logs |= {"monitor/statistic": seen["statistic"][-1]} | {f"monitor/{x}": seen[x] for x in LIMITS}
        if self.monitor.status == "STOP":
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        if seen := self.monitor.state():  # not in checkpoints, which would restore it as a callback
            state.stateful_callbacks[MONITOR] = seen

    def _update(self, entry: Mapping[str, object], step: int) -> None:
        before = self.monitor.status
        if before == "STOP":
            return
        after = self.monitor.update({**entry, "step": step})
        self.reason = f"step {step}: {self.monitor.reason}"
        if after != before:
            log_main(f"Monitor {after}, {self.reason}")

    def note(self) -> str:
        """A sentence for the model's card."""
        status = self.monitor.status
        ending = f"Monitor {status}" + (f", {self.reason}" if status in ("WARNING", "STOP") else "")
        return f"{ending} (of {len(self.monitor.trace)} log entries; [its signals]({CURVE_PLOT}))."


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
    clean = [_history(Path(folder), names, kind) for folder in folders]
    try:
        return HackingMonitor(DriftMonitor(names, clean, alpha, checkpoints))
    except BadInput as error:
        raise BadInput(f"--monitor: {error}") from None


def _trl_defaults(method: str) -> dict[str, object]:
    import trl

    fields = getattr(trl, CONFIGS[method]).__dataclass_fields__ if method in CONFIGS else {}
    return {name: entry.default for name, entry in fields.items() if name in CADENCE}


def _history(folder: Path, signals: Sequence[str], kind: Mapping[str, object]) -> "NDArray[np.float64]":
    file = folder / STATE_FILE
    if not file.is_file():
        raise BadInput(f"--monitor {folder}: there is no {STATE_FILE}; give the folder of a finished run")
    state = json.loads(file.read_text(encoding="utf-8"))
    entries, card = state.get("log_history", []), read_card(folder)
    config = _trl_defaults(card.method) | card.config  # a card lists what differs from TRL's defaults
    theirs = kind_of_run(card.dataset, card.base_hash, state.get("logging_steps", 1), config)
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
