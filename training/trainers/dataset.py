"""Loads a dataset for a trainer, and checks that its columns fit the method."""

import os
import shutil
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.datasets.splits import split_of
from truthgym.evallog.errors import bad_input
from truthgym.scorers.statistics.direction import direction
from truthgym.solvers import chat_template
from truthgym.solvers.chat_template import THOUGHT_END
from truthgym.training.conversion.options import KIND_OF_METHOD
from truthgym.training.files import card_metadata, folder_lock, hash_dataset

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

COLUMNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "sft": (("prompt", "completion"), ("messages",), ("text",)),
    "dpo": (("prompt", "chosen", "rejected"), ("chosen", "rejected")),
    "kto": (("prompt", "completion", "label"),),
    "reward": (
        ("prompt", "chosen", "rejected"),
        ("chosen", "rejected"),
        ("prompt", "completions", "labels"),
        ("prompt", "completion", "scores"),
    ),
}
"""The sets of columns that each method can read."""
OPTIONAL_COLUMNS = ("tools", "chat_template_kwargs")
"""Columns that every method reads if the dataset has them."""
EXCERPT = 40
"""Characters of a prompt that an error shows."""
TEMPLATE_TOKENS = 8
"""An upper estimate of the tokens that a chat template adds to each message."""
TOKENIZED_ROWS = 8
"""Number of rows, those with the most bytes, that are tokenised to find the longest."""


@dataclass
class TrainingData:
    """A dataset, ready for a trainer."""

    train: "Dataset"
    validation: "Dataset | None"
    conversational: bool
    steps: bool
    """Whether the rows are labelled reasoning steps."""
    hashes: dict[str, str]
    """SHA-256 of each data file, or the fingerprint of a dataset on the Hub."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Of the dataset's card, see `card_metadata`."""
    criteria: tuple[str, ...] = ()
    """Keys of the column `scores` that a reward model learns to predict."""
    unrated: int = 0
    """Rows left out of both splits, since they have no number for one of them."""


