"""Training on this machine: supervised, on preferences, a reward model, or by reinforcement; and examples from logs.

truthgym train sft --model_name_or_path trained/tiny --dataset_name data/top
truthgym train dpo --model_name_or_path trained/tiny --dataset_name data/pairs
truthgym train grpo --model_name_or_path trained/tiny --task truthgym/urns --task_args '{n: 2000, paradigms: brier}'
truthgym train few_shot --model_name_or_path openai/gpt-5.4-mini --log logs/urns

The options are as on the command line, or by name: `{"model_name_or_path": ..., "dataset_name": ...}`. They are those
of TRL's configuration of the method (SFTConfig, DPOConfig, ...), of its ModelConfig, and of `trainers.options.Options`
or, for reinforcement, `RolloutOptions`.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from truthgym.models.reward_models.encoding import note_for_scoring
from truthgym.training.conversion.options import ConversionConfig, Selection
from truthgym.training.convert import convert
from truthgym.training.files import card_metadata, hash_dataset
from truthgym.training.trainers.dataset import empty_thoughts
from truthgym.training.trainers.model_card import ModelCard, is_finished, model_name, write_card
from truthgym.training.trainers.options import RawOptions
from truthgym.training.trainers.reward_trainers import process_reward, rubric_regression
from truthgym.training.trainers.training_run import Run, log_main, prepare

WHOLE_CONVERSATIONS = "The loss covers whole conversations, including the user's messages."
EMPTY_THOUGHTS = (
    "The chat template writes an empty thought before each reply without one, and the loss covers it: the model learns "
    "not to think. `truthgym convert --form prompt-completion` leaves it out of the loss, as does the column "
    'chat_template_kwargs with {"enable_thinking": false} in other rows of prompt and completion.'
)
REFERENCE_PAIRS = 256
"""Training pairs whose mean reward is the zero of the scorer: from pairs a model learns differences only."""


def sft(options: RawOptions) -> Path:
    """Train on prompts and completions, with the loss on completions only, or on messages, with the loss on all.

    Args:
        options: Options as on the command line, or by name.

    Returns:
        The trained model's folder.

    Raises:
        BadInput: Options, a model or data that cannot be used.
    """
    with prepare("sft", options) as run:
        if run.finished:
            return run.folder
        from trl import SFTTrainer

        trainer = run.trainer(SFTTrainer)
        notes = []
        whole = "messages" in run.data.train.column_names
        if whole and not run.arguments.training.assistant_only_loss:
            notes = [WHOLE_CONVERSATIONS]
            log_main(f"{WHOLE_CONVERSATIONS} --assistant_only_loss trains on the replies only.")
        notes += _empty_thoughts(run)
        return run.train(trainer, lambda: notes)


def _empty_thoughts(run: Run) -> list[str]:
    """A note for the card, also printed, if the model learns from this data not to think."""
    if not run.data.conversational or not empty_thoughts(run.data, run.tokenizer):
        return []
    log_main(f"WARNING: {EMPTY_THOUGHTS}")
    return [EMPTY_THOUGHTS]


def _on_replies(method: str, options: RawOptions) -> Path:
    """Train with TRL's trainer of a method that learns from replies alone."""
    with prepare(method, options) as run:
        if run.finished:
            return run.folder
        import trl

        notes = _empty_thoughts(run)
        return run.train(run.trainer(getattr(trl, f"{method.upper()}Trainer")), lambda: notes)


def dpo(options: RawOptions) -> Path:
    """Train on preference pairs by direct preference optimisation, with the base model as the reference.

    The DPO loss alone can lower the probability of both completions, and with it that of any well-formed answer. So a
    supervised term on the chosen completion is added: `loss_type` [sigmoid, sft] with weights [1, 0.5]. On a tiny
    model, pair accuracy was 0.98 without the term and 0 % of the answers could be parsed; with it, 0.96 and 88 to 98 %.
    Takes, returns and raises what `sft` does.
    """
    return _on_replies("dpo", options)


def kto(options: RawOptions) -> Path:
    """Train by Kahneman-Tversky optimisation, on completions labelled good or bad that need not come in pairs.

    If one label is much rarer, weight it with `desirable_weight` or `undesirable_weight`: the KTO paper
    (arXiv:2402.01306) keeps the ratio of weight times count, desirable to undesirable, between 1 and 4/3. Takes,
    returns and raises what `sft` does; data with one label only are refused.
    """
    return _on_replies("kto", options)


