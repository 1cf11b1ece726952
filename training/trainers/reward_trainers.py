"""Trainers of reward models that TRL does not have: of labelled reasoning steps, and of the scores of a rubric.

truthgym train reward --model_name_or_path trained/tiny --dataset_name data/steps
truthgym convert LOG --to sft --all --out data/rated
truthgym train reward --model_name_or_path MODEL --dataset_name data/rated --criteria rubric/honesty rubric/evidence
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truthgym.models.reward_models.encoding import STEP, encode_steps, note_for_scoring

if TYPE_CHECKING:
    from transformers import EvalPrediction, PreTrainedTokenizerBase

    from truthgym.training.trainers.training_run import Run

UNLABELLED = -100
"""The label that torch's cross entropy ignores."""
Figures = Mapping[str, str]
"""Metrics by name, as the card shows them."""


def process_reward(run: "Run") -> Path:
    """Train a token classifier that predicts at each `<|step|>` whether the step is right (label 1).

    TRL removed its trainer in 1.14. All tokens but those that end a step are unlabelled.
    """
    from datasets import Features, Value
    from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

    tokenizer, names = run.tokenizer, {0: "wrong", 1: "right"}
    tokenizer.add_special_tokens({"additional_special_tokens": [STEP]})
    labels = {"num_labels": 2, "id2label": names, "label2id": {name: i for i, name in names.items()}}
    model = _classifier(run, AutoModelForTokenClassification, **labels)
    note_for_scoring(model.config, tokenizer, conversational=run.data.conversational)
    lora: Any = run.lora
    if lora:
        lora.task_type = "TOKEN_CLS"
        lora.trainable_token_indices = [tokenizer.convert_tokens_to_ids(STEP)]

    def encode(row: Mapping[str, Any]) -> dict[str, list[int]]:
        return label_steps(row, tokenizer, run.arguments.training.max_length)

    def compute_metrics(predicted: "EvalPrediction") -> dict[str, float]:
        return step_metrics(np.asarray(predicted.predictions).argmax(-1), np.asarray(predicted.label_ids))

    def note(where: str, figures: Figures) -> str:
        return (
            f"On {where}: step accuracy {figures['step_accuracy']} (always predicting the majority label: "
            f"{figures['majority_accuracy']}), recall of wrong steps {figures['wrong_recall']}."
        )

    columns = Features({name: [Value("int64")] for name in ("input_ids", "labels", "attention_mask")})
    return _train(
        run, model, lora, encode, DataCollatorForTokenClassification(tokenizer), compute_metrics, note, columns
    )


def rubric_regression(run: "Run") -> Path:
    """Train a sequence classifier with one output for each criterion of a rubric, by mean squared error.

    Unlike a model of preferences it keeps the criteria apart, on the rubric's scale. Rows without a number for a
    criterion, such as replies that the judge could not read, are left out and counted.
    """
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding

    tokenizer, limit, criteria = run.tokenizer, run.arguments.training.max_length, run.data.criteria
    model = _classifier(run, AutoModelForSequenceClassification, num_labels=len(criteria), problem_type="regression")
    arguments = run.data.train[0].get("chat_template_kwargs") or {}
    note_for_scoring(model.config, tokenizer, criteria=list(criteria), conversational=run.data.conversational,
                     chat_template_kwargs=arguments)  # fmt: skip

    def encode(row: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(row["prompt"], str):
            ids = tokenizer(row["prompt"] + row["completion"] + (tokenizer.eos_token or ""))["input_ids"]
        else:
            messages = [*row["prompt"], *row["completion"]]
            ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, **arguments)
        ids = list(ids)[-(limit or len(ids)) :]  # left out at the beginning, as by the scorer
        labels = [row["scores"][criterion] for criterion in criteria]
        return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels}

    def compute_metrics(predicted: "EvalPrediction") -> dict[str, float]:
        shares = explained(np.asarray(predicted.predictions), np.asarray(predicted.label_ids))
        return {f"explained_{name}": share for name, share in zip(criteria, shares, strict=True)}

    def note(where: str, figures: Figures) -> str:
        shares = ", ".join(f"{name} {figures[f'explained_{name}']}" for name in criteria)
        missing = f" {run.data.unrated} rows without a number for a criterion were left out." * bool(run.data.unrated)
        return f"Share of variance explained on {where} (0 is the mean of all replies): {shares}.{missing}"

    return _train(run, model, run.lora, encode, DataCollatorWithPadding(tokenizer), compute_metrics, note)


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


def explained(predicted: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each criterion 1 - squared error / variance: 1 is perfect, 0 the mean, below 0 worse; NaN if it never varies.

    >>> explained(np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]]))
    array([0.5])
    """
    error = ((predicted - truth) ** 2).mean(axis=0)
    variance = truth.var(axis=0)
    return np.where(variance > 0, 1 - error / np.where(variance > 0, variance, 1), np.nan)


def _classifier(run: "Run", kind: Any, **labels: Any) -> Any:  # noqa: ANN401
    """The base model with a new head, which is initialised at random, as is the embedding of a new token."""
    from transformers import set_seed

    tokenizer = run.tokenizer
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    set_seed(run.arguments.training.seed)
    model = kind.from_pretrained(run.base, quantization_config=run.quantization, **run.model_kwargs, **labels)
    model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer))
    return model


def _train(
    run: "Run",
    model: Any,  # noqa: ANN401
    lora: Any,  # noqa: ANN401
    encode: Callable[[Mapping[str, Any]], dict[str, Any]],
    collator: Any,  # noqa: ANN401
    compute_metrics: "Callable[[EvalPrediction], dict[str, float]]",
    note: Callable[[str, Figures], str],
    columns: Any = None,  # noqa: ANN401
) -> Path:
    """Train a classifier, and note its metrics on the validation split or, without one, on the training rows."""
    from transformers import Trainer

    if lora:
        from peft import get_peft_model

        model = get_peft_model(model, lora)
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

    def notes() -> list[str]:
        held_out = rows.get("validation")
        prefix = "fit" if held_out is None else "eval"  # the loss on training rows is not a validation loss
        metrics = trainer.evaluate(rows["train"] if held_out is None else held_out, metric_key_prefix=prefix)
        figures = {key.removeprefix(f"{prefix}_"): f"{value:.3f}" for key, value in metrics.items()}
        return [note("the training rows" if held_out is None else "the validation split", figures)]

    return run.train(trainer, notes)
