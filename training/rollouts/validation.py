"""Validation: now and then the model in training is evaluated on questions that it is not trained on."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from truthgym.training.reward_functions.rollout import Reward
from truthgym.training.rollouts.questions import Questions
from truthgym.training.rollouts.rollouts import Key, Rollouts
from truthgym.training.rollouts.trl_adapter import generating


class Validation(TrainerCallback):  # type: ignore[misc]
    """Evaluates the model before the first step, and after every so many."""

    def __init__(self, rollouts: Rollouts, folder: Path, rewards: Sequence[Reward], every: float, samples: int) -> None:
        """Begin.

        Args:
            rollouts: As the training's, with the questions of the validation split.
            folder: Where the logs go.
            rewards: What is reported.
            every: Steps between two evaluations; below 1, a share of all steps.
            samples: Questions, at most.
        """
        self.rollouts = replace(rollouts, folder=folder, ended=lambda: None)
        self.rewards = rewards
        self.every = every
        self.keys = list(_first(rollouts.questions, samples))
        self.trainer: Trainer | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Evaluate the model as it comes."""
        if state.global_step == 0:
            self._evaluate(state)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        """Evaluate it where its turn has come."""
        every = max(1, math.ceil(self.every * state.max_steps) if self.every < 1 else int(self.every))
        if state.global_step % every == 0 or state.global_step == state.max_steps:
            self._evaluate(state)

    def _evaluate(self, state: TrainerState) -> None:
        trainer = self.trainer
        if trainer is None:
            return
        with generating(trainer) as engine:  # in every process: where weights are shared out, all must bring theirs
            if not state.is_world_process_zero:
                return
            made = self.rollouts.run(self.keys, engine, state.global_step)
        rollouts = [one.rollout for one in made]
        told: dict[str, float] = {"eval_share_read": self.rewards[0].read(rollouts)}
        for reward in self.rewards:
            known = [value for value in reward(rollouts) if value is not None]
            told[f"eval_rewards/{reward.name}"] = sum(known) / len(known) if known else math.nan
            constant = reward.baseline(rollouts)
            if constant is not None:
                told[f"eval_rewards/{reward.name}/best_constant"] = constant
        print(f"validation at step {state.global_step}: {_line(told)} ({len(self.keys)} questions)", flush=True)
        due = trainer.control.should_log
        Trainer.log(trainer, told)  # TRL's own would put the training's figures of these steps among them
        trainer.control.should_log = due  # those are still to be told


def _line(told: Mapping[str, float]) -> str:
    return ", ".join(f"{name.removeprefix('eval_')} {value:.4f}" for name, value in told.items())


def _first(questions: Sequence[Questions], samples: int) -> list[Key]:
    """The first samples of each task in turn."""
    held = [[(at, name) for name in one.samples] for at, one in enumerate(questions)]
    longest = max((len(keys) for keys in held), default=0)
    return [keys[i] for i in range(longest) for keys in held if i < len(keys)][:samples]
