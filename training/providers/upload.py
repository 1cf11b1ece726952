"""Turns a converted dataset into the JSON lines that a provider trains on, and checks them before the upload."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import bad_input
from truthgym.scorers.graders.openai_export import needs_target
from truthgym.training.conversion.openai_format import TRACE, preference, reinforcement, supervised
from truthgym.training.files import card_metadata
from truthgym.training.providers.provider import JobSpec

Line = dict[str, Any]

MIN_ROWS = {"train": 10, "validation": 1}
"""Fewest rows of a file that OpenAI accepts."""
CONVERTERS = {"sft": supervised, "dpo": preference, "reinforcement": reinforcement}
KINDS = {"sft": "sft", "dpo": "preference", "reinforcement": "prompts"}
"""The kind of dataset that each method converts. A dataset of the kind `openai` is uploaded as it is."""
REQUIRED = {"sft": ("messages",), "dpo": ("input", "preferred_output"), "reinforcement": ("messages",)}
"""Keys by which a row of the kind `openai` is recognised."""


def upload_lines(spec: JobSpec, provider: str) -> dict[str, list[bytes]]:
    """Make the lines of each split of a dataset."""
    kind = card_metadata(spec.dataset).get("kind")
    if kind not in (None, "openai", KINDS[spec.method]):
        raise bad_input(
            f"{spec.dataset} is a dataset of kind {kind}, but {spec.method} needs kind {KINDS[spec.method]}; make it "
            f"with `truthgym convert LOGS --to {KINDS[spec.method]} --out FOLDER`"
        )
    if not (spec.dataset / "train.jsonl").is_file():
        raise bad_input(f"{spec.dataset} has no train.jsonl; convert the logs with --file-format jsonl")
    lines: dict[str, list[bytes]] = {}
    for split, min_rows in MIN_ROWS.items():
        rows = list(_rows(spec.dataset, split))
        if not rows and split == "validation":
            continue
        if len(rows) < min_rows:
            raise bad_input(
                f"{spec.dataset}, {split}: {len(rows)} rows, but providers need at least {min_rows}; convert more "
                "logs, or a larger share of them (--top)"
            )
        converted = [_line(row, spec.method, provider, where) for where, row in rows]
        if spec.grader:
            _check_targets(spec, converted, split)
        lines[split] = [json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for line in converted]
    if spec.method == "reinforcement" and "validation" not in lines:
        raise bad_input(
            f"{spec.dataset} has no validation split, which reinforcement fine-tuning needs; convert the logs with "
            "--validation train"
        )
    return lines


def _rows(dataset: Path, split: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a split, each with its place for error messages. Nothing if the dataset does not have the split."""
    path = dataset / f"{split}.jsonl"
    for number, line in enumerate(path.read_bytes().splitlines() if path.is_file() else (), start=1):
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise bad_input(f"{where}: not JSON ({error}); convert the logs again") from None
        yield where, row


def _line(row: Mapping[str, Any], method: str, provider: str, where: str) -> Line:
    if row.get("split") == "test":
        raise bad_input(f"{where}: from the test split, which is for evaluation only; convert the logs again")
    row = {key: value for key, value in row.items() if value is not None}
    if "prompt" in row or (method == "sft" and "messages" in row):
        line = CONVERTERS[method](row, where)
    elif set(REQUIRED[method]) <= set(row):
        line = {key: value for key, value in row.items() if key not in TRACE}
    else:
        raise bad_input(
            f"{where}: not a row for {method} (its keys are {', '.join(row)}); make the dataset with "
            f"`truthgym convert LOGS --to {KINDS[method]}`"
        )
    return _for_together(line) if provider == "together" else line


def _for_together(line: Line) -> Line:
    """Together does not know the role `developer`, and rejects keys that it does not know."""
    if "input" in line:
        return line | {"input": _for_together(line["input"])}
    roles = {"developer": "system"}
    messages = [message | {"role": roles.get(message["role"], message["role"])} for message in line["messages"]]
    return {"messages": messages} | ({"tools": line["tools"]} if line.get("tools") else {})


def _check_targets(spec: JobSpec, lines: list[Line], split: str) -> None:
    missing = sum(line.get("target") not in ("yes", "no") for line in lines)
    if missing and spec.grader and needs_target(spec.grader):
        raise bad_input(
            f"{spec.dataset}, {split}: {missing} rows have no target yes or no, which the grader "
            f"{spec.grader['name']} reads; leave these rows out, or use another grader"
        )
