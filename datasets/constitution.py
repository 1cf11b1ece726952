"""A constitution: principles by which a judge compares two replies, and by which a model criticises its own."""

from pathlib import Path

from pydantic import BaseModel

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import read_models
from truthgym.datasets.question import Text

BUNDLED = Path(__file__).with_suffix(".jsonl")


class Principle(BaseModel, frozen=True, extra="forbid"):
    """One principle."""

    name: Text
    principle: Text
    """What a good reply does, in one sentence about "it"."""


def constitution(source: str = "built-in") -> list[Principle]:
    """The principles of a constitution, in order."""
    path = BUNDLED if source == "built-in" else Path(source)
    principles: dict[str, Principle] = {}
    for where, row in read_models(path, Principle):
        if row.name in principles:
            raise BadInput(f"{where}: the name {row.name!r} is repeated; rename one of the principles")
        principles[row.name] = row
    return list(principles.values())


def as_list(principles: list[Principle]) -> str:
    """The principles as a numbered list, for a prompt."""
    return "\n".join(f"{number}. {row.principle}" for number, row in enumerate(principles, start=1))
