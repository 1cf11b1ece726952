"""What is served: a scorer with its options, models and direction, identified by a digest."""

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from truthgym.datasets.errors import BadInput, bad_fields
from truthgym.evallog.discovery import hash_file
from truthgym.training.artifacts import hash_model

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Names of specifications in a folder: no separators, no leading dot."""


class RewardSpec(BaseModel, frozen=True, extra="forbid"):
    """A reward by name and options, as `--reward` and `inspect score` take them."""

    scorer: str
    """A scorer's registered name; `graded` is short for `truthgym/graded`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Its arguments, as behind `-S`."""
    roles: dict[str, Any] = Field(default_factory=dict)
    """By role the name of its model, or a mapping with `model`, `model_args` and generation settings."""
    reward: str = ""
    """SCORER, SCORER/KEY, or either with :lowest or :highest, as for `--reward`. Empty: the scorer."""

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of the specification and of the content of every file and folder that it names."""
        whole = {**self.model_dump(), "files": dict(sorted(_files(self.model_dump())))}
        return sha256(json.dumps(whole, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _files(value: object) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [pair for one in value.values() for pair in _files(one)]
    if isinstance(value, list | tuple):
        return [pair for one in value for pair in _files(one)]
    if not isinstance(value, str) or not value or len(value) > 1000 or "\n" in value:
        return []
    path = Path(value)
    if path.is_file():
        return [(value, hash_file(path))]
    return [(value, hash_model(value))] if path.is_dir() else []


def read_spec(path: Path) -> RewardSpec:
    """Read a specification from a .json or .yaml file.

    Raises:
        BadInput: There is no such file, or it is not a specification.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise BadInput(
            f"{path} cannot be read as a specification ({type(error).__name__}); give JSON or YAML"
        ) from None
    if not isinstance(content, dict):
        raise BadInput(
            f"{path} is not a specification; write a mapping with `scorer`, and `options`, `roles`, `reward`"
        )
    try:
        return RewardSpec.model_validate(content)
    except ValidationError as error:
        raise bad_fields(str(path), error, list(RewardSpec.model_fields)) from None


def named_spec(folder: Path, name: str) -> RewardSpec:
    """The specification NAME.json or NAME.yaml of a folder. A name never leaves the folder.

    Raises:
        BadInput: Not a name, or no such file.
    """
    if NAME.fullmatch(name):
        for path in (folder / f"{name}.json", folder / f"{name}.yaml"):
            if path.is_file() and path.resolve().parent == folder.resolve():
                return read_spec(path)
    raise BadInput(f"There is no specification {name[:100]!r}; give the name of a file in the folder --specs")
