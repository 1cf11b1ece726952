"""Lineage: what was made from what, by digest. Records are in-toto statements, one immutable file each."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal

from truthgym.datasets.digests import canonical_json, file_digest
from truthgym.datasets.redaction import redacted
from truthgym.evallog.errors import bad_input
from truthgym.training.files import CARD, hash_model

Event = Literal["search", "export", "deploy", "convert", "train", "eval"]
Status = Literal["succeeded", "failed", "cancelled"]
TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "https://github.com/truthgym/truthgym/lineage/{event}/v1"
FOLDER = ".lineage"
SHORT = 12
NOT_RECORDED = "not recorded"
"""Of what is known by a name, such as a model at a provider. An artifact always has a statement of its export."""


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
    """Write a statement. Several processes may write into one store at once; no statement is ever replaced."""
    store = store or store_of(Path(next(iter(subjects))))
    base = _root_of(store)
    statement = {
        "_type": TYPE,
        "subject": _descriptors(subjects, base),
        "predicateType": PREDICATE.format(event=event),
        "predicate": {
            "buildDefinition": {
                "buildType": event,
                "externalParameters": dict(parameters or {}),
                "resolvedDependencies": _descriptors(parents, base),
            },
            "runDetails": {
                "builder": {"id": "truthgym", "version": {"truthgym": version("truthgym")}},
                "metadata": {"finishedOn": finished or datetime.now(UTC).isoformat(timespec="seconds")},
            },
            "result": {"status": status, "figures": dict(figures or {}), "failure": dict(failure or {})},
        },
    }
    plain = redacted(json.loads(json.dumps(statement, default=str), parse_constant=lambda _: None))
    content = canonical_json(plain).encode()
    path = store / f"{sha256(content).hexdigest()}.json"
    store.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        with NamedTemporaryFile(prefix=".", suffix=".partial", dir=store, delete=False) as file:
            file.write(content)
        Path(file.name).replace(path)
    return path


def record_failure(
    event: Event,
    name: str,
    error: BaseException,
    parents: Sequence[str | Path] | Mapping[str, str],
    store: Path,
    parameters: Mapping[str, Any],
) -> None:
    """Write the statement of a run that failed or was cancelled before what it makes was finished."""
    record(
        event,
        {f"{name} (unfinished)": digest_of(f"{name} (unfinished)")},
        parents,
        store=store,
        status="cancelled" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed",
        parameters=parameters,
        failure={"stage": event, "type": type(error).__name__, "message": str(error)[:500]},
    )


def digest_of(place: str | Path) -> str:
    """SHA-256, in hex, of a file, of a folder's files without cards and the history of training, or of a name.

    Of a model or dataset, which has a card or a `config.json`, the files at the top level count; else all.
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


def _root_of(store: Path) -> Path:
    """The folder to which the paths in a store's statements are relative: the one around the described folder."""
    return store.resolve().parent.parent


def _descriptors(places: Sequence[str | Path] | Mapping[str, str], base: Path) -> list[dict[str, Any]]:
    """In-toto's resource descriptors. What is a path has a `uri`, relative to `base`, so that all may move together."""
    digests = places if isinstance(places, Mapping) else {str(place): digest_of(place) for place in places}
    descriptors = []
    for name, digest in digests.items():
        is_path = Path(name).exists()
        text = os.path.relpath(Path(name).resolve(), base) if is_path else name
        descriptors.append({"name": text, "digest": {"sha256": digest}} | ({"uri": f"file:{text}"} if is_path else {}))
    return descriptors


@dataclass(frozen=True)
class Resource:
    """Something with a digest, in a statement."""

    name: str
    digest: str
    path: Path | None
    """Where it was; None if it is known by its name, as a model at a provider is."""

    @property
    def text(self) -> str:
        return f"{self.name} {self.digest[:SHORT]}"

    @property
    def state(self) -> str:
        """What is there now, compared with the digest."""
        if self.path is None:
            return NOT_RECORDED
        if not self.path.exists():
            return "missing"
        return "as recorded" if digest_of(self.path) == self.digest else "changed"


