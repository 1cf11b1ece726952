"""A converted dataset: a folder of rows with its card, which `datasets.load_dataset` and every TRL trainer read."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, get_args

import msgspec

from truthgym.evallog.errors import bad_input
from truthgym.training.artifacts import METADATA_KEY, card_metadata, hash_file

FileFormat = Literal["jsonl", "parquet", "arrow"]
TYPES: dict[str, object] = {
    **dict.fromkeys(("log", "eval_id", "task", "sample_id", "sample_uuid", "model", "solver"), "string"),
    **dict.fromkeys(("split", "event", "target", "error", "limit", "stop_reason"), "string"),
    **dict.fromkeys(
        ("rejected_uuid", "rejected_model", "rejected_solver", "proposition", "opened_on", "domain", "form", "id"),
        "string",
    ),
    **dict.fromkeys(("score", "margin", "base_rate", "crowd", "rejected_score"), "float64"),
    **dict.fromkeys(("label", "truncated", "aligned"), "bool"),
    "epoch": "int64",
    "labels": ["bool"],
    "completions": ["string"],
    "step_scores": ["float64"],
    "evidence": ["string"],
    "options": ["string"],
    "images": ["image"],
}
"""The type of each column that holds no messages. Columns that are not named here hold whatever JSON can."""
TYPED: dict[str, tuple[type, ...]] = {
    name: {"string": (str,), "bool": (bool,), "float64": (float, int), "int64": (int,)}.get(str(kind), (list,))
    for name, kind in TYPES.items()
}
"""What a value of a typed column is. Other projects' metadata may hold something else under its name."""
MESSAGES = ("prompt", "completion", "messages", "chosen", "rejected")

BUFFER = 1 << 20
"""Bytes that are gathered before they are written: a row by itself would be a call of the system each."""


class DatasetFolder:
    """Writes a dataset, row by row. What is there at the end of the `with` is whole, or nothing.

    Rows go to a neighbouring folder that takes the place of the real one at the very end, so that an interrupted
    conversion leaves nothing half done. What an earlier one left behind is cleared away.
    """

    def __init__(self, out: str | Path, file_format: FileFormat = "jsonl", overwrite: bool = False) -> None:
        """Check that the folder can be written.

        Raises:
            BadInput: It is there already and `overwrite` is not said, or it is no dataset of ours, which is never
                overwritten.
        """
        self.out = Path(os.path.abspath(out))  # noqa: PTH100 (`.` has no name, and links stay as they are)
        if file_format not in get_args(FileFormat):
            raise bad_input(f"--file-format {file_format}: known are {', '.join(get_args(FileFormat))}")
        if self.out.suffix in (".jsonl", ".json", ".parquet", ".arrow"):
            raise bad_input(f"--out {out}: a dataset is a folder with its card in it; give {Path(out).with_suffix('')}")
        if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            if not overwrite:
                raise bad_input(f"{out} is there already; give another --out, or say --overwrite")
            if not is_dataset(self.out):
                raise bad_input(f"{out} is no dataset of truthgym's, and so is not overwritten; give another --out")
        self.counts: Counter[str] = Counter()
        self._format: FileFormat = file_format
        self._files: dict[str, BinaryIO] = {}
        self._encode = msgspec.json.Encoder().encode_into
        self._buffer = bytearray()
        self._columns: dict[str, bool] = {}
        self._partial = self.out.parent / f".{self.out.name}.partial-{os.getpid()}"

    def __enter__(self) -> "DatasetFolder":
        try:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            self._clear()
            self._partial.mkdir()
        except OSError as error:
            raise bad_input(f"--out {self.out} cannot be written ({error}); give another place") from None
        return self

    def _clear(self) -> None:
        for left in self.out.parent.glob(f".{self.out.name}.partial-*"):
            if not _alive(left.name.rsplit("-", 1)[1]):
                shutil.rmtree(left)
        for left in self.out.parent.glob(f".{self.out.name}.replaced-*"):
            if _alive(left.name.rsplit("-", 1)[1]):
                continue
            if self.out.exists():
                shutil.rmtree(left)
            else:
                left.rename(self.out)  # killed between the two renames

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        for file in self._files.values():
            file.close()
        shutil.rmtree(self._partial, ignore_errors=True)

    def write(self, split: str, row: Mapping[str, Any]) -> None:
        """Add a row to a split. What is None is left out of it."""
        columns = self._columns
        held = {}
        for column, value in row.items():
            if value is None:
                columns.setdefault(column, True)
                continue
            held[column] = value
            if not columns.setdefault(column, True):
                continue
            # Messages of a role and a text are typed; with tool calls or images among them they are whatever JSON is.
            if column in MESSAGES:
                columns[column] = _are_plain(value)
            elif column in TYPED and type(value) not in TYPED[column]:
                columns[column] = False  # of the same name, and something else
        if split not in self._files:
            self._files[split] = (self._partial / f"{split}.jsonl").open("wb", buffering=BUFFER)
        try:
            self._encode(held, self._buffer)
        except UnicodeEncodeError:
            self._encode(_writable(held), self._buffer)
        self._buffer += b"\n"
        self._files[split].write(self._buffer)
        self._buffer.clear()
        self.counts[split] += 1

    def add(self, name: str, held: Mapping[str, Any]) -> None:
        """Put a JSON file beside the rows."""
        (self._partial / name).write_bytes(msgspec.json.format(msgspec.json.encode(held), indent=2) + b"\n")

    def finish(self, facts: Mapping[str, Any], title: str, text: str) -> None:
        """Write the card and put the folder in its place.

        Args:
            facts: What the card's metadata hold under `truthgym`.
            title: The card's heading.
            text: What stands under it.
        """
        import yaml

        for file in self._files.values():
            file.close()
        if self._format == "jsonl" and "images" in self._columns:
            raise bad_input(
                "There are images in these trajectories, which .jsonl cannot hold; add --file-format parquet"
            )
        if self._format != "jsonl":
            for split in self._files:
                _rewrite(self._partial / f"{split}.jsonl", self._format, self.features())
        files = [{"split": split, "path": f"{split}.{self._format}"} for split in self._files]
        # `load_dataset` keeps what it has read under the folder's name and this entry, and looks at nothing else:
        # without the hash it would return the rows of an earlier dataset, or of a folder of that name elsewhere.
        digests = [hash_file(self._partial / file["path"]) for file in files]
        metadata = {
            "configs": [{"config_name": "default", "description": " ".join(digests), "data_files": files}],
            "dataset_info": {"features": self.features()},
            "tags": ["truthgym"],
            METADATA_KEY: dict(facts),
        }
        head = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=120)
        (self._partial / "README.md").write_text(f"---\n{head}---\n\n# {title}\n\n{text}\n", encoding="utf-8")
        aside = self.out.parent / f".{self.out.name}.replaced-{os.getpid()}"
        if self.out.exists():
            self.out.rename(aside)
        self._partial.rename(self.out)
        shutil.rmtree(aside, ignore_errors=True)

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def features(self) -> list[dict[str, Any]]:
        """The columns as Hugging Face's metadata name their types."""
        return [_feature(name, plain) for name, plain in self._columns.items()]


