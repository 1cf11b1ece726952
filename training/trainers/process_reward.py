"""Process reward modelling: a model learns which reasoning steps are right, from a label at the end of each.

TRL removed its trainer in 1.14. The task is token classification: a special token ends every step and carries the
step's label; all other tokens are unlabelled.

truthgym train reward --model_name_or_path trained/tiny --dataset_name data/steps
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truthgym.models.reward_models.encoding import STEP, encode_steps, note_for_scoring

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import EvalPrediction, PreTrainedTokenizerBase, Trainer

    from truthgym.training.trainers.training_run import Run

UNLABELLED = -100
"""The label that torch's cross entropy ignores."""


def process_reward(run: "Run") -> Path:
    """Train a token classifier that predicts at each `<|step|>` whether the step is right (label 1).

    The card reports step accuracy, the recall of wrong steps and the accuracy of always predicting the majority label,
    on the validation split or, without one, on the training rows. It says which.
    """
    from datasets import Features, Value
    from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification, set_seed

    tokenizer, training = run.tokenizer, run.arguments.training
    tokenizer.add_special_tokens({"additional_special_tokens": [STEP]})
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    set_seed(training.seed)  # the head and the embedding of <|step|> are initialised at random
    model = AutoModelForTokenClassification.from_pretrained(
        run.base,
        num_labels=2,
        id2label={0: "wrong", 1: "right"},
        label2id={"wrong": 0, "right": 1},
        quantization_config=run.quantization,
        **run.model_kwargs,
    )
    model.config.pad_token_id = tokenizer.pad_token_id
    note_for_scoring(model.config, tokenizer, conversational=run.data.conversational)
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer))
    if run.lora:
        from peft import get_peft_model

        lora: Any = run.lora
        lora.task_type = "TOKEN_CLS"
        lora.trainable_token_indices = [tokenizer.convert_tokens_to_ids(STEP)]
        model = get_peft_model(model, lora)

    def encode(row: Mapping[str, Any]) -> dict[str, list[int]]:
        return label_steps(row, tokenizer, training.max_length)

    columns = Features({name: [Value("int64")] for name in ("input_ids", "labels", "attention_mask")})
    collator = DataCollatorForTokenClassification(tokenizer)
    trainer, rows = make_trainer(run, model, encode, collator, _compute_metrics, columns)

    def notes() -> list[str]:
        split = "validation" if "validation" in rows else "train"
        prefix = "eval" if split == "validation" else "fit"  # the loss on training rows is not a validation loss
        metrics = trainer.evaluate(rows[split], metric_key_prefix=prefix)
        source = "the validation split" if split == "validation" else "the training rows"
        return [
            f"On {source}: step accuracy {metrics[f'{prefix}_step_accuracy']:.3f} (always predicting the majority "
            f"label: {metrics[f'{prefix}_majority_accuracy']:.3f}), recall of wrong steps "
            f"{metrics[f'{prefix}_wrong_recall']:.3f}."
        ]

    return run.train(trainer, notes)


def make_trainer(
    run: "Run",
    model: Any,  # noqa: ANN401
    encode: Callable[[Mapping[str, Any]], dict[str, Any]],
    collator: Any,  # noqa: ANN401
    compute_metrics: "Callable[[EvalPrediction], dict[str, float]]",
    columns: Any = None,  # noqa: ANN401
) -> "tuple[Trainer, dict[str, Dataset]]":
    """A trainer of a classifier, and the encoded rows of each split."""
    from transformers import Trainer

    rows = {
        name: split.map(encode, remove_columns=split.column_names, features=columns, desc=f"Tokenizing {name} dataset")
        for name, split in (("train", run.data.train), ("validation", run.data.validation))
        if split is not None
    }
    with run.translate_errors():
        trainer = Trainer(
            model=model,
            args=run.arguments.training,
            train_dataset=rows["train"],
            eval_dataset=rows.get("validation"),
            processing_class=run.tokenizer,
            data_collator=collator,
            compute_metrics=compute_metrics,
            callbacks=run.callbacks,
        )
    return trainer, rows


def label_steps(
    row: Mapping[str, Any], tokenizer: "PreTrainedTokenizerBase", max_length: int | None
) -> dict[str, list[int]]:
    """Tokenise a row of steps, with a label at the token that ends each step."""
    ids, ends = encode_steps(row["prompt"], row["completions"], tokenizer)
    labels = [UNLABELLED] * len(ids)
    for end, label in zip(ends, row["labels"], strict=True):
        labels[end] = int(label)
    return {"input_ids": ids[:max_length], "labels": labels[:max_length], "attention_mask": [1] * len(ids[:max_length])}


def step_metrics(predicted: NDArray[np.int_], labels: NDArray[np.int_]) -> dict[str, float]:
    """Step accuracy, recall of wrong steps, and the accuracy of always predicting the majority label. Higher is better.

    >>> step_metrics(np.array([1, 1, 0, 0]), np.array([1, -100, 0, 1]))["step_accuracy"]
    0.6666666666666666
    """
    labelled = labels != UNLABELLED
    predicted, labels = predicted[labelled], labels[labelled]
    wrong = labels == 0
    share = float(wrong.mean()) if labels.size else np.nan
    return {
        "step_accuracy": float((predicted == labels).mean()) if labels.size else np.nan,
        "wrong_recall": float((predicted[wrong] == 0).mean()) if wrong.any() else np.nan,
        "majority_accuracy": max(share, 1 - share),
    }


def _compute_metrics(predicted: "EvalPrediction") -> dict[str, float]:
    return step_metrics(np.asarray(predicted.predictions).argmax(-1), np.asarray(predicted.label_ids))
