"""Rubric regression: a model learns the scores that a rubric gave each reply, one output for each criterion.

truthgym convert LOG --to sft --all --out data/rated
truthgym train reward --model_name_or_path MODEL --dataset_name data/rated --criteria rubric/honesty rubric/evidence
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truthgym.models.reward_models.encoding import note_for_scoring
from truthgym.training.trainers.process_reward import make_trainer

if TYPE_CHECKING:
    from transformers import EvalPrediction

    from truthgym.training.trainers.training_run import Run


def rubric_regression(run: "Run") -> Path:
    """Train a sequence classifier with one output for each criterion, by mean squared error.

    Unlike a model of preferences it keeps the criteria apart, and its numbers have the scale of the rubric. The card
    reports for each criterion the share of variance explained, on the validation split or, without one, on the training
    rows. It says which. 0 is no better than always predicting the mean. Rows without a number for a criterion, such as
    replies that the judge could not read, are left out and counted: the model never learns that they are bad.
    """
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding, set_seed

    tokenizer, training, criteria = run.tokenizer, run.arguments.training, run.data.criteria
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    set_seed(training.seed)  # the head is initialised at random
    model = AutoModelForSequenceClassification.from_pretrained(
        run.base,
        num_labels=len(criteria),
        problem_type="regression",
        quantization_config=run.quantization,
        **run.model_kwargs,
    )
    model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    arguments = run.data.train[0].get("chat_template_kwargs") or {}
    note_for_scoring(model.config, tokenizer, criteria=list(criteria), conversational=run.data.conversational,
                     chat_template_kwargs=arguments)  # fmt: skip
    if run.lora:
        from peft import get_peft_model

        model = get_peft_model(model, run.lora)

    def encode(row: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(row["prompt"], str):
            ids = tokenizer(row["prompt"] + row["completion"] + (tokenizer.eos_token or ""))["input_ids"]
        else:
            messages = [*row["prompt"], *row["completion"]]
            ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, **arguments)
        ids = list(ids)[-(training.max_length or len(ids)) :]  # left out at the beginning, as by the scorer
        return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": [row["scores"][one] for one in criteria]}

    def compute_metrics(predicted: "EvalPrediction") -> dict[str, float]:
        found = explained(np.asarray(predicted.predictions), np.asarray(predicted.label_ids))
        return {f"explained_{name}": value for name, value in zip(criteria, found, strict=True)}

    trainer, rows = make_trainer(run, model, encode, DataCollatorWithPadding(tokenizer), compute_metrics)

    def notes() -> list[str]:
        split = "validation" if "validation" in rows else "train"
        history = list(trainer.state.log_history)
        metrics = trainer.evaluate(rows[split], metric_key_prefix="fit")
        trainer.state.log_history = history
        found = ", ".join(f"{name} {metrics[f'fit_explained_{name}']:.3f}" for name in criteria)
        where = "the validation split" if split == "validation" else "the training rows"
        missing = f" {run.data.unrated} rows without a number for a criterion were left out." * bool(run.data.unrated)
        return [f"Share of variance explained on {where} (0 is the mean of all replies): {found}.{missing}"]

    return run.train(trainer, notes)


def explained(predicted: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each criterion 1 - squared error / variance: 1 is perfect, 0 the mean, below 0 worse; NaN if it never varies.

    >>> explained(np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]]))
    array([0.5])
    """
    error = ((predicted - truth) ** 2).mean(axis=0)
    variance = truth.var(axis=0)
    return np.where(variance > 0, 1 - error / np.where(variance > 0, variance, 1), np.nan)
