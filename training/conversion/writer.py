"""Writes a converted dataset: a folder of rows with a card, for `datasets.load_dataset` and every TRL trainer."""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from truthgym.datasets.digests import file_digest
from truthgym.evallog.errors import bad_input
from truthgym.evallog.schema import replace_surrogates
from truthgym.training.conversion.options import FileFormat
from truthgym.training.files import CARD, METADATA_KEY, check_new_folder, folder_lock, markdown_table, write_markdown
from truthgym.training.lineage import record

TYPES: dict[str, object] = {
    **dict.fromkeys(
        ("log", "eval_id", "task", "sample_id", "sample_uuid", "model", "solver", "split", "event", "target", "error",
         "limit", "stop_reason", "rejected_uuid", "rejected_model", "rejected_solver", "proposition", "opened_on",
         "domain", "form", "id", "chosen_model", "chosen_uuid", "datasource"),
        "string",
    ),
    **dict.fromkeys(("score", "margin", "base_rate", "crowd", "rejected_score"), "float64"),
    **dict.fromkeys(("label", "truncated", "aligned", "correct"), "bool"),
    **dict.fromkeys(("reward", "reward_score", "advantage"), "float64"),
    **dict.fromkeys(("epoch", "num_turns"), "int64"),
    **{name: ["string"] for name in ("completions", "evidence", "options")},
    **{name: ["bool"] for name in ("labels", "prompt_mask", "completion_mask")},
    **{name: ["float64"] for name in ("step_scores", "response_logprobs", "completion_logprobs", "logprobs",
                                      "advantages", "mask")},
    **{name: ["int64"] for name in ("prompt_ids", "response_ids", "response_mask", "completion_ids", "model_input",
                                    "target_tokens")},
    "images": ["image"],
}  # fmt: skip
"""The type of each column without messages. Columns that are not listed may hold any JSON value."""
PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    name: {"string": (str,), "bool": (bool,), "float64": (float, int), "int64": (int,)}.get(str(kind), (list,))
    for name, kind in TYPES.items()
}
"""The Python types of a typed column. Metadata of other projects may have other types under its name."""
MESSAGES = ("prompt", "completion", "messages", "chosen", "rejected", "input")

BUFFER_SIZE = 1 << 20
USES = {
    "sft": "`truthgym train sft --dataset_name {out}`, or plain `trl sft --dataset_name {out}`",
    "preference": "`truthgym train dpo --dataset_name {out}` or `truthgym train reward ...`, or plain `trl dpo`",
    "unpaired": "`truthgym train kto --dataset_name {out}`, or plain `trl kto`",
    "prompts": "TRL's GRPO and RLOO trainers, whose reward functions receive the other columns",
    "steps": "`truthgym train reward --dataset_name {out}`, which trains a process reward model",
    "few_shot": "`inspect eval ... --solver truthgym/few_shot -S source={out}/train.jsonl -S share=1.0 -S best={best}`",
    "openai": "`truthgym train sft|dpo|reinforcement --provider openai --dataset_name {out}`",
    "verl": "verl: a row has the fields of its `AgentLoopOutput`",
    "prime-rl": "prime-rl: a row has the fields of its `TrainingSample`",
    "tinker": "tinker: a row has the model input and the `loss_fn_inputs` of a `Datum`",
    "openrlhf": "OpenRLHF: `--prompt_data {out} --input_key input --label_key target --apply_chat_template`, with "
    "`training/openrlhf.py` as `--remote_rm_url`",
}
"""How to train on each kind of dataset, for its card."""
COLUMNS = {
    **dict.fromkeys(("prompt", "input"), "the conversation before the completion"),
    "completion": "one reply to train on",
    "messages": "the whole conversation; every reply in it may be trained on (`assistant_only_loss`)",
    "chosen": "the better of two replies",
    "rejected": "the worse of two replies",
    "margin": "how much better the trajectory of the chosen reply scored; of a label, how far its probability is "
    "above that of the opposite; above 0",
    "correct": "whether a judge's label agrees with the gold label",
    "chat_template_kwargs": "arguments of the chat template: whether the reply has a think block",
    "label": "whether the reply's trajectory is one of the better ones",
    "target": "the outcome",
    **dict.fromkeys(("reward", "reward_score"), "the score, negated if lower is better"),
    "advantage": "the reward minus the mean over the trajectories of the same question",
    "advantages": "the reward minus the mean over the trajectories of the same question, on each token of the reply",
    "completions": "the steps of the reasoning",
    "labels": "for each step, whether the belief after it is at least as close to the outcome as before",
    "step_scores": "for each step, by how much the Brier score of the belief fell; above 0 is better",
    "score": "the score by which the trajectory was selected",
}
AGENTS = (
    "Replies of `reference/` agents begin with a notice that they are simulated, and a model trained on them learns to "
    "write it: take these rows to try out a trainer, or remove the notice first."
)
"""In the card of a dataset whose logs are of such agents."""
TRACE_COLUMNS = ("log", "eval_id", "task", "sample_id", "sample_uuid", "epoch", "model", "solver", "split", "event")


