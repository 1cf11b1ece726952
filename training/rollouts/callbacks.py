"""Trainer callbacks: a progress line now and then, also during rollouts, and validation on held-out questions."""

import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from truthgym.datasets.errors import BadInput
from truthgym.training.rollouts.sampling import open_engine
from truthgym.training.rollouts.trl_adapter import weighted_sum
from truthgym.training.trainers.training_run import log_main

if TYPE_CHECKING:
    from truthgym.training.reward_functions.formulas import Rewards
    from truthgym.training.reward_functions.rollout import Reward, Rollout
    from truthgym.training.rollouts.questions import Questions
    from truthgym.training.rollouts.runner import Key, Rollouts

LOW_PARSE_RATE = 0.5
"""Below this share of answers that can be parsed the run prints a warning."""
WARNING_STEPS = 5
"""The warning is given in this many first steps only."""
COUNTS = "groups.json"
"""In a checkpoint: the number of groups without gradient so far, and of all groups."""


class ProgressCallback(TrainerCallback):  # type: ignore[misc]
    """Prints a progress line at regular intervals, and stops a run whose answers cannot be parsed."""

    def __init__(
        self,
        rewards: "Sequence[Reward]",
        weights: Sequence[float] | None,
        *,
        interval: float,
        min_share_read: float = 0.0,
        rollouts_per_step: int = 0,
        checkpoint: Path | None = None,
    ) -> None:
        self.rewards = rewards
        self.weights = weights or [1.0] * len(rewards)
        self.interval = interval
        self.min_share_read = min_share_read
        self.rollouts_per_step = rollouts_per_step
        self.zero_gradient, self.groups = 0, 0
        """Groups so far whose rollouts all had the same reward, and all groups."""
        if checkpoint and (checkpoint / COUNTS).is_file():
            self.zero_gradient, self.groups = json.loads((checkpoint / COUNTS).read_text(encoding="utf-8"))
        self._ended = 0
        self._figures: dict[str, float] = {}
        self._step, self._max_steps, self._start_time, self._start_step = 0, 0, 0.0, 0
        self._warned = False
        self._stop = threading.Event()

    def sample_ended(self) -> None:
        """Count a finished rollout."""
        self._ended += 1

    def step_rewarded(self, rollouts: "Sequence[Rollout]", rewards: "Sequence[Rewards]") -> None:
        """Update the figures from the rollouts of a step."""
        totals = [weighted_sum(values, self.weights) for values in zip(*rewards, strict=True)]
        groups: dict[tuple[str, str], set[float]] = {rollout.sample: set() for rollout in rollouts}
        for rollout, total in zip(rollouts, totals, strict=True):
            groups[rollout.sample] |= set() if total is None else {total}
        self.groups += len(groups)
        self.zero_gradient += sum(len(group) < 2 for group in groups.values())
        constant = weighted_sum([reward.baseline(rollouts) for reward in self.rewards], self.weights)
        self._figures = {
            "reward": _mean(totals),
            "constant": math.nan if constant is None else constant,
            "read": self.rewards[0].read(rollouts),
            "tokens": sum(rollout.tokens for rollout in rollouts) / len(rollouts),
            "failed": sum(rollout.error is not None for rollout in rollouts),
        }
        self._ended = 0
        self._check_share_read(self._figures["read"], rollouts[0].answer)

    def _check_share_read(self, share: float, answer: str) -> None:
        if share < self.min_share_read:
            raise BadInput(
                f"Only {share:.0%} of the answers of step {self._step} could be parsed, and --min_share_read is "
                f"{self.min_share_read:.0%}. One of them: {answer[:200]!r}. Train the model on the answer format "
                "first, for instance with `truthgym train sft`"
            )
        if share < LOW_PARSE_RATE and self._step <= WARNING_STEPS and not self._warned:
            self._warned = True
            log_main(
                f"WARNING: only {share:.0%} of the answers can be parsed, so the model will learn their format first. "
                f"One of them: {answer[:200]!r}. Train the format first (`truthgym train sft`), or stop such runs with "
                "--min_share_read"
            )

    def line(self) -> str:
        """The progress line."""
        parts = [f"step {self._step} of {self._max_steps}"]
        if self.rollouts_per_step:
            ended = min(self._ended, self.rollouts_per_step)
            parts.append(f"{ended} of {self.rollouts_per_step} rollouts of the next")
        if "reward" in (figures := self._figures):
            constant = "" if math.isnan(figures["constant"]) else f" (best constant {figures['constant']:.4f})"
            parts += [
                f"reward {figures['reward']:.4f}{constant}",
                f"read {figures['read']:.1%}",
                f"{figures['tokens']:.1f} tokens",
                f"{self.zero_gradient} of {self.groups} groups without gradient",
            ]
            if figures["failed"]:
                parts.append(f"{figures['failed']:.0f} rollouts failed")
        if "entropy" in figures:
            parts.append(f"entropy {figures['entropy']:.3f}")
        steps = self._step - self._start_step
        if steps > 0:
            pace = (time.monotonic() - self._start_time) / steps
            parts.append(f"{pace:.1f} s a step, {pace * (self._max_steps - self._step) / 60:.0f} min to go")
        return "; ".join(parts)

    def on_train_begin(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        self._step = self._start_step = state.global_step
        self._max_steps, self._start_time = state.max_steps, time.monotonic()
        if state.is_world_process_zero:
            threading.Thread(target=self._print_lines, name="progress", daemon=True).start()

    def on_step_end(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        self._step = state.global_step

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **fields: object) -> None:
        logs = cast(dict[str, float], fields.get("logs") or {})
        if "entropy" in logs:
            self._figures["entropy"] = float(logs["entropy"])
        if "loss" in logs:
            log_main(self.line())

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        if state.is_world_process_zero:
            checkpoint = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
            (checkpoint / COUNTS).write_text(json.dumps([self.zero_gradient, self.groups]), encoding="utf-8")

    def on_train_end(self, *_: object, **__: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the thread that prints."""
        self._stop.set()

    def _print_lines(self) -> None:
        while not self._stop.wait(self.interval):
            log_main(self.line())


class ValidationCallback(TrainerCallback):  # type: ignore[misc]
    """Evaluates the model on questions that are not trained on: before the first step, at intervals, and at the end."""

    def __init__(
        self, trainer: Trainer, rollouts: "Rollouts", rewards: "Sequence[Reward]", *, steps: float, max_samples: int
    ) -> None:
        self.trainer = trainer
        self.rollouts = rollouts
        self.rewards = rewards
        self.steps = steps
        self.keys = _interleaved(rollouts.questions, max_samples)

    def on_train_begin(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        if state.global_step == 0:
            self._evaluate(state)

    def on_step_end(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        steps = max(1, math.ceil(self.steps * state.max_steps) if self.steps < 1 else int(self.steps))
        if state.global_step % steps == 0 or state.global_step == state.max_steps:
            self._evaluate(state)

    def _evaluate(self, state: TrainerState) -> None:
        """Each process asks its share of the questions: waiting for one of them would exceed NCCL's timeout."""
        from accelerate.utils import gather_object  # type: ignore[import-untyped]

        accelerator = self.trainer.accelerator
        place, processes = accelerator.process_index, accelerator.num_processes
        with open_engine(self.trainer) as engine:
            rank = (place,) if processes > 1 else ()
            samples = self.rollouts.run(self.keys[place::processes], engine, state.global_step, rank)
        rollouts = gather_object([sample.rollout for sample in samples])
        if not state.is_world_process_zero:
            return
        figures: dict[str, float] = {"eval_share_read": self.rewards[0].read(rollouts)}
        for reward in self.rewards:
            figures[f"eval_rewards/{reward.name}"] = _mean(reward(rollouts))
            constant = reward.baseline(rollouts)
            if constant is not None:
                figures[f"eval_rewards/{reward.name}/best_constant"] = constant
        print(f"validation at step {state.global_step}: {_line(figures)} ({len(self.keys)} questions)", flush=True)
        should_log = self.trainer.control.should_log
        Trainer.log(self.trainer, figures)  # TRL's own `log` would mix in the training figures of these steps
        self.trainer.control.should_log = should_log  # those are still to be logged


def _mean(values: Sequence[float | None]) -> float:
    """Mean of the values that are not None; NaN if all are None."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else math.nan


def _line(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name.removeprefix('eval_')} {value:.4f}" for name, value in figures.items())


def _interleaved(questions: "Sequence[Questions]", max_samples: int) -> "list[Key]":
    """The first samples of each task in turn."""
    by_task = [[(task, name) for name in task_questions.samples] for task, task_questions in enumerate(questions)]
    longest = max((len(keys) for keys in by_task), default=0)
    return [keys[i] for i in range(longest) for keys in by_task if i < len(keys)][:max_samples]
