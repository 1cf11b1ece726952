"""Heartbeat: a line now and then that says how training goes, also while rollouts are under way."""

import json
import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from truthgym.evallog.errors import bad_input
from truthgym.training.trainers.run import log_main

if TYPE_CHECKING:
    from truthgym.training.reward_functions.formulas import Rewards
    from truthgym.training.reward_functions.rollout import Reward, Rollout

FEW = 0.5
"""Below this share of answers that can be read the run says so."""
COUNTS = "groups.json"
"""In a checkpoint: how many groups so far had no gradient, and how many there were."""
EARLY = 5
"""Steps in which it looks for that."""


class Heartbeat(TrainerCallback):  # type: ignore[misc]
    """Tells every so many seconds where the run is and how it goes."""

    def __init__(
        self, rewards: "Sequence[Reward]", weights: Sequence[float] | None, seconds: float, least: float
    ) -> None:
        """Begin.

        Args:
            rewards: The rewards.
            weights: Their weights; None is 1 each.
            seconds: Between two lines.
            least: Share of a step's answers that must be readable. Fewer stop the run.
        """
        self.rewards = rewards
        self.weights = weights or [1.0] * len(rewards)
        self.seconds = seconds
        self.least = least
        self.expected = 0
        """Rollouts of a step, in this process."""
        self.zero_gradient = 0
        """Groups so far all of whose rollouts had the same reward."""
        self.groups = 0
        self._done = 0
        self._last: dict[str, float] = {}
        self._step, self._steps, self._began, self._from = 0, 0, 0.0, 0
        self._warned = False
        self._stop = threading.Event()

    def ended(self) -> None:
        """A rollout has ended."""
        self._done += 1

    def seen(self, rollouts: "Sequence[Rollout]", paid: "Sequence[Rewards]") -> None:
        """Count what a step's rollouts brought.

        Args:
            rollouts: Those of all processes.
            paid: By reward, what each of them was paid.

        Raises:
            BadInput: Fewer of their answers can be read than the run was told to bear.
        """
        sums = [_weighed([one[at] for one in paid], self.weights) for at in range(len(rollouts))]
        groups: dict[tuple[str, str], list[float]] = {}
        for rollout, total in zip(rollouts, sums, strict=True):
            groups.setdefault((rollout.task, rollout.sample_id), []).append(total)
        kept = [[total for total in group if not math.isnan(total)] for group in groups.values()]
        self.groups += len(kept)
        self.zero_gradient += sum(len(set(group)) < 2 for group in kept)
        known = [total for group in kept for total in group]
        constants = [reward.baseline(rollouts) for reward in self.rewards]
        self._last = {
            "reward": sum(known) / len(known) if known else math.nan,
            "constant": _weighed(constants, self.weights),
            "read": self.rewards[0].read(rollouts),
            "tokens": sum(rollout.tokens for rollout in rollouts) / len(rollouts),
            "failed": sum(rollout.error is not None for rollout in rollouts),
        }
        self._done = 0
        self._check(self._last["read"], rollouts[0].answer)

    def _check(self, read: float, answer: str) -> None:
        if read < self.least:
            raise bad_input(
                f"Only {read:.0%} of the answers of step {self._step} could be read, and --min_share_read is "
                f"{self.least:.0%}. One of them: {answer[:200]!r}. Train the model on the form of the answer first, "
                "for instance with `truthgym train sft`"
            )
        if read < FEW and self._step <= EARLY and not self._warned:
            self._warned = True
            log_main(
                f"WARNING: only {read:.0%} of the answers can be read, so what is learned first is their form. One of "
                f"them: {answer[:200]!r}. Train the form first (`truthgym train sft`), or stop by yourself with "
                "--min_share_read"
            )

    def line(self) -> str:
        """How it goes, in one line."""
        told = [f"step {self._step} of {self._steps}"]
        if self.expected:
            told.append(f"{min(self._done, self.expected)} of {self.expected} rollouts of the next")
        if self._last:
            constant = self._last["constant"]
            beside = "" if math.isnan(constant) else f" (best constant {constant:.4f})"
            told += [
                f"reward {self._last['reward']:.4f}{beside}",
                f"read {self._last['read']:.1%}",
                f"{self._last['tokens']:.1f} tokens",
                f"{self.zero_gradient} of {self.groups} groups without gradient",
            ]
            if self._last["failed"]:
                told.append(f"{self._last['failed']:.0f} rollouts failed")
        if "entropy" in self._last:
            told.append(f"entropy {self._last['entropy']:.3f}")
        done = self._step - self._from
        if done > 0:
            pace = (time.monotonic() - self._began) / done
            told.append(f"{pace:.1f} s a step, {pace * (self._steps - self._step) / 60:.0f} min to go")
        return "; ".join(told)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Start to tell."""
        self._step = self._from = state.global_step
        self._steps, self._began = state.max_steps, time.monotonic()
        if state.is_world_process_zero:
            threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Note the step."""
        self._step = state.global_step

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: object) -> None:
        """Note what TRL measured, and tell."""
        logs = cast(dict[str, float], given.get("logs") or {})
        if "entropy" in logs:
            self._last["entropy"] = float(logs["entropy"])
        if "loss" in logs:
            log_main(self.line())

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Keep the counts beside the checkpoint."""
        if state.is_world_process_zero:
            checkpoint = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
            (checkpoint / COUNTS).write_text(json.dumps([self.zero_gradient, self.groups]), encoding="utf-8")

    def go_on(self, checkpoint: Path) -> None:
        """Count on from a checkpoint."""
        if (checkpoint / COUNTS).is_file():
            self.zero_gradient, self.groups = json.loads((checkpoint / COUNTS).read_text(encoding="utf-8"))

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Fall silent."""
        self.stop()

    def stop(self) -> None:
        """Fall silent."""
        self._stop.set()

    def _beat(self) -> None:
        while not self._stop.wait(self.seconds):
            log_main(self.line())


def _weighed(values: Sequence[float | None], weights: Sequence[float]) -> float:
    """The weighed sum of the rewards that there are; NaN of none."""
    known = [value * weight for value, weight in zip(values, weights, strict=True) if value is not None]
    return sum(known) if known else math.nan
