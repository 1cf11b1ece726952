"""Trainer callbacks: what a run on rollouts prints, and validation on held-out questions."""

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tqdm import tqdm
from transformers import Trainer, TrainerCallback, TrainerState

from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.training.rollouts.sampling import open_engine
from truthgym.training.rollouts.trl_adapter import weighted_sum
from truthgym.training.trainers.step_lines import StepLines
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


class RolloutLines(StepLines):
    """A line for each step, a sign of life in long ones, and the end of a run whose answers cannot be parsed."""

    left_out = ("reward", "loss")

    def __init__(
        self,
        rewards: "Sequence[Reward]",
        weights: Sequence[float] | None,
        *,
        interval: float,
        min_share_read: float = 0.0,
        rollouts_per_step: int = 0,
    ) -> None:
        super().__init__()
        self.rewards = rewards
        self.weights = weights or [1.0] * len(rewards)
        self.interval = interval
        self.min_share_read = min_share_read
        self.rollouts_per_step = rollouts_per_step
        self._ended = 0
        self._spoke = time.monotonic()
        self._warned = False

    def sample_ended(self) -> None:
        """Count a finished rollout, and say so if the last line was long ago."""
        self._ended += 1
        if time.monotonic() - self._spoke >= self.interval:
            self.say(f"step {self.step + 1} of {self.max_steps}: {self._ended} of {self.rollouts_per_step} rollouts")

    def step_rewarded(self, rollouts: "Sequence[Rollout]", rewards: "Sequence[Rewards]") -> None:
        """Keep the reward of a step's rollouts."""
        totals = [weighted_sum(values, self.weights) for values in zip(*rewards, strict=True)]
        found = [(total, rollout.sample) for total, rollout in zip(totals, rollouts, strict=True) if total is not None]
        mean = mean_estimate([total for total, _ in found], [sample for _, sample in found])
        constant = weighted_sum([reward.baseline(rollouts) for reward in self.rewards], self.weights)
        interval = "" if math.isnan(mean.lower) else f" [{mean.lower:.3f}, {mean.upper:.3f}]"
        best = "" if constant is None else f" (best constant {constant:.4f})"
        self.first = [f"reward {mean.estimate:.4f}{interval}{best}" if found else "no reward"]
        self._ended = 0
        self._check_share_read(self.rewards[0].read(rollouts), rollouts[0].answer)

    def _check_share_read(self, share: float, answer: str) -> None:
        if share < self.min_share_read:
            raise BadInput(
                f"Only {share:.0%} of the answers of step {self.step + 1} could be parsed, and --min_share_read is "
                f"{self.min_share_read:.0%}. One of them: {answer[:200]!r}. Train the model on the answer format "
                "first, for instance with `truthgym train sft`"
            )
        if share < LOW_PARSE_RATE and self.step < WARNING_STEPS and not self._warned:
            self._warned = True
            log_main(
                f"WARNING: only {share:.0%} of the answers can be parsed, so the model will learn their format first. "
                f"One of them: {answer[:200]!r}. Train the format first (`truthgym train sft`), or stop such runs with "
                "--min_share_read"
            )

    def say(self, line: str) -> None:
        super().say(line)
        self._spoke = time.monotonic()

    def on_train_begin(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        super().on_train_begin(args, state, control)
        self._spoke = time.monotonic() if state.is_world_process_zero else math.inf


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
        read = self.rewards[0].read(rollouts)
        figures, parts = ({}, []) if math.isnan(read) else ({"eval_share_read": read}, [f"read {read:.1%}"])
        for reward in self.rewards:
            values = [value for value in reward(rollouts) if value is not None]
            mean = figures[f"eval_rewards/{reward.name}"] = sum(values) / len(values) if values else math.nan
            constant = reward.baseline(rollouts)
            if constant is not None:
                figures[f"eval_rewards/{reward.name}/best_constant"] = constant
            best = "" if constant is None else f" (best constant {constant:.4f})"
            parts.append(f"{reward.name} {mean:.4f}{best}")
        tqdm.write(f"validation at step {state.global_step}: {', '.join(parts)}, {len(self.keys)} questions")
        should_log = self.trainer.control.should_log
        Trainer.log(self.trainer, figures)  # TRL's own `log` would mix in the training figures of these steps
        self.trainer.control.should_log = should_log  # those are still to be logged


def _interleaved(questions: "Sequence[Questions]", max_samples: int) -> "list[Key]":
    """The first samples of each task in turn."""
    by_task = [[(task, name) for name in task_questions.samples] for task, task_questions in enumerate(questions)]
    longest = max((len(keys) for keys in by_task), default=0)
    return [keys[i] for i in range(longest) for keys in by_task if i < len(keys)][:max_samples]