def reward(options: RawOptions) -> Path:
    r"""Train a reward model on preference pairs; on rows of labelled steps, a process reward model.

    On rows with `scores` it is a regression on each criterion. The loss on pairs is
    $-\log \sigma(r_{chosen} - r_{rejected})$ (Bradley and Terry), with a small term that keeps the mean reward near 0.

        truthgym train reward ... --members 3
        inspect score LOG --scorer truthgym/reward_model -S folder=FOLDER,FOLDER,FOLDER -S penalty=0.5

    Takes and raises what `sft` does. The folder that it returns holds a sequence classifier with one output, the
    reward, or one for each criterion; for steps, a token classifier.
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
        return run.train(trainer, lambda: _reward_notes(run, trainer))


def _reward_notes(run: Run, trainer: Any) -> list[str]:  # noqa: ANN401
    """Write into the model's configuration what an average reply scores, and say on the card how well it does."""
    rows = run.data.train.select(range(min(REFERENCE_PAIRS, len(run.data.train))))
    history = list(trainer.state.log_history)
    mean = trainer.evaluate(rows, metric_key_prefix="fit")["eval_mean_reward"]
    trainer.state.log_history = history  # TRL would record the accuracy on these rows as one of a validation
    note_for_scoring(
        trainer.accelerator.unwrap_model(trainer.model).config,
        run.tokenizer,
        mean=mean,
        conversational=run.data.conversational,
        chat_template_kwargs=run.data.train[0].get("chat_template_kwargs") or {},
    )
    notes = [f"The mean reward of {2 * len(rows)} training replies is {mean:.3f}; scores are relative to it."]
    if run.data.validation is None:
        return notes
    metrics = trainer.evaluate()
    return [*notes, f"Pairs of the validation split in the right order: {metrics['eval_accuracy']:.3f}."]


def grpo(options: RawOptions) -> Path:
    """Train by group relative policy optimisation on rollouts of any Inspect task.

    Of each question there are several rollouts, each paid against the mean of them. Rewards are not scaled
    (`scale_rewards` none): divided by their spread within a question's group, as TRL does by itself, a proper score
    would pay for saying 0 or 1 (Bereket and Leskovec 2025, arXiv:2508.11800).

    Args:
        options: As of `sft`, with `task` in place of a dataset.

    Returns:
        The trained model's folder. Each step's rollouts are an Inspect log in its `rollouts/`.

    Raises:
        BadInput: Options, a model, a task or a reward that cannot be used; the test split.
    """
    from truthgym.training.rollouts.trainer import train_on_rollouts

    return train_on_rollouts("grpo", options)


def rloo(options: RawOptions) -> Path:
    """Train by REINFORCE on rollouts of any Inspect task, each paid against the mean of the others of its question.

    The reward is that of the whole reply (Ahmadian et al. 2024, arXiv:2402.14740). Where a solver lets the model speak
    more than once, each rollout trains one of its replies, drawn at random, after all that came before it. Takes,
    returns and raises what `grpo` does.
    """
    from truthgym.training.rollouts.trainer import train_on_rollouts

    return train_on_rollouts("rloo", options)


TRAINERS: dict[str, Callable[[RawOptions], Path]] = {
    trainer.__name__: trainer for trainer in (sft, dpo, kto, reward, grpo, rloo)
}


def few_shot(
    model: str,
    logs: Sequence[str | Path],
    selection: Selection | None = None,
    output_dir: str | Path = "trained",
    overwrite: bool = False,
    any_task: bool = False,
) -> Path:
    """Take the best trajectories of logs as examples for the solver `truthgym/few_shot`: no weights are trained.

    Args:
        model: Inspect's name of the model.
        logs: Logs and folders of logs to take the examples from.
        selection: Which trajectories to take. None is the top tenth by the Brier score, at most 100. The best come
            first. `few_shot` shows as many as fit, but none of the event of the question or of a later day.
        output_dir: The parent of the folder `{model}-few_shot-{hash}`.
        overwrite: Whether to replace a finished folder.
        any_task: Whether the logs may be of other projects' tasks, as in `truthgym convert --any-task`.

    Returns:
        The folder. Its card contains the command that evaluates it.

    Raises:
        BadInput: Logs or a selection that cannot be used.
    """
    parent = Path(output_dir)
    partial = parent / f".{Path(model).name}-few_shot"
    convert(logs, ConversionConfig("few_shot", any_task=any_task), partial, selection, overwrite=True)
    try:
        data = hash_dataset(partial)
        folder = parent / model_name("few_shot", model, model, data, {})
        if is_finished(folder) and not overwrite:
            return folder
        shutil.rmtree(folder / "data", ignore_errors=True)
        folder.mkdir(exist_ok=True)
        partial.rename(folder / "data")
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    card = ModelCard("few_shot", model, model, "", str(folder / "data"), data)
    card.dataset_facts = card_metadata(folder / "data")
    # share=1.0, because the examples are already selected. `best` makes the solver show the best first.
    best = (card.dataset_facts.get("selection") or {}).get("best") or "lowest"
    solver = f"--solver truthgym/few_shot -S source={folder / 'data' / 'train.jsonl'} -S share=1.0 -S best={best}"
    line = f"Evaluate it with `inspect eval truthgym/urns --model {model} {solver}`, or another task."
    card.notes = ["The weights are those of the base model.", line]
    write_card(folder, card)
    return folder
