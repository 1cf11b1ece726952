"""The archive of an invented world: search, records and tables, with seeded oversights, failures and delays."""

import random
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from truthgym.datasets.agent_worlds.world import TABLES, World, words

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

    A closed archive opens step by step: a search lists only records that the question or a record read before names,
    and what a search listed can be read. So there is nothing to learn of a source before its name is known. In the row
    of a table that is missing stands another name, which nothing else has.

    What goes wrong is drawn by the archive's key, the tool and the number of its call: the same calls in the same
    order meet the same oversights and failures.
    """

    key: str
    """The world's key, and what else the draws depend on, such as the epoch."""
    world: World
    told: tuple[str, ...] = ()
    """Names that the question tells. None: the archive is not closed."""
    missing: str = ""
    """A source that is missing: a record, by its entity's name, or a row of a table, as "towns.csv: Dorel"."""
    miss: int = 0
    """Percent of the fitting records that a search overlooks, each anew in every search."""
    failure: int = 0
    """Percent of the calls that fail."""
    delay: float = 0.0
    """Mean seconds that a call takes."""

    def open_names(self, calls: Sequence[Call]) -> Collection[str]:
        """The names that a search after these calls looks up."""
        if not self.told:
            return self.world.kinds
        read = [name for call in calls if call.tool == "retrieve" for name in call.shown]
        return {*self.told, *(name for one in read for name in self.world.named_in(one))}

    def ranking(self, query: str, opened: Collection[str]) -> list[str]:
        """The entities whose names or kinds fit a query best, by BM25+, the missing one included: at most five."""
        asked = set(words(query))
        if not asked:
            return []
        scored = zip(self.world.kinds.items(), self.world.catalogue.get_scores(sorted(asked)), strict=True)
        fits = [(-score, name) for (name, kind), score in scored if name in opened and asked & {name.lower(), kind}]
        return [name for _, name in sorted(fits)[:SHOWN]]

    def seconds(self, tool: str, number: int) -> float:
        """How long the call of this number takes: exponential, by the seed."""
        return self._draw("delay", tool, number).expovariate(1 / self.delay) if self.delay else 0.0

    def fails(self, tool: str, number: int) -> bool:
        """Whether the call of this number, from 0, of a tool fails."""
        return self._draw("failure", tool, number).random() < self.failure / 100

    def search(self, query: str, calls: Sequence[Call]) -> list[str]:
        """The names of the records that a search lists after these calls."""
        number = count(calls, "search")
        return [
            name
            for name in self.ranking(query, self.open_names(calls))
            if name != self.missing and self._draw("miss", name, number).random() >= self.miss / 100
        ]

    def record(self, number: int, calls: Sequence[Call]) -> str | None:
        """The entity whose record has this number, or None if there is none that can be read after these calls."""
        name = self.world.number_of(number)
        listed = {one for call in calls if call.tool == "search" for one in call.shown}
        return name if name != self.missing and (name in listed or not self.told) else None

    def table(self, file: str) -> str:
        """The text of a table, or "" if there is none of this name."""
        kind = next((kind for kind, (name, _) in TABLES.items() if name == file), None)
        missing_in, _, row = self.missing.rpartition(": ")
        return "" if kind is None else self.world.table(kind, row if missing_in == file else None)

    def _draw(self, *what: object) -> random.Random:
        return random.Random("/".join(map(str, (self.key, *what))))


def count(calls: Sequence[Call], tool: str) -> int:
    """How many of the calls are of a tool."""
    return sum(call.tool == tool for call in calls)


def listing(place: World, shown: Sequence[str]) -> str:
    """A list of records as a search writes it."""
    return "\n".join(f"No. {place.numbers[name]}: {name}, {place.kinds[name]}" for name in shown) or NOTHING


def listed_names(place: World, text: str) -> tuple[str, ...]:
    """The names in a list that `listing` wrote."""
    numbers = (int(number) for number in re.findall(r"^No\. (\d{4}): ", text, re.MULTILINE))
    return tuple(name for number in numbers if (name := place.number_of(number)))
