"""The archive of an invented world: search, records and tables, with seeded oversights, failures and delays."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from truthgym.datasets.agent_worlds.world import TABLES, World, world

SHOWN = 5
"""Records that a search returns at most."""
NOTHING = "No record found."


@dataclass(frozen=True)
class Call:
    """A call of a tool, with what it showed."""

    tool: str
    arguments: dict[str, Any]
    shown: tuple[str, ...] = ()
    """Names of the records that a search listed; of the record that was read; or of the rows of a table."""
    failed: bool = False


@dataclass(frozen=True)
class Archive:
    """The archive of a world in which a record or a row of a table may be missing.

    What goes wrong is drawn by the archive's key, the tool and the number of its call: the same calls in the same
    order meet the same oversights and failures.
    """

    key: str
    """The world's key, and what else the draws depend on, such as the epoch."""
    world_key: str
    size: int
    missing: str = ""
    """A source that is missing: a record, by its entity's name, or a row of a table, as "towns.csv: Dorel"."""
    miss: int = 0
    """Percent of the fitting records that a search overlooks, each anew in every search."""
    failure: int = 0
    """Percent of the calls that fail."""
    delay: float = 0.0
    """Mean seconds that a call takes."""

    @property
    def world(self) -> World:
        return world(self.world_key, self.size)

    def ranking(self, query: str) -> list[str]:
        """The entities whose records fit a query best, the missing one included: at most five, the best first."""
        return ranking(self.world_key, self.size, query)

    def seconds(self, tool: str, number: int) -> float:
        """How long the call of this number takes: exponential, by the seed."""
        return self._draw("delay", tool, number).expovariate(1 / self.delay) if self.delay else 0.0

    def fails(self, tool: str, number: int) -> bool:
        """Whether the call of this number, from 0, of a tool fails."""
        return self._draw("failure", tool, number).random() < self.failure / 100

    def search(self, query: str, number: int) -> list[str]:
        """The names of the records that a search lists.

        Args:
            query: Words.
            number: Number of this search, from 0.
        """
        return [
            name
            for name in self.ranking(query)
            if name != self.missing and self._draw("miss", name, number).random() >= self.miss / 100
        ]

    def record(self, number: int) -> str | None:
        """The entity whose record has this number, or None if the archive has none."""
        name = self.world.number_of(number)
        return None if name == self.missing else name

    def table(self, file: str) -> str:
        """The text of a table, or "" if there is none of this name."""
        kind = next((kind for kind, (name, _) in TABLES.items() if name == file), None)
        missing_in, _, row = self.missing.rpartition(": ")
        return "" if kind is None else self.world.table(kind, row if missing_in == file else None)

    def _draw(self, *what: object) -> random.Random:
        return random.Random("/".join(map(str, (self.key, *what))))


@lru_cache(maxsize=4096)
def ranking(world_key: str, size: int, query: str) -> list[str]:
    """`Archive.ranking`, by BM25+ over the records of a world. Records without a word of the query are left out."""
    place = world(world_key, size)
    named = list(place.records)
    words = set(_words(query))
    fits = [bool(words & set(_words(place.records[name]))) for name in named]
    scores = _index(world_key, size).get_scores(sorted(words)) if words else [0.0] * len(named)
    order = sorted((i for i in range(len(named)) if fits[i]), key=lambda i: (-scores[i], named[i]))
    return [named[i] for i in order[:SHOWN]]


@lru_cache(maxsize=256)
def _index(world_key: str, size: int) -> Any:  # noqa: ANN401 (rank_bm25 has no types)
    from rank_bm25 import BM25Plus

    # The title counts twice, as in a library's catalogue.
    return BM25Plus([_words(f"{name} {text}") for name, text in world(world_key, size).records.items()])


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def listing(place: World, shown: Sequence[str]) -> str:
    """A list of records as a search writes it."""
    return "\n".join(f"No. {place.numbers[name]}: {name}, {place.kinds[name]}" for name in shown) or NOTHING


def listed_names(place: World, text: str) -> tuple[str, ...]:
    """The names in a list that `listing` wrote."""
    numbers = (int(number) for number in re.findall(r"^No\. (\d{4}): ", text, re.MULTILINE))
    return tuple(name for number in numbers if (name := place.number_of(number)))
