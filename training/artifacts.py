"""Files that training reads and writes: hashes, locks, atomic writes and cards with front matter."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import bad_input


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let no second command work on a folder at the same time: it would pay for a second job, or mix checkpoints.

    Raises:
        BadInput: One does.
    """
    from filelock import FileLock, Timeout

    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.parent / f".{folder.name}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise bad_input(f"Another command is at work on {folder}; wait for it, or end it first") from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held, so that nobody else's is removed
        lock.release()


CARD = "README.md"
MARK = "truthgym"
"""The key of a card's metadata that holds our facts."""
DATA_FILES = ("*.jsonl", "*.parquet", "*.arrow")


def hash_of_base(base: str, revision: str | None = None) -> str:
    """Tell a base model from all others: SHA-256 over a folder's files, or `name@revision` of one on the hub.

    In a folder, what lies at its top counts, but not cards, which change as evaluations are added.
    """
    folder = Path(base)
    if not folder.is_dir():
        return f"{base}@{revision or 'main'}"
    kept = [
        path for path in sorted(folder.iterdir()) if path.is_file() and path.suffix != ".md" and path.name[0] != "."
    ]
    told = [f"{path.name} {hash_file(path)}\n" for path in kept if path.name != "training_args.bin"]
    return sha256("".join(told).encode()).hexdigest()


def hash_files(dataset: Path) -> dict[str, str]:
    """SHA-256 of each data file in a dataset's folder, by name.

    Raises:
        BadInput: There is no such folder, or no data file in it.
    """
    if not dataset.is_dir():
        raise bad_input(
            f"There is no folder {dataset}; make one with `truthgym convert LOGS --to KIND --out {dataset}`"
        )
    paths = sorted(path for pattern in DATA_FILES for path in dataset.rglob(pattern))
    if not paths:
        raise bad_input(
            f"{dataset} holds no .jsonl, .parquet or .arrow file; give a folder that `truthgym convert` wrote"
        )
    return {str(path.relative_to(dataset)): hash_file(path) for path in paths}


def hash_file(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    read = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            read.update(block)
    return read.hexdigest()


def facts_of_dataset(dataset: Path) -> dict[str, Any]:
    """What a dataset's card says under `truthgym:`. Empty where it has no card, or not one of ours."""
    card = dataset / CARD
    facts = _front_matter(card).get("truthgym") if card.is_file() else None
    return facts if isinstance(facts, dict) else {}


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in markdown; nothing where it would have no rows."""
    if not rows:
        return ""
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def _front_matter(card: Path) -> dict[str, Any]:
    import yaml

    text = card.read_text(encoding="utf-8")
    if not text.startswith("---\n"):
        return {}
    try:
        told = yaml.safe_load(text[4:].split("\n---", 1)[0])
    except yaml.YAMLError as error:
        raise bad_input(
            f"{card}: its head is not YAML ({error}); correct what stands between the lines of `---`"
        ) from None
    return told if isinstance(told, dict) else {}


def _write(card: Path, head: Mapping[str, Any], text: str) -> Path:
    import yaml

    plain = json.loads(json.dumps(head, default=str))
    whole = f"---\n{yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)}---\n\n{text}"
    beside = card.with_name(f".{card.name}.partial")
    beside.write_text(whole, encoding="utf-8")
    return beside.replace(card)


def hash_of_file(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def card_metadata(folder: Path) -> dict[str, Any]:
    """The metadata of a card (`README.md`); empty where there is none."""
    import yaml

    card = folder / "README.md"
    if not card.is_file():
        return {}
    parts = card.read_text(encoding="utf-8").split("---\n", 2)
    if len(parts) < 3 or parts[0]:
        return {}
    try:
        read = yaml.safe_load(parts[1])
    except yaml.YAMLError:
        return {}
    return read if isinstance(read, dict) else {}