class DatasetFolder:
    """Writes a dataset row by row, completely or not at all."""

    def __init__(self, out: str | Path, file_format: FileFormat = "jsonl", overwrite: bool = False) -> None:
        """Check that the folder can be written."""
        self.out = Path(out).resolve()
        if self.out.suffix in (".jsonl", ".json", ".parquet", ".arrow"):
            raise bad_input(f"--out {out}: a dataset is a folder with a card in it; give {Path(out).with_suffix('')}")
        self._overwrite = overwrite
        self._check()
        self.counts: Counter[str] = Counter()
        self._typed: set[tuple[str, type]] = set()
        self._format: FileFormat = file_format
        self._files: dict[str, BinaryIO] = {}
        self._encode = msgspec.json.Encoder().encode_into
        self._buffer = bytearray()
        self.columns: dict[str, bool] = {}
        """Each column, and whether all its values have its type."""
        self._lock = ExitStack()
        self._partial = self.out.with_name(f".{self.out.name}.partial")
        self._replaced = self.out.with_name(f".{self.out.name}.replaced")

    def _check(self) -> None:
        check_new_folder(self.out, USES, "dataset of truthgym", self._overwrite)

    def __enter__(self) -> "DatasetFolder":
        try:
            with ExitStack() as stack:
                stack.enter_context(folder_lock(self._partial))
                if self._replaced.exists() and not self.out.exists():
                    self._replaced.rename(self.out)  # `finish` was killed between its two renames
                self._check()  # another conversion may have written it since
                shutil.rmtree(self._replaced, ignore_errors=True)
                shutil.rmtree(self._partial, ignore_errors=True)
                self._partial.mkdir()
                self._lock = stack.pop_all()
        except OSError as error:
            raise self._unwritable(error) from None
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        for file in self._files.values():
            with suppress(OSError):  # what is in its buffer may not fit on the disk either
                file.close()
        shutil.rmtree(self._partial, ignore_errors=True)
        self._lock.close()
        if isinstance(error, OSError):
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> Exception:
        return bad_input(
            f"--out {self.out} cannot be written ({error}); give another folder, or free space on its disk"
        )

    def write(self, split: str, row: Mapping[str, Any]) -> None:
        """Add a row to a split. Values of None are omitted from it."""
        values = {column: value for column, value in row.items() if value is not None}
        for column, value in row.items():
            if (column, type(value)) not in self._typed:
                self._note(column, value)
        if split not in self._files:
            self._files[split] = (self._partial / f"{split}.jsonl").open("wb", buffering=BUFFER_SIZE)
        try:
            self._encode(values, self._buffer)
        except UnicodeEncodeError:
            self._encode(replace_surrogates(values), self._buffer)
        self._buffer += b"\n"
        self._files[split].write(self._buffer)
        self._buffer.clear()
        self.counts[split] += 1

    def _note(self, column: str, value: object) -> None:
        """Record whether a value has its column's type. A value of a type that was seen before is not looked at."""
        typed = self.columns.setdefault(column, True)
        if value is None:
            return
        # Messages with a role and a text have a type; with tool calls or images they are any JSON value.
        if column in MESSAGES:
            self.columns[column] = typed and _are_texts(cast("list[dict[str, Any]]", value))
        else:
            self._typed.add((column, type(value)))
            self.columns[column] = typed and type(value) in PYTHON_TYPES.get(column, (type(value),))

    def add(self, name: str, content: Mapping[str, Any]) -> None:
        """Add a JSON file to the folder."""
        (self._partial / name).write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")

    def finish(self, facts: Mapping[str, Any], title: str, text: str) -> None:
        """Write the card and rename the folder to its final name."""
        for file in self._files.values():
            file.close()
        if self._format == "jsonl" and "images" in self.columns:
            raise bad_input("These trajectories contain images, which .jsonl cannot hold; add --file-format parquet")
        if self._format != "jsonl":
            for split in self._files:
                _rewrite(self._partial / f"{split}.jsonl", self._format, self.features())
        files = [{"split": split, "path": f"{split}.{self._format}"} for split in self._files]
        # `load_dataset` caches rows by the folder's name and this entry alone. Without the hashes it would return the
        # rows of an earlier dataset, or of another folder of the same name.
        digests = [file_digest(self._partial / file["path"]) for file in files]
        metadata = {
            "configs": [{"config_name": "default", "description": " ".join(digests), "data_files": files}],
            "dataset_info": {"features": self.features()},
            "tags": ["truthgym"],
            METADATA_KEY: dict(facts),
        }
        write_markdown(self._partial / CARD, metadata, f"# {title}\n\n{text}\n")
        if self.out.exists():
            self.out.rename(self._replaced)
        self._partial.rename(self.out)
        shutil.rmtree(self._replaced, ignore_errors=True)
        logs = {log["log"]: log["sha256"] for log in facts.get("logs", ()) if "sha256" in log}
        settings = {key: facts.get(key) for key in ("kind", "selection", "settings", "rows")}
        record("convert", [self.out], logs, parameters=settings)

    def features(self) -> list[dict[str, Any]]:
        """The columns with their types, in the format of Hugging Face's metadata."""
        return [_feature(name, typed) for name, typed in self.columns.items()]


