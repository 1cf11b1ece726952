"""The rows that a trainer reads: whether they fit the method, and how long they are."""

import os
import shutil
from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from truthgym.evallog.errors import bad_input
from truthgym.training.artifacts import card_metadata, folder_lock, hash_dataset

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

COLUMNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "sft": (("prompt", "completion"), ("messages",), ("text",)),
    "dpo": (("prompt", "chosen", "rejected"), ("chosen", "rejected")),
    "kto": (("prompt", "completion", "label"),),
    "reward": (("prompt", "chosen", "rejected"), ("chosen", "rejected"), ("prompt", "completions", "labels")),
}
"""The columns that each method reads, in one of these sets."""
CARRIED = ("tools", "chat_template_kwargs")
"""Columns that go along where they are there."""
AROUND = 8
"""Tokens that a chat template puts around a message, or more."""
FEW = 8
"""How many of the rows that look longest are tokenised to see how long they are."""
KINDS = {"sft": "sft", "dpo": "preference", "kto": "unpaired", "reward": "preference"}
"""What to convert logs to for each method."""


@dataclass
class TrainingData:
    """A dataset as a trainer takes it."""

    train: "Dataset"
    validation: "Dataset | None"
    conversational: bool
    steps: bool
    """Whether the rows are labelled reasoning steps."""
    hashes: dict[str, str]
    facts: dict[str, Any] = field(default_factory=dict)
    """See `trained.card_metadata`."""


def load_data(
    method: str, name: str, config: str | None = None, train: str = "train", validation: str = "validation"
) -> TrainingData:
    """Load a dataset and keep what the method reads.

    Args:
        method: `sft`, `dpo`, `kto` or `reward`.
        name: A folder, or a name on the hub.
        config: The configuration of a dataset on the hub.
        train: The split to train on.
        validation: The split to validate on, where there is one.

    Raises:
        BadInput: It cannot be loaded, has no such split or no rows, or its columns are those of another method.
    """
    from datasets import DatasetDict, load_dataset

    folder = Path(name)
    of_the_hub = name.count("/") == 1 and not folder.exists() and not name.startswith((".", "/", "~"))
    hashes = {} if of_the_hub else hash_dataset(folder)
    try:
        splits = load_dataset(name, config)
    except Exception as error:  # the hub, the network, and each file format fail in their own ways
        raise bad_input(f"The dataset {name} cannot be loaded: {error}") from None
    if not isinstance(splits, DatasetDict) or train not in splits:
        there = ", ".join(map(str, splits)) if isinstance(splits, DatasetDict) else "none"
        raise bad_input(
            f"The dataset {name} has no split {train!r} (there are: {there}); name one with --dataset_train_split"
        )
    rows = splits[train]
    if not len(rows):
        raise bad_input(f"The dataset {name} has no rows to train on; select more when you convert")
    columns = next((wanted for wanted in COLUMNS[method] if set(wanted) <= set(rows.column_names)), None)
    if columns is None:
        wanted = " or ".join(" + ".join(names) for names in COLUMNS[method])
        kind = card_metadata(folder).get("kind") if folder.is_dir() else None
        raise bad_input(
            f"The dataset {name}{f' of kind {kind}' if kind else ''} is not for {method}, which reads {wanted}; it has "
            f"{', '.join(rows.column_names)}. Convert with --to {KINDS[method]}"
        )
    if {"image", "images"} & set(rows.column_names):
        raise bad_input(
            f"The dataset {name} holds images, which a model's processor must read, and `truthgym train` knows "
            f"tokenizers only; TRL's own command loads it: `trl {method} --dataset_name {name}`"
        )
    if method == "kto" and len(labels := set(rows["label"])) < 2:
        told = "good" if True in labels else "bad"
        raise bad_input(f"Every answer of {name} is labelled {told}; kto needs both: convert with another threshold")
    kept = [*columns, *(column for column in CARRIED if column in rows.column_names)]
    held = splits[validation].select_columns(kept) if validation in splits and len(splits[validation]) else None
    first = rows[0][columns[0]]
    return TrainingData(
        train=rows.select_columns(kept),
        validation=held,
        conversational=isinstance(first, list),
        steps="labels" in columns,
        hashes=hashes or {name: str(rows._fingerprint)},
        facts=card_metadata(folder) if folder.is_dir() else {},
    )


def longest_row(rows: "Dataset", tokenizer: "PreTrainedTokenizerBase", limit: int | None) -> tuple[int, int]:
    """Tokens of the longest row, at most `limit`, and how many rows are longer than the limit.

    A token is at least one byte, so only rows with more bytes than the limit are tokenised, and of the others those
    with the most bytes.
    """
    sizes = [max(len(text.encode()) + AROUND * messages for text, messages in _ends(row)) for row in rows]
    looked_at = {place for place, size in enumerate(sizes) if limit is not None and size > limit}
    looked_at.update(sorted(range(len(sizes)), key=sizes.__getitem__)[-FEW:])
    tokens = [
        max(
            len(tokenizer(text, add_special_tokens=False)["input_ids"]) + AROUND * messages
            for text, messages in _ends(rows[place])
        )
        for place in looked_at
    ]
    beyond = sum(limit is not None and size > limit for size in tokens)
    return min(max(tokens), limit or max(tokens)), beyond


def _ends(row: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Each text that a row makes, with its messages: two where a chosen and a rejected answer follow a prompt."""
    prompt = row.get("prompt") or []
    made = []
    for key in ("completion", "chosen", "rejected", "messages", "text", "completions"):
        if key in row:
            parts = [prompt, row[key]]
            messages = sum(len(part) if isinstance(part, list) else 1 for part in parts)
            made.append(("".join(_text(part) for part in parts), messages))
    return made


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, list):
        return "".join(_text(part) for part in value)
    if isinstance(value, dict):
        return "".join(_text(part) for key, part in value.items() if key != "role")
    return value if isinstance(value, str) else ""


def converted(method: str, parsed: Namespace, begun: ExitStack) -> Path:
    """Convert logs into a folder that gets its place once the model has a name, which the data decide."""
    from truthgym.training.convert import convert

    told = sha256(repr([method, [str(Path(log).resolve()) for log in parsed.log]]).encode()).hexdigest()[:12]
    place = Path(parsed.output_dir) / f".data-{told}-{os.environ.get('RANK', '0')}"
    begun.enter_context(folder_lock(place))
    begun.callback(shutil.rmtree, place, ignore_errors=True)
    convert(parsed.log, cast(Any, KINDS[method]), place, overwrite=True)
    return place


def put(dataset: Path, place: Path) -> None:
    """Move a dataset into the model's folder. One that an interrupted run left there is the same, by its hash."""
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    dataset.replace(place)
