"""One fine-tuning job: upload, submit, watch, and write the model card.

    trained/{base}-{method}-{hash}/
        job.json                 the specification, the uploaded files, the job's id and its last status
        {folder}-train.jsonl     what was uploaded; also {folder}-validation.jsonl
        README.md                the model card, written last

The folder's name is a hash of data, options and base model, so the same command finds the same folder. If `job.json` is
there, the command watches that job and does not submit another.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import bad_input
from truthgym.scorers.graders.openai_export import needs_target
from truthgym.training.conversion.openai_format import TRACE, preference, reinforcement, supervised
from truthgym.training.conversion.options import KIND_OF_METHOD
from truthgym.training.files import CARD, card_metadata, folder_lock, hash_dataset, write_atomically
from truthgym.training.providers.provider import FineTuningProvider, JobSpec, JobStatus, error_text, translate_errors
from truthgym.training.trainers.model_card import ModelCard, is_finished, model_name, read_card, write_card

Line = dict[str, Any]
MIN_ROWS = {"train": 10, "validation": 1}
"""Fewest rows of a file that OpenAI accepts."""
CONVERTERS = {"sft": supervised, "dpo": preference, "reinforcement": reinforcement}
REQUIRED = {"sft": ("messages",), "dpo": ("input", "preferred_output"), "reinforcement": ("messages",)}
"""Keys by which a row of the kind `openai` is recognised."""


class Job:
    """The record of a job, `job.json` in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "job.json"
        self.state: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else {}

    def record(self, **facts: object) -> None:
        """Add or replace facts."""
        self.state |= facts
        write_atomically(self.path, json.dumps(self.state, indent=2, ensure_ascii=False) + "\n")


def get_provider(name: str) -> FineTuningProvider:
    """Make a provider by name."""
    if name == "openai":
        from truthgym.training.providers.openai import OpenAIProvider

        return OpenAIProvider()
    from truthgym.training.providers.together import TogetherProvider

    return TogetherProvider()


def fine_tune(
    spec: JobSpec,
    provider: FineTuningProvider,
    output_dir: Path,
    confirm: Callable[[str], bool],
    *,
    poll: float = 20.0,
    wait: bool = True,
    overwrite: bool = False,
    log: Callable[[str], None] = print,
) -> Path | None:
    """Submit a fine-tuning job, or watch the job that was submitted before, and write the card of its model."""
    data = hash_dataset(spec.dataset)
    lines = upload_lines(spec, provider.name.lower())
    config = {"provider": provider.name.lower(), **spec.hyperparameters()}
    base_hash = f"{provider.name.lower()}:{spec.model}"
    hashed = config | {"grader": spec.grader, "suffix": spec.suffix}
    folder = output_dir / model_name(spec.method, spec.model, base_hash, data, hashed)
    with folder_lock(folder):
        job = Job(folder)
        if overwrite and "id" in job.state:
            with translate_errors(provider, "the status of the earlier job"):
                status = provider.status(job.state["id"])
            if not status.ended:
                raise bad_input(
                    f"{folder}: its {provider.name} job {job.state['id']} is still {status.status}; cancel it there "
                    "before you submit another, or leave out --overwrite to watch it"
                )
            job.state = {}
        elif is_finished(folder):
            log(f"{folder} is already trained: {read_card(folder).model} (--overwrite trains it again)")
            return folder
        if "id" not in job.state and not _submit(job, spec, provider, lines, confirm):
            return None
        log(f"{folder}: {provider.name} job {job.state['id']}")
        if not wait:
            return folder
        status = _watch(job, provider, poll, log)
        if status.model is None:
            raise bad_input(
                f"{provider.name} job {job.state['id']} ended without a model: {status.failure}. To submit another "
                f"with the same data and options, add --overwrite ({folder})"
            )
        if spec.grader:
            config["grader"] = spec.grader["name"]
        card = ModelCard(spec.method, spec.model, base_hash, status.model, str(spec.dataset), data, config)
        card.curve, card.dataset_facts = status.curve, card_metadata(spec.dataset)
        card.notes = [f"Trained at {provider.name} by its job `{job.state['id']}`.", *status.notes]
        write_card(folder, card)
        log(f"Trained: {status.model}. See {folder / CARD}")
        return folder


def _submit(
    job: Job, spec: JobSpec, provider: FineTuningProvider, lines: dict[str, list[bytes]], confirm: Callable[[str], bool]
) -> bool:
    """Write the files, upload them and create the job. False if `confirm` declined."""
    with translate_errors(provider, f"{spec.method} of {spec.model}"):
        provider.check(spec)
    job.folder.mkdir(parents=True, exist_ok=True)
    paths = {split: job.folder / f"{job.folder.name}-{split}.jsonl" for split in lines}
    for split, path in paths.items():
        path.write_bytes(b"".join(lines[split]))
    rows = ", ".join(f"{len(rows):,} {split} rows" for split, rows in lines.items())
    if not confirm(f"{provider.name}: {spec.method} of {spec.model} on {rows} ({paths['train']}). It costs money."):
        return False
    files = {}
    for split, path in paths.items():
        with translate_errors(provider, f"the upload of {path.name}"):
            files[split] = provider.upload(path)
    with translate_errors(provider, "the job"):
        created = provider.create(spec, files)
    (job.folder / CARD).unlink(missing_ok=True)  # of the model that is trained again
    job.record(provider=provider.name, spec=asdict(spec) | {"dataset": str(spec.dataset)}, files=files, id=created)
    return True


def _watch(job: Job, provider: FineTuningProvider, poll: float, log: Callable[[str], None]) -> JobStatus:
    """Request the status until the job has ended, also while the provider cannot be reached for a time."""
    seen: set[str] = set()
    while True:
        with translate_errors(provider, f"the status of {job.state['id']}"):
            try:
                status = provider.status(job.state["id"])
                events = [*status.events, f"Status: {status.status}"]
            except provider.transient as error:
                status = None
                events = [f"{provider.name} cannot be reached ({error_text(error)}); trying again"]
        for event in (event for event in events if event not in seen):
            log(event)
        seen.update(events)
        if status:
            job.record(status=status.status)
            if status.ended:
                return status
        time.sleep(poll)


def upload_lines(spec: JobSpec, provider: str) -> dict[str, list[bytes]]:
    """Make the lines of each split of a dataset. One of the kind `openai` is uploaded as it is."""
    kind, needed = card_metadata(spec.dataset).get("kind"), KIND_OF_METHOD[spec.method]
    if kind not in (None, "openai", needed):
        raise bad_input(
            f"{spec.dataset} is a dataset of kind {kind}, but {spec.method} needs kind {needed}; make it with "
            f"`truthgym convert LOGS --to {needed} --out FOLDER`"
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
            f"`truthgym convert LOGS --to {KIND_OF_METHOD[method]}`"
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
    if not (spec.grader and needs_target(spec.grader)):
        return
    from truthgym.datasets.question import yes_or_no

    for line in lines:
        line["target"] = line["reference_answer"] = yes_or_no(line.get("target"), line)
    if missing := sum(line["target"] not in ("yes", "no") for line in lines):
        raise bad_input(
            f"{spec.dataset}, {split}: {missing} rows have no target yes or no, which the grader "
            f"{spec.grader['name']} reads; leave these rows out, or use another grader"
        )