def card_text(facts: Mapping[str, Any], out: str, columns: Iterable[str]) -> str:
    """The text of a dataset's card in Markdown: what it contains, its logs, and what was left out and why."""
    rows = ", ".join(f"{number:,} of {split}" for split, number in facts["rows"].items())
    use = USES[facts["kind"]].format(out=out, best=facts["selection"].get("best") or "lowest")
    trace = ", ".join(f"`{name}`" for name in columns if name in TRACE_COLUMNS)
    logs = [(log["log"], log["task"], log["model"], log["sha256"][:16]) for log in facts["logs"]]
    parts = [
        f"Training rows, converted from Inspect logs by `truthgym convert --to {facts['kind']}`: {rows}.",
        f"Use it with {use}.",
        *([AGENTS] if any(log["model"].startswith("reference/") for log in facts["logs"]) else []),
        "## Selection",
        "\n".join(_item(name, value) for name, value in {**facts["selection"], **facts["settings"]}.items()),
        "No question is of the test split. All questions of one event are in the same part, `train` or `validation`.",
        f"{facts['samples']:,} samples were read. Left out:",
        "\n".join(f"- {number:,}: {reason}" for reason, number in facts["left_out"].items() if number),
        f"**Warning:** {facts['warning']}." if facts.get("warning") else "",
        "## Columns",
        "\n".join([*(f"- `{name}`: {COLUMNS[name]}" for name in columns if name in COLUMNS),
                   f"- the row's log: {trace or 'not included'}"]),
        "## Logs",
        markdown_table(["log", "task", "model", "SHA-256"], [[f"`{cell}`" for cell in log] for log in logs]),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def _item(option: str, value: object) -> str:
    text = ", ".join(str(item) for item in value) if isinstance(value, list | tuple) else f"`{value}`"
    return f"- {option.replace('_', ' ')}: {text}"


def _are_texts(messages: Sequence[Mapping[str, Any]]) -> bool:
    for message in messages:  # faster than a generator  # noqa: SIM110
        if len(message) != 2 or type(message["content"]) is list:
            return False
    return True


def _feature(name: str, typed: bool) -> dict[str, Any]:
    if name in MESSAGES:
        fields = [{"name": "role", "dtype": "string"}, {"name": "content", "dtype": "string"}]
        return {"name": name, "list": fields} if typed else {"name": name, "dtype": "json"}
    kind = TYPES.get(name, "json") if typed else "json"
    return {"name": name, "list": kind[0]} if isinstance(kind, list) else {"name": name, "dtype": kind}


def _rewrite(rows: Path, file_format: FileFormat, features: Sequence[dict[str, Any]]) -> None:
    """Convert a .jsonl file to parquet or Arrow, and remove it."""
    try:
        from datasets import Dataset, Features
    except ImportError:
        raise bad_input(
            f"--file-format {file_format} needs Hugging Face's datasets, which is not installed; run "
            '`pip install -e ".[train]"`, or use jsonl'
        ) from None
    import pyarrow as pa

    typed = Features._from_yaml_list(list(features))
    cache = rows.parent / ".cache"
    dataset = Dataset.from_generator(
        _read_rows, features=typed, gen_kwargs={"rows": str(rows)}, cache_dir=str(cache), keep_in_memory=False
    )
    target = rows.with_suffix(f".{file_format}")
    if file_format == "parquet":
        dataset.to_parquet(str(target))
    else:
        table = dataset.data.table
        with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    del dataset
    shutil.rmtree(cache, ignore_errors=True)
    rows.unlink()


def _read_rows(rows: str) -> Iterator[dict[str, Any]]:
    from base64 import b64decode

    with Path(rows).open("rb") as file:
        for line in file:
            row: dict[str, Any] = msgspec.json.decode(line)
            if "images" in row:
                row["images"] = [{"bytes": b64decode(uri.split(",", 1)[1]), "path": None} for uri in row["images"]]
            yield row
