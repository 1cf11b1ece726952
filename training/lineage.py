"""Lineage: what an artifact was made from, whether its records are intact, and what is missing.

truthgym lineage show trained/urns-sft-0123456789ab
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import bad_input
from truthgym.training.statements import FOLDER, TYPE, digest_of, root_of, store_of

SHORT = 12
NOT_RECORDED = "not recorded"
"""Of what is known by a name, such as a model at a provider. An artifact always has a statement of its export."""


@dataclass(frozen=True)
class Resource:
    """Something with a digest, in a statement."""

    name: str
    digest: str
    store: Path
    """Folder of the statement that names it."""
    is_path: bool
    """Whether it was a file or folder; else it is known by its name, as a model at a provider is."""

    @property
    def path(self) -> Path:
        """Where it was, if it is a file or folder."""
        return (root_of(self.store) / self.name).resolve()

    @property
    def text(self) -> str:
        return f"{self.name} {self.digest[:SHORT]}"


@dataclass(frozen=True)
class Statement:
    """A statement that was read from a store."""

    path: Path
    content: dict[str, Any]

    @property
    def event(self) -> str:
        return str(self._definition["buildType"])

    @property
    def status(self) -> str:
        return str(self.content["predicate"]["result"]["status"])

    @property
    def finished(self) -> str:
        return str(self.content["predicate"]["runDetails"]["metadata"]["finishedOn"])

    @property
    def failure(self) -> str:
        """What ended a run that did not succeed; empty if it did."""
        failure = self.content["predicate"]["result"].get("failure") or {}
        return ": ".join(str(failure[key]) for key in ("stage", "type", "message") if failure.get(key))

    @cached_property
    def subjects(self) -> list[Resource]:
        return self._resources(self.content["subject"])

    @cached_property
    def parents(self) -> list[Resource]:
        return self._resources(self._definition["resolvedDependencies"])

    @property
    def _definition(self) -> dict[str, Any]:
        definition: dict[str, Any] = self.content["predicate"]["buildDefinition"]
        return definition

    def _resources(self, given: list[dict[str, Any]]) -> list[Resource]:
        return [
            Resource(str(one["name"]), str(one["digest"]["sha256"]), self.path.parent, "uri" in one) for one in given
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
                waiting += [store_of(parent.path) for parent in statement.parents if parent.is_path]
        if not self.statements and not self.damaged:
            raise bad_input(
                f"There is no lineage of {', '.join(map(str, places))}; give a folder with {FOLDER} in or beside it"
            )
        self.makers: dict[str, list[Statement]] = {}
        """By the digest of a subject, the statements about it, oldest first."""
        for statement in sorted(self.statements.values(), key=lambda one: (one.finished, one.path.name)):
            for subject in statement.subjects:
                self.makers.setdefault(subject.digest, []).append(statement)

    def _read(self, store: Path) -> Iterator[Statement]:
        for path in sorted(store.glob("*.json")) if store.is_dir() else []:
            content = path.read_bytes()
            if sha256(content).hexdigest() != path.stem:
                self.damaged.append(f"{path} was changed: its content has another digest than its name")
                continue
            try:
                statement = Statement(path, json.loads(content))
                _ = statement.subjects, statement.parents, statement.status, statement.finished
                known = statement.content["_type"] == TYPE
            except (ValueError, LookupError, TypeError):
                known = False
            if not known:
                self.damaged.append(f"{path} is not a statement")
                continue
            self.statements[path.stem] = statement
            yield statement

    def find(self, what: str) -> str:
        """The digest of an artifact: of a path that exists, or the one digest that begins with `what`.

        Raises:
            BadInput: No statement is about it, or several digests begin so.
        """
        path = Path(what)
        digest = digest_of(path) if path.exists() else what
        found = sorted(maker for maker in self.makers if maker.startswith(digest))
        if len(found) != 1:
            raise bad_input(
                f"{what}: {len(found)} artifacts in the lineage have this digest; give a path, or more digits"
            )
        return found[0]

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
                    yield f"{indent}  {parent.text}: {self._unmade(parent)}"

    def faults(self) -> list[str]:
        """Everything that is wrong, a sentence each: changed statements and artifacts, missing parents, cycles."""
        faults = list(self.damaged)
        for statement in self.statements.values():
            for subject in statement.subjects:
                newest = self.makers[subject.digest][-1] is statement
                if (
                    newest
                    and subject.is_path
                    and subject.path.exists()
                    and digest_of(subject.path) != subject.digest
                    and not self._replaced(subject)
                ):
                    faults.append(f"{subject.path} was changed after the statement {statement.path.stem[:SHORT]}")
            for parent in statement.parents:
                state = self._unmade(parent)
                if parent.digest in self.makers or state == "as recorded":
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

    def _replaced(self, subject: Resource) -> bool:
        """Whether another statement is about what is now in the subject's place."""
        return digest_of(subject.path) in self.makers

    def _unmade(self, parent: Resource) -> str:
        """The state of a parent that no statement is about."""
        if not parent.is_path or not parent.path.exists():
            return "missing" if parent.is_path else NOT_RECORDED
        return "as recorded" if digest_of(parent.path) == parent.digest else "changed"


def _stores(place: Path) -> list[Path]:
    if place.name == FOLDER:
        return [place]
    inside = sorted(place.rglob(FOLDER)) if place.is_dir() else []
    return [*inside, store_of(place)]