def load_data(
    method: str,
    name: str,
    config: str | None = None,
    train: str = "train",
    validation: str = "validation",
    bootstrap: int | None = None,
    criteria: Sequence[str] = (),
) -> TrainingData:
    """Load a dataset and keep the columns that the method reads."""
    from datasets import DatasetDict, load_dataset

    folder = Path(name)
    on_hub = name.count("/") == 1 and not folder.exists() and not name.startswith((".", "/", "~"))
    hashes = {} if on_hub else hash_dataset(folder)
    try:
        splits = load_dataset(name, config)
    except Exception as error:  # the Hub, the network and each file format fail in their own ways
        raise bad_input(f"The dataset {name} cannot be loaded: {error}") from None
    if not isinstance(splits, DatasetDict) or train not in splits:
        names = ", ".join(map(str, splits)) if isinstance(splits, DatasetDict) else "none"
        raise bad_input(f"The dataset {name} has no split {train!r}; set --dataset_train_split to one of: {names}.")
    rows = splits[train]
    if not len(rows):
        raise bad_input(
            f"The dataset {name} has no rows in the split {train!r}; convert with a selection that keeps more."
        )
    if "split" in rows.column_names:
        column, reserved = "split", "test" in rows.unique("split")
    else:  # rows of `truthgym convert` that lost the column still say of which event they are
        column = "event"
        ours = {"event", "sample_uuid"} <= set(rows.column_names)
        reserved = ours and any(split_of(str(event)) == "test" for event in rows.unique("event"))
    if reserved:
        raise bad_input(
            f"The dataset {name} has rows of the test split, which is reserved for evaluation (column `{column}`); "
            "remove them, or convert the logs again."
        )
    columns = next((names for names in COLUMNS[method] if set(names) <= set(rows.column_names)), None)
    if columns is None:
        readable = " or ".join(" + ".join(names) for names in COLUMNS[method])
        kind = card_metadata(folder).get("kind") if folder.is_dir() else None
        raise bad_input(
            f"The dataset {name}{f' of kind {kind}' if kind else ''} has the columns {', '.join(rows.column_names)}, "
            f"but {method} reads {readable}; convert with --to {KIND_OF_METHOD[method]}."
        )
    if {"image", "images"} & set(rows.column_names):
        raise bad_input(
            f"The dataset {name} contains images, and `truthgym train` loads no image processor; use TRL's own "
            f"command: `trl {method} --dataset_name {name}`."
        )
    held_out = splits.get(validation)
    for part, place in ((rows, name), (held_out, f"{name} ({validation})")):
        if part:
            _check_rows(part, columns, place)
    rows = _as_conversations(rows, name)
    if method == "kto" and len(labels := set(rows["label"])) < 2:
        label = "good" if True in labels else "bad"
        raise bad_input(f"Every row of {name} is labelled {label}, and kto needs both; convert with another threshold.")
    if "labels" in columns and len(labels := {label for row in rows["labels"] for label in row}) < 2:
        label = "right" if True in labels else "wrong"
        raise bad_input(f"Every step of {name} is labelled {label}, and a process model needs both; add other rows.")
    if "chosen" in columns:
        tie = next((i for i, row in enumerate(rows) if row["chosen"] == row["rejected"]), None)
        if tie is not None:
            raise bad_input(
                f"Row {tie} of {name} has no winner: its chosen and rejected replies are the same; remove such pairs."
            )
    if held_out:
        held_out = _as_conversations(held_out, name)
    learned = _criteria(rows, name, criteria) if "scores" in columns else ()
    unrated = 0
    if learned:

        def is_rated(row: Mapping[str, Any]) -> bool:
            return all(_is_number((row["scores"] or {}).get(key)) for key in learned)

        unrated = len(rows) + len(held_out or ())
        rows, held_out = rows.filter(is_rated), held_out.filter(is_rated) if held_out else None
        unrated -= len(rows) + len(held_out or ())
    if bootstrap is not None:
        rows = rows.select(_drawn(rows, bootstrap))
    columns = (*columns, *(column for column in OPTIONAL_COLUMNS if column in rows.column_names))
    first = rows[0][columns[0]]
    return TrainingData(
        train=rows.select_columns(list(columns)),
        validation=held_out.select_columns(list(columns)) if held_out else None,
        conversational=isinstance(first, list),
        steps="labels" in columns,
        hashes=hashes or {name: str(rows._fingerprint)},
        metadata=card_metadata(folder) if folder.is_dir() else {},
        criteria=learned,
        unrated=unrated,
    )


def _check_rows(rows: "Dataset", columns: Sequence[str], name: str) -> None:
    """Refuse the first row whose values are not what a trainer reads: texts, conversations, labels."""
    for column in set(columns) & set(rows.column_names) - {"scores"}:
        for place, value in enumerate(rows[column]):
            if fault := _fault(value, column):
                raise bad_input(f"Row {place} of {name}: its `{column}` {fault}, or remove the row.")
    if "labels" in columns:
        for place, (steps, labels) in enumerate(zip(rows["completions"], rows["labels"], strict=True)):
            if len(steps) != len(labels):
                raise bad_input(
                    f"Row {place} of {name} has {len(steps)} steps in `completions` and {len(labels)} `labels`; write "
                    "a label for each step, or remove the row."
                )


def _fault(value: object, column: str) -> str | None:
    """What is wrong with a text, a conversation or labels, and what to do."""
    if column in ("label", "labels"):
        wrong = [label for label in (value if isinstance(value, list) else [value]) if not isinstance(label, bool)]
        return f"is {wrong[0]!r}; write true (good) or false (bad)" if wrong else None
    if isinstance(value, str) and column != "messages":
        return None
    if not isinstance(value, list | dict) or not value:
        got = "is empty" if value in (None, []) else f"is {str(value)[:EXCERPT]!r}"
        kind = (
            "a list of messages with `role` and `content`" if column == "messages" else "a text or a list of messages"
        )
        return f"{got}; write {kind}"
    for message in [value] if isinstance(value, dict) else value:
        if column == "completions" and isinstance(message, str):
            continue
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            fields = ", ".join(message) if isinstance(message, dict) else repr(message)[:EXCERPT]
            return f"has a message with {fields}; write `role` (system, user, assistant or tool) and `content`"
        if message.get("content") is None and not message.get("tool_calls"):
            return f"has a message of the role {message['role']} without `content`; write it"
    return None


