"""Process reward modelling: a model learns which reasoning steps are right, from a label at the end of each.

TRL has had no trainer for it since 1.14. It is token classification: a token of its own ends every step, its label is
the step's, and no other token has one.

truthgym train reward --model_name_or_path trained/tiny --dataset_name data/steps
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from transformers import EvalPrediction, PreTrainedTokenizerBase

    from truthgym.training.trainers.run import Run

STEP = "<|step|>"
"""Ends a step. No text holds it, so a step cannot end where its author did not end it."""
UNLABELLED = -100
"""What torch's cross entropy leaves out."""


def process_reward(run: "Run") -> Path:
    """Train a token classifier whose label 1 at a `<|step|>` is a right step.

    Step accuracy, the recall of wrong steps and the accuracy of always saying the commoner label are measured on the
    validation split, or without one on the rows trained on, and the card tells which.

    Returns:
        The trained model's folder.
    """
    from datasets import Features, Value
    from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification, Trainer, set_seed

    tokenizer, training = run.tokenizer, run.arguments.training
    tokenizer.add_special_tokens({"additional_special_tokens": [STEP]})
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    set_seed(training.seed)  # the head and the embedding of <|step|> begin at random
    model = AutoModelForTokenClassification.from_pretrained(
        run.base,
        num_labels=2,
        id2label={0: "wrong", 1: "right"},
        label2id={"wrong": 0, "right": 1},
        quantization_config=run.quantization,
        **run.model_kwargs,
    )
    model.config.pad_token_id = tokenizer.pad_token_id
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer))
    if run.lora:
        from peft import get_peft_model

        lora: Any = run.lora
        lora.task_type = "TOKEN_CLS"
        lora.trainable_token_indices = [tokenizer.convert_tokens_to_ids(STEP)]
        model = get_peft_model(model, lora)

    def encode(row: Mapping[str, Any]) -> dict[str, list[int]]:
        return encode_steps(row, tokenizer, training.max_length)

    columns = Features({name: [Value("int64")] for name in ("input_ids", "labels", "attention_mask")})
    rows = {
        name: split.map(encode, remove_columns=split.column_names, features=columns, desc=f"Tokenizing {name} dataset")
        for name, split in (("train", run.data.train), ("validation", run.data.validation))
        if split is not None
    }
    with run.refusing():
        trainer = Trainer(
            model=model,
            args=training,
            train_dataset=rows["train"],
            eval_dataset=rows.get("validation"),
            processing_class=tokenizer,
            data_collator=DataCollatorForTokenClassification(tokenizer),
            compute_metrics=_metrics,
            callbacks=run.callbacks,
        )

    def notes() -> list[str]:
        split = "validation" if "validation" in rows else "train"
        named = "eval" if split == "validation" else "fit"  # what was trained on is no validation loss
        figures = trainer.evaluate(rows[split], metric_key_prefix=named)
        told = {key: figures[f"{named}_{key}"] for key in ("step_accuracy", "wrong_recall", "majority_accuracy")}
        where = "the validation split" if split == "validation" else "the rows it was trained on"
        return [
            f"On {where}: step accuracy {told['step_accuracy']:.3f} (always saying the commoner label: "
            f"{told['majority_accuracy']:.3f}), recall of wrong steps {told['wrong_recall']:.3f}."
        ]

    return run.train(trainer, notes)


def encode_steps(
    row: Mapping[str, Any], tokenizer: "PreTrainedTokenizerBase", max_length: int | None
) -> dict[str, list[int]]:
    """Turn a row of steps into token ids, with a label at the token that ends each step.

    Args:
        row: `prompt` (messages or text), `completions` (the steps) and `labels` (whether each is right).
        tokenizer: Knows `<|step|>`.
        max_length: Where to cut; the steps beyond have no part in the loss.
    """
    prompt = row["prompt"]
    if isinstance(prompt, str):
        ids = tokenizer(prompt)["input_ids"]
    else:
        ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False)
    ids = list(ids)
    labels = [UNLABELLED] * len(ids)
    end = tokenizer.convert_tokens_to_ids(STEP)
    for step, label in zip(row["completions"], row["labels"], strict=True):
        part = tokenizer(step, add_special_tokens=False)["input_ids"]
        ids += [*part, end]
        labels += [UNLABELLED] * len(part) + [int(label)]
    return {"input_ids": ids[:max_length], "labels": labels[:max_length], "attention_mask": [1] * len(ids[:max_length])}


def step_figures(guessed: NDArray[np.int_], labels: NDArray[np.int_]) -> dict[str, float]:
    """Step accuracy, recall of wrong steps, and the accuracy of always saying the commoner label. Higher is better.

    Args:
        guessed: 1 for right and 0 for wrong, one for each token.
        labels: The same; -100 where a token ends no step.

    >>> step_figures(np.array([1, 1, 0, 0]), np.array([1, -100, 0, 1]))["step_accuracy"]
    0.6666666666666666
    """
    kept = labels != UNLABELLED
    guessed, labels = guessed[kept], labels[kept]
    wrong = labels == 0
    share = float(wrong.mean()) if labels.size else np.nan
    return {
        "step_accuracy": float((guessed == labels).mean()) if labels.size else np.nan,
        "wrong_recall": float((guessed[wrong] == 0).mean()) if wrong.any() else np.nan,
        "majority_accuracy": max(share, 1 - share),
    }


def _metrics(predicted: "EvalPrediction") -> dict[str, float]:
    return step_figures(np.asarray(predicted.predictions).argmax(-1), np.asarray(predicted.label_ids))
