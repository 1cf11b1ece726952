"""What a fine-tuning job is sent: rows of a converted dataset as lines of the vendor, checked before any upload."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import bad_input
from truthgym.training.artifacts import card_metadata
from truthgym.training.conversion.openai_format import TRACE, conversation, preference, reinforcement, supervised

Line = dict[str, Any]

LEAST = {"train": 10, "validation": 1}
"""Rows below which OpenAI takes no file."""
MOST_BYTES = 512 * 1024**2
"""Of one file at OpenAI. Together takes more; a dataset of one log is far below either."""
SHAPES = {"sft": supervised, "dpo": preference, "reinforcement": reinforcement}
KINDS = {"sft": "sft", "dpo": "preference", "reinforcement": "prompts"}
"""The kind of dataset that each method turns into lines."""
LAST = {"sft": ("assistant",), "dpo": ("user", "tool"), "reinforcement": ("user",)}
"""Whose message must be the last of the conversation that a line holds."""
SENT = {
    "sft": ("messages", "tools", "parallel_tool_calls"),
    "dpo": ("input", "preferred_output", "non_preferred_output"),
}
"""Keys of a line; all others stay here. In those of reinforcement, they are for the grader."""
NEEDED = {"sft": ("messages",), "dpo": SENT["dpo"], "reinforcement": ("messages",)}
"""Keys without which a row is not in the method's shape."""


def lines_of(dataset: Path, method: str, provider: str) -> dict[str, list[Line]]:
    """Make the lines of each split of a dataset, and check all of them.

    Args:
        dataset: A folder that `truthgym convert` wrote, of the kind that the method needs or of the kind `openai`.
        method: "sft", "dpo" or "reinforcement".
        provider: "openai" or "together".

    Returns:
        Lines of `train`, and of `validation` where the dataset has one.

    Raises:
        BadInput: The dataset is of another kind, a row cannot be sent, is of the test split, or a split is too small
            or too large.
    """
    kind = card_metadata(dataset).get("kind")
    if kind not in (None, "openai", KINDS[method]):
        raise bad_input(
            f"{dataset} is a dataset of kind {kind}, and {method} needs one of kind {KINDS[method]}; make it with "
            f"`truthgym convert LOGS --to {KINDS[method]} --out FOLDER`"
        )
    found = {split: list(rows_of(dataset, split)) for split in ("train", "validation")}
    if not found["train"]:
        raise bad_input(f"{dataset} holds no rows to train on (train.jsonl); convert the logs again")
    made = {}
    for split, rows in found.items():
        if rows:
            what = f"{dataset}, {split}"
            made[split] = [_line(row, method, provider, f"{what}, row {place}") for place, row in enumerate(rows, 1)]
            check_lines(method, made[split], what, LEAST[split])
    return made


def rows_of(dataset: Path, split: str) -> Iterator[Mapping[str, Any]]:
    """Read the rows of a split, in any format that `truthgym convert` writes. None where there is no such split.

    Raises:
        BadInput: A line of a .jsonl file is no JSON object.
    """
    path = dataset / f"{split}.jsonl"
    if path.is_file():
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield _object(text, f"{path}, line {number}")
        return
    other = next((found for end in ("parquet", "arrow") if (found := path.with_suffix(f".{end}")).is_file()), None)
    if other is not None:
        from datasets import load_dataset

        yield from load_dataset(other.suffix[1:], data_files=str(other), split="train")


def check_lines(method: str, lines: Sequence[Line], what: str, least: int = 1) -> None:
    """Refuse what a vendor would refuse after the upload.

    Raises:
        BadInput: Too few lines, too many bytes, or a line that is not of this method.
    """
    if len(lines) < least:
        raise bad_input(
            f"{what} has {len(lines)} rows, and vendors train on no fewer than {least}; convert more logs, or a larger "
            "share of them (--top)"
        )
    size = 0
    for place, line in enumerate(lines, start=1):
        where = f"{what}, row {place}"
        held = line["input"] if method == "dpo" else line
        messages = conversation(held["messages"], where)
        last = messages[-1]["role"] if messages else "nobody"
        if last not in LAST[method]:
            raise bad_input(f"{where}: its last message is of {last}; for {method} it must be of {LAST[method][0]}")
        size += len(encoded(line))
    if size > MOST_BYTES:
        raise bad_input(
            f"{what} has {size / 1e6:.0f} MB, and a file may have {MOST_BYTES / 1e6:.0f}; convert fewer rows"
        )


def encoded(line: Line) -> bytes:
    """A line of the file, with its end. Half of a character, as a cut-off model leaves it, becomes a question mark."""
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def without_target(lines: Sequence[Line]) -> int:
    """How many lines of reinforcement hold no truth for a grader to read."""
    return sum(line.get("target") not in ("yes", "no") for line in lines)


def _line(row: Mapping[str, Any], method: str, provider: str, where: str) -> Line:
    if row.get("split") == "test":
        raise bad_input(f"{where}: it is of the test split, which is for evaluation only; convert the logs again")
    row = {key: value for key, value in row.items() if value is not None}
    turned = "prompt" in row or (method == "sft" and "messages" in row)
    if turned:
        line = SHAPES[method](row, where)
    elif not set(NEEDED[method]) <= set(row):
        raise bad_input(
            f"{where}: it is no row for {method} (it holds {', '.join(row)}); make the dataset with "
            f"`truthgym convert LOGS --to {KINDS[method]}`"
        )
    elif method == "reinforcement":
        line = {key: value for key, value in row.items() if key not in TRACE}
    else:
        line = {key: row[key] for key in SENT[method] if key in row}
    return line if provider == "openai" else _for_together(line)


def _for_together(line: Line) -> Line:
    """Together knows no developer's messages, and rejects fields that it does not know."""
    if "input" in line:
        bare = {key: value for key, value in line["input"].items() if key == "tools" and value}
        return line | {"input": {"messages": _system(line["input"]["messages"]), **bare}}
    return {key: value for key, value in line.items() if key == "tools"} | {"messages": _system(line["messages"])}


def _system(messages: Sequence[Line]) -> list[Line]:
    return [message | ({"role": "system"} if message["role"] == "developer" else {}) for message in messages]


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError as error:
        raise bad_input(f"{where}: it is not JSON ({error}); convert the logs again") from None
    if not isinstance(read, dict):
        raise bad_input(f"{where}: it is no JSON object; convert the logs again")
    return read