class Statement:
    """A statement that was read from a store. Content of another shape raises one of several errors."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        if content["_type"] != TYPE:
            raise ValueError(content["_type"])
        predicate = content["predicate"]
        definition, result = predicate["buildDefinition"], predicate["result"]
        failure = result.get("failure") or {}
        self.path = path
        self.event, self.status = str(definition["buildType"]), str(result["status"])
        self.finished = str(predicate["runDetails"]["metadata"]["finishedOn"])
        self.failure = ": ".join(str(failure[key]) for key in ("stage", "type", "message") if failure.get(key))
        """What ended a run that did not succeed; empty if it did."""
        self.subjects = self._resources(content["subject"])
        self.parents = self._resources(definition["resolvedDependencies"])

    def _resources(self, descriptors: list[dict[str, Any]]) -> list[Resource]:
        root = _root_of(self.path.parent)
        return [
            Resource(
                str(descriptor["name"]),
                str(descriptor["digest"]["sha256"]),
                (root / descriptor["name"]).resolve() if "uri" in descriptor else None,
            )
            for descriptor in descriptors
        ]


class Lineage:
    """The statements of stores, and of the stores beside what these name as parents."""

    def __init__(self, places: Sequence[str | Path]) -> None:
        """Read all statements that can be reached."""
        self.statements: dict[str, Statement] = {}
        """By the digest in the file's name."""
        self.damaged: list[str] = []
        """What is wrong with files of the stores, a sentence each."""
        waiting = [store for place in places for store in _stores(Path(place))]
        seen: set[Path] = set()
        while waiting:
            store = waiting.pop().resolve()
            if store in seen:
                continue
            seen.add(store)
            for statement in self._read(store):
                waiting += [store_of(parent.path) for parent in statement.parents if parent.path]
        if not self.statements and not self.damaged:
            raise bad_input(
                f"There is no lineage of {', '.join(map(str, places))}; give a folder with {FOLDER} in or beside it"
            )
        self.makers: dict[str, list[Statement]] = {}
        """By the digest of a subject, the statements about it, oldest first."""
        for statement in sorted(
            self.statements.values(), key=lambda statement: (statement.finished, statement.path.name)
        ):
            for subject in statement.subjects:
                self.makers.setdefault(subject.digest, []).append(statement)

    def _read(self, store: Path) -> Iterator[Statement]:
        for path in sorted(store.glob("*.json")) if store.is_dir() else []:
            content = path.read_bytes()
            if sha256(content).hexdigest() != path.stem:
                self.damaged.append(f"{path} was changed: its content has another digest than its name")
                continue
            try:
                self.statements[path.stem] = Statement(path, json.loads(content))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                self.damaged.append(f"{path} is not a statement")
                continue
            yield self.statements[path.stem]

    def find(self, what: str) -> str:
        """The digest of an artifact: of a path that exists, or the one digest that begins with `what`."""
        path = Path(what)
        digest = digest_of(path) if path.exists() else what
        matches = [maker for maker in self.makers if maker.startswith(digest)]
        if len(matches) != 1:
            raise bad_input(
                f"{what}: {len(matches)} artifacts in the lineage have this digest; give a path, or more digits"
            )
        return matches[0]

    def tree(self, digest: str, indent: str = "", above: tuple[str, ...] = ()) -> Iterator[str]:
        """An artifact with what it was made from, a line each, and further in what that was made from."""
        for statement in self.makers.get(digest, []):
            name = next(subject.text for subject in statement.subjects if subject.digest == digest)
            failure = f" ({statement.failure})" if statement.failure else ""
            yield f"{indent}{name}: {statement.event}, {statement.status}{failure}, {statement.finished}"
            for parent in statement.parents:
                if parent.digest in (*above, digest):
                    yield f"{indent}  {parent.text}: a cycle"
                elif parent.digest in self.makers:
                    yield from self.tree(parent.digest, indent + "  ", (*above, digest))
                else:
                    yield f"{indent}  {parent.text}: {parent.state}"

    def faults(self) -> list[str]:
        """Everything that is wrong, a sentence each: changed statements and artifacts, missing parents, cycles."""
        faults = list(self.damaged)
        for statement in self.statements.values():
            for subject in statement.subjects:
                newest = self.makers[subject.digest][-1] is statement
                # What another statement is about was replaced, and not changed.
                if newest and subject.state == "changed" and digest_of(str(subject.path)) not in self.makers:
                    faults.append(f"{subject.path} was changed after the statement {statement.path.stem[:SHORT]}")
            for parent in statement.parents:
                if parent.digest in self.makers or (state := parent.state) == "as recorded":
                    continue
                if state != NOT_RECORDED or parent.name.startswith("artifact:"):
                    faults.append(f"{statement.subjects[0].name} was made from {parent.text}, which is {state}")
        for digest in self.makers:
            faults += [
                f"{line.strip()} in the lineage of {digest[:SHORT]}"
                for line in self.tree(digest)
                if line.endswith("a cycle")
            ]
        return list(dict.fromkeys(faults))


def _stores(place: Path) -> list[Path]:
    if place.name == FOLDER:
        return [place]
    inside = sorted(place.rglob(FOLDER)) if place.is_dir() else []
    return [*inside, store_of(place)]