def is_dataset(folder: Path) -> bool:
    """Whether a folder holds a dataset that was written here."""
    return bool(card_metadata(folder))


def _writable(value: Any) -> Any:  # noqa: ANN401
    """A value without halves of surrogate pairs, which models write now and then and UTF-8 has no bytes for."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_writable(key): _writable(held) for key, held in value.items()}
    return [_writable(held) for held in value] if isinstance(value, list) else value


def _are_plain(messages: Sequence[Mapping[str, Any]]) -> bool:
    for message in messages:  # a generator would cost more than what it looks at  # noqa: SIM110
        if len(message) != 2 or type(message["content"]) is not str:
            return False
    return True


def _feature(name: str, plain: bool) -> dict[str, Any]:
    if name in MESSAGES:
        fields = [{"name": "role", "dtype": "string"}, {"name": "content", "dtype": "string"}]
        return {"name": name, "list": fields} if plain else {"name": name, "dtype": "json"}
    kind = TYPES.get(name, "json") if plain else "json"
    return {"name": name, "list": kind[0]} if isinstance(kind, list) else {"name": name, "dtype": kind}


def _rewrite(rows: Path, file_format: FileFormat, features: Sequence[dict[str, Any]]) -> None:
    """Write a .jsonl file anew as parquet or Arrow, and remove it."""
    try:
        from datasets import Dataset, Features
    except ImportError:
        raise bad_input(
            f"--file-format {file_format} needs Hugging Face's datasets, which is not installed; install it with "
            '`pip install "truthgym[train]"`, or use jsonl'
        ) from None
    import pyarrow as pa

    typed = Features._from_yaml_list(list(features))
    cache = rows.parent / ".cache"
    made = Dataset.from_generator(
        _read, features=typed, gen_kwargs={"rows": str(rows)}, cache_dir=str(cache), keep_in_memory=False
    )
    target = rows.with_suffix(f".{file_format}")
    if file_format == "parquet":
        made.to_parquet(str(target))
    else:
        table = made.data.table
        with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    del made
    shutil.rmtree(cache, ignore_errors=True)
    rows.unlink()


def _read(rows: str) -> Iterator[dict[str, Any]]:
    from base64 import b64decode

    with Path(rows).open("rb") as file:
        for line in file:
            row: dict[str, Any] = msgspec.json.decode(line)
            if "images" in row:
                row["images"] = [{"bytes": b64decode(uri.split(",", 1)[1]), "path": None} for uri in row["images"]]
            yield row


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
