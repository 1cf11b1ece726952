"""The questionnaire behind a value vector: dilemmas and statements whose options uphold moral dimensions or do not."""

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError, model_validator

from truthgym.datasets.errors import BadInput, bad_fields, one_of
from truthgym.datasets.loading.row_files import FILE_SUFFIXES, Row, read_rows
from truthgym.datasets.loading.source import bundled_file

RULES = ("kill", "pain", "disable", "freedom", "pleasure", "deceive", "cheat", "promise", "law", "duty")
"""The ten moral rules of Gert that MoralChoice asks about. The option that keeps the rule upholds the dimension."""
FOUNDATIONS = ("Harm_Care", "Fairness_Reciprocity", "InGroup_Loyalty", "Authority_Respect", "Purity_Sanctity")
"""The five foundations of Moral Foundations Theory."""
WORLDVIEWS = ("Traditional", "Modern", "Post-modern", "Integrated")
"""The four worldviews of the Integrative Worldview Framework."""
DIMENSIONS = RULES + FOUNDATIONS + WORLDVIEWS
"""The 19 coordinates of a value vector, in ProgressGym's order. It spells the last foundation Purity_Sancity."""
SETS = (RULES, FOUNDATIONS, WORLDVIEWS)
"""ProgressGym averages each of the three sets by itself."""
LETTERS = "ABCD"
Pool = Literal["learn", "eval"]


class ItemRow(BaseModel, extra="forbid"):
    """A row of a questionnaire."""

    id: str = Field(min_length=1)
    context: str = Field(min_length=1)
    options: list[str] = Field(min_length=2, max_length=len(LETTERS))
    upholds: list[list[str]]
    """For each option, the dimensions that it upholds."""

    @model_validator(mode="after")
    def _is_complete(self) -> "ItemRow":
        named = [dimension for dimensions in self.upholds for dimension in dimensions]
        if len(self.upholds) != len(self.options):
            raise ValueError(
                f"upholds has {len(self.upholds)} lists for {len(self.options)} options; give one for each"
            )
        unknown = [name for name in named if name not in DIMENSIONS]
        if unknown:
            raise ValueError(f"upholds: there is no dimension {unknown[0]!r}; known: {', '.join(DIMENSIONS)}")
        if not named or len(set(named)) < len(named):
            raise ValueError("upholds must name a dimension, and each dimension in one option only")
        if len(set(self.options)) < len(self.options):
            raise ValueError(f"two of the options {self.options!r} are equal; change one")
        return self


@dataclass(frozen=True)
class Item:
    """A question with two to four options."""

    id: str
    context: str
    options: tuple[str, ...]
    upholds: tuple[tuple[str, ...], ...]

    @cached_property
    def loadings(self) -> NDArray[np.float64]:
        """Options x 19: 1 where the option upholds the dimension, -1 / (options - 1) where another one does, else 0.

        Times the probabilities of the options, this is 1 if the upholding option is always chosen, and 0 at chance.
        """
        loadings = np.zeros((len(self.options), len(DIMENSIONS)))
        for i, dimensions in enumerate(self.upholds):
            for dimension in dimensions:
                loadings[:, DIMENSIONS.index(dimension)] = -1 / (len(self.options) - 1)
                loadings[i, DIMENSIONS.index(dimension)] = 1
        return loadings

    def row(self) -> dict[str, object]:
        """The item as a row."""
        return {
            "id": self.id,
            "context": self.context,
            "options": [*self.options],
            "upholds": [[*u] for u in self.upholds],
        }

    @property
    def dimension(self) -> str:
        """Its first dimension: the one by which items are split into pools."""
        return next(name for dimensions in self.upholds for name in dimensions)


@dataclass(frozen=True, eq=False)  # compared by identity, since the hash of all items would be taken at every call
class Questionnaire:
    """Items in two disjoint pools: an examinee learns from the one and is measured on the other."""

    name: str
    items: tuple[Item, ...]

    @cached_property
    def by_id(self) -> Mapping[str, Item]:
        return {item.id: item for item in self.items}

    @cached_property
    def digest(self) -> str:
        """Identifies the items and their order: 16 hexadecimal digits."""
        return sha256(repr(self.items).encode()).hexdigest()[:16]

    @cached_property
    def pools(self) -> Mapping[Pool, tuple[Item, ...]]:
        """Both pools. In each dimension every other item, in the order of a hash of the ids, is in the pool `learn`."""
        learn: set[str] = set()
        for dimension in DIMENSIONS:
            of_it = sorted((item.id for item in self.items if item.dimension == dimension), key=_hash)
            learn.update(of_it[::2])
        return {
            "learn": tuple(item for item in self.items if item.id in learn),
            "eval": tuple(item for item in self.items if item.id not in learn),
        }

    def subset(self, per_dimension: int | None) -> "Questionnaire":
        """The first so many items of each dimension, in the order of a hash of the ids. None: all."""
        if per_dimension is None:
            return self
        if per_dimension < 2:
            raise BadInput(f"items={per_dimension} leaves one of the pools empty; give at least 2 for each dimension")
        kept: set[str] = set()
        for dimension in DIMENSIONS:
            kept.update(sorted((i.id for i in self.items if i.dimension == dimension), key=_hash)[:per_dimension])
        return Questionnaire(self.name, tuple(item for item in self.items if item.id in kept))


IN_USE: ContextVar[Questionnaire | None] = ContextVar("questionnaire", default=None)
"""The questionnaire of the sample that runs. Simulated agents read it here, to recognise its items."""


def _hash(name: str) -> bytes:
    return sha256(name.encode()).digest()


def questionnaire(source: str = "bundled", items: int | None = None) -> Questionnaire:
    """Load a questionnaire."""
    from truthgym.datasets.sources.moralevals import moralchoice, moralevals

    real: dict[str, Callable[[], Iterable[Row]]] = {"moralchoice": moralchoice, "moralevals": moralevals}
    if source.endswith(FILE_SUFFIXES):
        rows: Iterable[Row] = read_rows(Path(source))
    else:
        one_of("questionnaire", source, ["bundled", *real, *(f"PATH{suffix}" for suffix in FILE_SUFFIXES)])
        rows = real[source]() if source in real else read_rows(bundled_file("progress"))
    loaded: dict[str, Item] = {}
    for place, row in rows:
        item = parse_item(place, row)
        if item.id in loaded:
            raise BadInput(f"{place}: duplicate id {item.id!r}; rename one of the items")
        loaded[item.id] = item
    result = Questionnaire(source, tuple(loaded.values())).subset(items)
    pools = [{item.dimension for item in pool} for pool in result.pools.values()]
    alone = [name for name in DIMENSIONS if (name in pools[0]) != (name in pools[1])]
    if alone or not loaded:
        what = f"has only one item of {alone[0]}" if alone else "is empty"
        raise BadInput(f"{source}: the questionnaire {what}; give at least two items for each of its dimensions")
    return result


def parse_item(place: str, row: Mapping[str, object]) -> Item:
    """The item of a row."""
    try:
        read = ItemRow.model_validate(row)
    except ValidationError as error:
        raise bad_fields(place, error, list(ItemRow.model_fields)) from None
    return Item(read.id, read.context, tuple(read.options), tuple(map(tuple, read.upholds)))
