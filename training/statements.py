"""Records of what was made from what: in-toto statements, one immutable file each, named by its digest.

A statement's subjects are what was made and its `resolvedDependencies` what it was made from, all by SHA-256. It lies
in `.lineage`, in the folder that it describes or beside the file.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import mkstemp
from typing import Any, Literal

from truthgym.datasets.digests import canonical_json, file_digest
from truthgym.training.files import CARD, hash_model

Event = Literal["search", "export", "deploy", "convert", "train", "eval"]
Status = Literal["succeeded", "failed", "cancelled"]
TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "https://github.com/truthgym/truthgym/lineage/{event}/v1"
FOLDER = ".lineage"


def digest_of(place: str | Path) -> str:
    """SHA-256, in hex, of a file, or of a folder's files without cards and the history of training.

    Of a model or dataset, which has a card or a `config.json`, the files at the top level count: below are its data and
    checkpoints. Of any other folder, such as a checkpoint of verl, all files in it count, with their paths. Of a name
    that is neither, such as a model's at a provider, it is the SHA-256 of the name.
    """
    path = Path(place)
    if path.is_file():
        return file_digest(path)
    if not path.is_dir():
        return sha256(str(place).encode()).hexdigest()
    return hash_model(str(path), deep=not any((path / name).is_file() for name in (CARD, "config.json")))


def store_of(place: Path) -> Path:
    """The folder of the statements about a file or folder."""
    return (place if place.is_dir() else place.parent) / FOLDER


def root_of(store: Path) -> Path:
    """The folder to which the paths in a store's statements are relative: the one around the described folder."""
    return store.resolve().parent.parent


def record(
    event: Event,
    subjects: Sequence[str | Path] | Mapping[str, str],
    parents: Sequence[str | Path] | Mapping[str, str] = (),
    *,
    store: Path | None = None,
    status: Status = "succeeded",
    parameters: Mapping[str, Any] | None = None,
    figures: Mapping[str, Any] | None = None,
    failure: Mapping[str, str] | None = None,
    finished: str | None = None,
) -> Path:
    """Write a statement. Several processes may write into one store at once; no statement is ever replaced.

    Args:
        event: What happened.
        subjects: What was made: files and folders, or digests by name.
        parents: What it was made from, likewise.
        store: Folder of the statement; by default that of the first subject.
        status: How it ended.
        parameters: The options that decide the result. Values that JSON does not know become text.
        figures: What was measured.
        failure: `type`, `message` and `stage` of what ended a run that did not succeed.
        finished: When, in ISO format; by default now.

    Returns:
        The file `SHA256.json`. It is canonical JSON, and its name is its SHA-256.
    """
    store = store or store_of(Path(next(iter(subjects))))
    base = root_of(store)
    statement = {
        "_type": TYPE,
        "subject": _resources(subjects, base),
        "predicateType": PREDICATE.format(event=event),
        "predicate": {
            "buildDefinition": {
                "buildType": event,
                "externalParameters": dict(parameters or {}),
                "resolvedDependencies": _resources(parents, base),
            },
            "runDetails": {
                "builder": {"id": "truthgym", "version": {"truthgym": version("truthgym")}},
                "metadata": {"finishedOn": finished or datetime.now(UTC).isoformat(timespec="seconds")},
            },
            "result": {"status": status, "figures": dict(figures or {}), "failure": dict(failure or {})},
        },
    }
    return write_statement(store, statement)


def canonical(statement: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys and without spaces; NaN is null."""
    plain = json.loads(json.dumps(statement, default=str), parse_constant=lambda _: None)
    return canonical_json(plain).encode()


def write_statement(store: Path, statement: Mapping[str, Any]) -> Path:
    """Write a statement under its digest, completely or not at all. An equal one that exists already stays."""
    content = canonical(statement)
    path = store / f"{sha256(content).hexdigest()}.json"
    store.mkdir(parents=True, exist_ok=True)
    number, name = mkstemp(prefix=".", suffix=".partial", dir=store)  # opened with O_EXCL
    partial = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(partial, path)  # fails if there is one, as O_EXCL does
    finally:
        partial.unlink()
    return path


def _resources(places: Sequence[str | Path] | Mapping[str, str], base: Path) -> list[dict[str, Any]]:
    """In-toto's resource descriptors. What is a path has a `uri`, relative to `base`, so that all may move together."""
    found = places if isinstance(places, Mapping) else {str(place): digest_of(place) for place in places}
    resources = []
    for name, digest in found.items():
        is_path = Path(name).exists()
        shown = os.path.relpath(Path(name).resolve(), base) if is_path else name
        resources.append({"name": shown, "digest": {"sha256": digest}} | ({"uri": f"file:{shown}"} if is_path else {}))
    return resources
