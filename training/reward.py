"""Reward modelling: a model learns to score the chosen completion above the rejected one.

truthgym train reward --model_name_or_path trained/tiny --dataset_name data/pairs
for seed in 1 2 3; do truthgym train reward ... --bootstrap --seed $seed; done
inspect score LOG --scorer truthgym/reward_model -S 'folder=trained/tiny-reward-*' -S penalty=0.5
"""

from pathlib import Path
from typing import Any

from truthgym.models.reward_models.encoding import note_for_scoring
from truthgym.training.trainers.options import RawOptions
from truthgym.training.trainers.process_reward import process_reward
from truthgym.training.trainers.rubric_regression import rubric_regression
from truthgym.training.trainers.training_run import Run, prepare

REFERENCE_PAIRS = 256
"""Training pairs whose mean reward is the zero of the scorer: from pairs a model learns differences only."""


def reward(options: RawOptions) -> Path:
    r"""Train a reward model on preference pairs; on rows of labelled steps, a process reward model.

    On rows with `scores` it is a regression on each criterion.

    The loss on pairs is $-\log \sigma(r_{chosen} - r_{rejected})$ (Bradley and Terry), with a small term that keeps the
    mean reward near 0.

    Args:
        options: Options as on the command line, or by name: `{"model_name_or_path": ..., "dataset_name": ...}`. They
            are those of TRL's RewardConfig and ModelConfig, and of `base_options.Options`.

    Returns:
        The trained model's folder: a sequence classifier with one output, the reward; for steps, a token classifier.

    Raises:
        BadInput: Options, a model or data that cannot be used.
    """
    with prepare("reward", options) as run:
        if run.finished:
            return run.folder
        if run.data.steps:
            return process_reward(run)
        if run.data.criteria:
            return rubric_regression(run)
        from trl import RewardTrainer

        trainer: Any = run.trainer(RewardTrainer)
        return run.train(trainer, lambda: _note(run, trainer))


def _note(run: Run, trainer: Any) -> list[str]:  # noqa: ANN401
    """Write into the model's configuration what an average reply scores, and say on the card how well it does."""
    rows = run.data.train.select(range(min(REFERENCE_PAIRS, len(run.data.train))))
    history = list(trainer.state.log_history)
    mean = trainer.evaluate(rows, metric_key_prefix="fit")["eval_mean_reward"]
    trainer.state.log_history = history  # TRL would record the accuracy on these rows as one of a validation
    arguments = run.data.train[0].get("chat_template_kwargs") or {}
    note_for_scoring(
        trainer.accelerator.unwrap_model(trainer.model).config,
        run.tokenizer,
        mean=mean,
        conversational=run.data.conversational,
        chat_template_kwargs=arguments,
    )
    notes = [f"The mean reward of {2 * len(rows)} training replies is {mean:.3f}; scores are relative to it."]
    if run.data.validation is None:
        return notes
    metrics = trainer.evaluate()
    return [*notes, f"Pairs of the validation split in the right order: {metrics['eval_accuracy']:.3f}."]