def _as_conversations(rows: "Dataset", name: str) -> "Dataset":
    """Rows in which prompt and replies are all texts, or all conversations.

    In public preference sets the prompt is a text, and each reply a whole conversation that begins with it.
    """
    replies = [column for column in ("completion", "chosen", "rejected") if column in rows.column_names]
    kinds = {column: type(rows[0][column]) for column in ("prompt", *replies) if column in rows.column_names}
    if not replies or (len(set(kinds.values())) == 1 and dict not in kinds.values()):
        return rows

    def as_reply(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        return [{"role": "assistant", "content": value}] if isinstance(value, str) else _as_list(value)

    def split(row: dict[str, Any], place: int) -> dict[str, Any]:
        conversations = {column: as_reply(row[column]) for column in replies}
        if not isinstance(row.get("prompt"), str):
            return conversations | ({"prompt": _as_list(row["prompt"])} if "prompt" in row else {})
        begins = [conversation[:-1] for conversation in conversations.values()]
        if any(begin != begins[0] for begin in begins):
            raise bad_input(
                f"Row {place} of {name}: its replies are conversations that do not differ in their last message alone; "
                "write the shared messages as the prompt, and the reply as the other column, or remove the row."
            )
        prompt = begins[0] or [{"role": "user", "content": row["prompt"]}]
        return {"prompt": prompt} | {column: conversations[column][-1:] for column in replies}

    return rows.map(split, with_indices=True, remove_columns=list(kinds))


def _as_list(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    return [value] if isinstance(value, dict) else value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and value == value


def _criteria(rows: "Dataset", name: str, names: Sequence[str]) -> tuple[str, ...]:
    """The keys of the column `scores` to learn."""
    numbers: dict[str, list[float]] = {}
    for row in rows["scores"]:
        for key, value in (row or {}).items():
            if _is_number(value):
                numbers.setdefault(key, []).append(float(value))

    def is_lower_better(key: str) -> bool:
        scorer, _, number = key.partition("/")
        return direction(scorer, number or scorer, {}) == "lowest"

    listed = ", ".join(sorted(key for key in numbers if not is_lower_better(key)))
    if not names:
        raise bad_input(f"{name} has scores of replies: name those to learn with --criteria: {listed}.")
    for key in names:
        if is_lower_better(key):
            raise bad_input(
                f"--criteria {key}: lower is better, and the reward is the mean of the criteria; name others: {listed}."
            )
        if len(set(numbers.get(key, []))) < 2:
            problem = "is the same in every row" if key in numbers else "has no number in any row"
            raise bad_input(f"The criterion {key} of {name} {problem}; name others with --criteria: {listed}.")
    return tuple(names)


def _drawn(rows: "Dataset", seed: int) -> list[int]:
    """Indices of the rows of events, or of prompts, drawn with replacement, as many as there are.

    Rows of one event are not independent: together, members of an ensemble differ as if trained on other data.
    """
    import numpy as np

    key = next(column for column in ("event", "prompt", "chosen", "messages", "text") if column in rows.column_names)
    groups: dict[str, list[int]] = {}
    for i, value in enumerate(rows[key]):
        groups.setdefault(str(value), []).append(i)
    clusters = list(groups.values())
    return [i for draw in np.random.default_rng(seed).integers(len(clusters), size=len(clusters))
            for i in clusters[draw]]  # fmt: skip


def fit_template(data: TrainingData, tokenizer: "PreTrainedTokenizerBase", replies_only: bool = False) -> str | None:
    """Give the tokenizer a chat template that takes the rows. Returns what to say of it, or None if its own does."""
    from trl.chat_template_utils import get_training_chat_template, has_generation_markers

    own = tokenizer.chat_template
    if replies_only and data.conversational and not has_generation_markers(own):
        try:
            own = get_training_chat_template(tokenizer)
        except ValueError:
            raise bad_input(
                f"--assistant_only_loss: the chat template of {tokenizer.name_or_path} does not mark the model's "
                "replies, and TRL has no variant of it that does; convert with --form prompt-completion, whose loss is "
                "on the replies alone, and leave the option out."
            ) from None
    shapes = list(_shapes(data.train)) if data.conversational else []
    if not any(_refusal(tokenizer, shape) for shape in shapes):
        return None
    tokenizer.chat_template = chat_template.fit(tokenizer, own)
    for shape in shapes:
        if refusal := _refusal(tokenizer, shape):
            raise bad_input(
                f"The chat template of {tokenizer.name_or_path} {refusal}, in row {shape[0]} of the dataset; remove "
                f"such rows, or {chat_template.REMEDY}."
            )
    return (
        f"The chat template of {tokenizer.name_or_path} takes no system message, or no two messages of one role in a "
        "row, and rows have them. They are joined with the message that follows, also by the template of the trained "
        "model."
    )


Conversation = tuple[int, list[dict[str, Any]], dict[str, Any]]
"""The number of a row, a conversation in it, and the arguments with which TRL renders it."""


def _conversations(rows: "Dataset") -> Iterator[Conversation]:
    """Every conversation of every row."""
    for place, row in enumerate(rows):
        prompt, options = row.get("prompt") or [], row.get("chat_template_kwargs") or {}
        replies = [row[key] for key in ("completion", "chosen", "rejected", "messages") if row.get(key)]
        for reply in replies or [[]]:
            yield place, [*prompt, *reply], {"tools": row.get("tools") or None, **options}


def _shapes(rows: "Dataset") -> Iterator[Conversation]:
    """The first conversation of each shape: which roles follow each other, and whether there are calls of tools."""
    seen = set()
    for place, messages, options in _conversations(rows):
        roles = frozenset(pairwise(["", *(message["role"] for message in messages), ""]))
        shape = roles, any(message.get("tool_calls") for message in messages)
        if shape not in seen:
            seen.add(shape)
            yield place, messages, options


def _refusal(tokenizer: "PreTrainedTokenizerBase", conversation: Conversation) -> str | None:
    return chat_template.problem(tokenizer, conversation[1], **conversation[2])


@contextmanager
def template_errors(data: TrainingData, tokenizer: "PreTrainedTokenizerBase") -> Iterator[None]:
    """Turn a chat template's refusal into an error that names the first row that it does not write."""
    from jinja2 import TemplateError

    try:
        yield
    except TemplateError as error:
        refused = (f"row {each[0]}" for each in _conversations(data.train) if _refusal(tokenizer, each))
        raise bad_input(
            f"The chat template of {tokenizer.name_or_path} refuses {next(refused, 'a row')} of the dataset: {error}; "
            f"remove such rows, or {chat_template.REMEDY}."
        ) from error


def check_template(data: TrainingData, tokenizer: "PreTrainedTokenizerBase") -> None:
    """Check that the chat template renders the replies that are to be learned: one with a thought, and one without."""
    reply = next((key for key in ("completion", "chosen") if key in data.train.column_names), None)
    if not data.conversational or reply is None or "prompt" not in data.train.column_names:
        return
    replies = [_text(messages) for messages in data.train[reply]]
    for has_thought in (True, False):
        place = next((i for i, text in enumerate(replies) if (THOUGHT_END in text) == has_thought), None)
        if place is None or data.train[place].get("tools"):
            continue
        row = data.train[place]
        arguments = {"tokenize": False, **(row.get("chat_template_kwargs") or {})}
        prompt = str(tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, **arguments))
        whole = str(tokenizer.apply_chat_template([*row["prompt"], *row[reply]], **arguments))
        remedy = "give the model's folder another chat template as chat_template.jinja"
        if not whole.startswith(prompt):
            raise bad_input(
                f"The chat template ends a prompt with {prompt[-EXCERPT:]!r}, and does not go on from there to the "
                f"reply of row {place}; convert the logs again, which sets chat_template_kwargs, or {remedy}."
            )
        if has_thought and THOUGHT_END not in whole[len(prompt) :]:
            raise bad_input(
                f"The chat template drops the thought of the reply in row {place}, which would not be trained; convert "
                f"with --reasoning drop, or {remedy}."
            )


def empty_thoughts(data: TrainingData, tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether the loss covers an empty thought that the chat template writes before a reply without one."""
    talk = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Yes."}]
    whole = "messages" in data.train.column_names

    def learned(options: dict[str, Any]) -> str:
        prompt = tokenizer.apply_chat_template(talk[:1], add_generation_prompt=True, tokenize=False, **options)
        text = str(tokenizer.apply_chat_template(talk, tokenize=False, **options))
        return text if whole else text.removeprefix(str(prompt))

    without = {
        repr(options): options
        for _, messages, options in _conversations(data.train)
        for reply in (messages if whole else messages[-1:])
        if reply["role"] == "assistant" and THOUGHT_END not in _text(reply)
    }
    return any(THOUGHT_END in learned(options) for options in without.values())


def longest_row(rows: "Dataset", tokenizer: "PreTrainedTokenizerBase", limit: int | None) -> tuple[int, int]:
    """Tokens of the longest row, at most `limit`, and the number of rows that are longer than the limit.

    A token is at least one byte, so only rows with more bytes than the limit, or the most bytes, are tokenised.
    """
    sizes = [max(len(text.encode()) + TEMPLATE_TOKENS * messages for text, messages in _sequences(row)) for row in rows]
    candidates = {index for index, size in enumerate(sizes) if limit is not None and size > limit}
    candidates.update(sorted(range(len(sizes)), key=sizes.__getitem__)[-TOKENIZED_ROWS:])
    tokens = [
        max(
            len(tokenizer(text, add_special_tokens=False)["input_ids"]) + TEMPLATE_TOKENS * messages
            for text, messages in _sequences(rows[index])
        )
        for index in candidates
    ]
    too_long = sum(limit is not None and size > limit for size in tokens)
    return min(max(tokens), limit or max(tokens)), too_long


def _sequences(row: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Each text that a row makes, with its number of messages: a pair of answers to one prompt makes two texts."""
    prompt = row.get("prompt") or []
    sequences = []
    for key in ("completion", "chosen", "rejected", "messages", "text", "completions"):
        if key in row:
            parts = [prompt, row[key]]
            messages = sum(len(part) if isinstance(part, list) else 1 for part in parts)
            sequences.append(("".join(_text(part) for part in parts), messages))
    return sequences


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, list):
        return "".join(_text(part) for part in value)
    if isinstance(value, dict):
        return "".join(_text(part) for key, part in value.items() if key != "role")
    return value if isinstance(value, str) else ""


@contextmanager
def converted_logs(method: str, parsed: Namespace) -> Iterator[Path | None]:
    """Convert the logs of `--log` into a temporary folder, to be moved beside the model; None without that option."""
    from truthgym.training.convert import convert

    if not parsed.log:
        yield None
        return
    name = sha256(repr([method, [str(Path(log).resolve()) for log in parsed.log]]).encode()).hexdigest()[:12]
    folder = Path(parsed.output_dir) / f".data-{name}-{os.environ.get('RANK', '0')}"
    with folder_lock(folder):
        try:
            convert(parsed.log, KIND_OF_METHOD[method], folder, overwrite=True)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
