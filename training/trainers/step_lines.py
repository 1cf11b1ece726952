"""What a run prints as it goes: one line for each step that is logged, and a progress bar where there is a terminal."""

import time
from collections.abc import Mapping

from tqdm import tqdm
from transformers import TrainerCallback, TrainerState

FIGURES = {
    "reward": "reward {:.4f}",
    "share_read": "read {:.1%}",
    "completions/mean_length": "{:.1f} tokens",
    "failed_rollouts": "{:.0f} failed",
    "loss": "loss {:.4g}",
    "eval_loss": "loss {:.4g}",
    "mean_token_accuracy": "tokens right {:.1%}",
    "rewards/accuracies": "pairs right {:.1%}",
    "accuracy": "pairs right {:.1%}",
    "eval_accuracy": "pairs right {:.1%}",
    "kl": "KL {:.3g}",
    "entropy": "entropy {:.3f}",
}
"""What a line has of a Trainer's log, in this order."""


class StepLines(TrainerCallback):  # type: ignore[misc]
    """Prints the lines."""

    left_out: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.step = self.max_steps = 0
        self.first: list[str] = []
        """What a line begins with."""
        self.bar = tqdm(disable=True)
        self._logged = (0, 0.0)
        """Step and time of the last line."""

    def on_train_begin(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        self.step, self.max_steps, self._logged = state.global_step, state.max_steps, (state.global_step, time.time())
        shown = None if state.is_world_process_zero else True  # None: where standard error is a terminal
        self.bar = tqdm(total=state.max_steps, initial=state.global_step, unit="step", leave=False, disable=shown)

    def on_step_end(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        self.step = state.global_step
        self.bar.update()

    def on_log(
        self, args: object, state: TrainerState, control: object, logs: Mapping[str, float] | None = None, **_: object
    ) -> None:
        logs = logs or {}
        if state.is_world_process_zero and logs.keys() & {"loss", "eval_loss"}:
            self.say(self.line(logs))

    def on_train_end(self, *_: object, **__: object) -> None:
        self.bar.close()

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        tqdm.write(line)

    def line(self, logs: Mapping[str, float]) -> str:
        """The line of a log entry."""
        shown = {name: value for name, value in logs.items() if value or name not in ("failed_rollouts", "kl")}
        parts = [text.format(float(shown[name])) for name, text in FIGURES.items()
                 if name in shown and name not in self.left_out]  # fmt: skip
        if "eval_loss" in logs:
            return f"validation at step {self.step}: {', '.join(parts)}"
        (step, began), self._logged = self._logged, (self.step, time.time())
        if self.step > step:
            pace = (time.time() - began) / (self.step - step)
            left = pace * (self.max_steps - self.step)
            parts += [f"{pace:.1f} s a step", f"{left / 60:.0f} min left" if left >= 90 else f"{left:.0f} s left"]
        return f"step {self.step} of {self.max_steps}: {', '.join([*self.first, *parts])}"
