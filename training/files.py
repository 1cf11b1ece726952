"""Files that training reads and writes: hashes, folder locks, atomic writes, models and cards with front matter."""

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.datasets.digests import file_digest
from truthgym.datasets.redaction import redact, redacted
from truthgym.evallog.errors import bad_input

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CARD = "README.md"
STATE_FILE = "trainer_state.json"
"""The file of a checkpoint that transformers writes last; also beside a trained model."""
RESULTS_FILE = "all_results.json"
HISTORY_FILES = (STATE_FILE, RESULTS_FILE, "training_args.bin", "loss.html")
"""Files beside a trained model that tell how it was trained, with times and paths. They are not part of its hash."""
METADATA_KEY = "truthgym"
"""The key of a card's front matter that holds Truthgym's own metadata."""
DATA_FILES = ("*.jsonl", "*.parquet", "*.arrow")
FRONT_MATTER = re.compile(r"---\n(.*?)^---(?:\n|\Z)\n?(.*)", re.DOTALL | re.MULTILINE)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock a folder, so that no second command pays for the same job or mixes its checkpoints with ours."""
    from filelock import FileLock, Timeout

    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.parent / f".{folder.name}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise bad_input(f"{folder} is in use by another command; wait until it ends, or stop it first.") from None
    except (OSError, NotImplementedError) as error:  # NFS without locks, for example
        raise bad_input(f"{folder}: {lock.lock_file} cannot be locked ({error}); choose a local disk") from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)  # before the release: afterwards it may be another process's file
        lock.release()


def write_atomically(path: Path, text: str) -> Path:
    """Write a UTF-8 file completely or not at all: a temporary file beside it (`.NAME.partial`) replaces it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    return partial.replace(path)


def check_new_folder(folder: Path, kinds: Collection[str], what: str, overwrite: bool) -> None:
    """Check that `what` can be written to a folder: it is new or empty, or has a card of these kinds to be replaced."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not overwrite:
        raise bad_input(f"{folder} already exists; give another folder with --out, or --overwrite to replace it")
    if not folder.is_dir() or card_metadata(folder).get("kind") not in kinds:
        raise bad_input(f"{folder} is not a {what}, so it is not overwritten; give another folder with --out")


def save_model(folder: Path, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", card: str) -> None:
    """Write a model, its tokenizer and its card completely or not at all. An existing folder is replaced."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    (partial / CARD).write_text(card, encoding="utf-8")
    if folder.is_dir():
        shutil.rmtree(folder)
    partial.rename(folder)


def hash_dataset(folder: Path) -> dict[str, str]:
    """SHA-256 of each data file in a dataset's folder, by the file's path relative to the folder."""
    if not folder.is_dir():
        raise bad_input(
            f"{folder} does not exist; create a dataset with `truthgym convert LOGS --to KIND --out {folder}`."
        )
    paths = sorted(path for pattern in DATA_FILES for path in folder.rglob(pattern))
    if not paths:
        raise bad_input(
            f"{folder} contains no .jsonl, .parquet or .arrow file; give a folder that `truthgym convert` wrote."
        )
    return {str(path.relative_to(folder)): file_digest(path) for path in paths}


def hash_model(name: str, revision: str | None = None, deep: bool = False) -> str:
    """Identify a base model: SHA-256 over the files of a folder, or `name@revision` of a model on the Hub."""
    folder = Path(name)
    if not folder.is_dir():
        return f"{name}@{revision or 'main'}"
    hashed = [
        path
        for path in sorted(folder.rglob("*") if deep else folder.iterdir())
        if path.is_file()
        and path.suffix != ".md"
        and not any(part[0] == "." for part in path.relative_to(folder).parts)
        and path.name not in HISTORY_FILES
    ]
    lines = [f"{path.relative_to(folder).as_posix()} {file_digest(path)}\n" for path in hashed]
    return sha256("".join(lines).encode()).hexdigest()


def read_markdown(path: Path) -> tuple[dict[str, Any], str]:
    """A Markdown file's YAML front matter, empty if there is none or it is not a mapping, and the text below it."""
    import yaml

    text = path.read_text(encoding="utf-8-sig")
    match = FRONT_MATTER.match(text)
    if match is None:
        return {}, text
    try:
        metadata = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise bad_input(f"{path}: the front matter between the `---` lines is not YAML: {error}; correct it.") from None
    return metadata if isinstance(metadata, dict) else {}, match[2]


def write_markdown(path: Path, metadata: Mapping[str, Any], text: str) -> Path:
    """Write a Markdown file with YAML front matter, atomically and without keys."""
    import yaml

    plain = redacted(json.loads(json.dumps(metadata, default=str)))
    head = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return write_atomically(path, f"---\n{head}---\n\n{redact(text)}")


def card_metadata(folder: Path) -> dict[str, Any]:
    """Truthgym's metadata in a folder's card: `truthgym:` in the front matter of README.md. Empty if there are none."""
    card = folder / CARD
    metadata = read_markdown(card)[0].get(METADATA_KEY) if card.is_file() else None
    return metadata if isinstance(metadata, dict) else {}


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; an empty string if there are no rows."""
    if not rows:
        return ""
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])
