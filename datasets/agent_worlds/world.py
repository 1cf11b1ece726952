"""An invented country: people, towns and guilds, how they are related, a record of each and tables of numbers.

A world is a function of its key and size. Its names are made of syllables, so that no model can know anything of it.
"""

import csv
import io
import random
import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.generated import names

RELATIONS: dict[str, dict[str, str]] = {
    "person": {"teacher": "person", "birthplace": "town", "guild": "guild"},
    "town": {"mayor": "person", "twin town": "town", "patron guild": "guild"},
    "guild": {"master": "person", "seat": "town", "rival": "guild"},
}
"""Of each kind of entity its relations, with the kind that each leads to. Every entity has each relation once."""
TABLES = {
    "person": ("people.csv", "taxes paid"),
    "town": ("towns.csv", "inhabitants"),
    "guild": ("guilds.csv", "members"),
}
"""Of each kind the table of numbers, and what it counts."""
YEARS = tuple(range(411, 417))
SENTENCES = {
    "teacher": ("{a} was taught by {b}.", "The teacher of {a} was {b}.", "{b} taught {a}."),
    "birthplace": ("{a} was born in {b}.", "The birthplace of {a} is {b}.", "{b} is where {a} was born."),
    "guild": ("{a} belongs to the guild {b}.", "The guild of {a} is {b}.", "{b} is the guild that took {a} in."),
    "mayor": ("The mayor of {a} is {b}.", "{a} has {b} as its mayor.", "{b} governs {a} as mayor."),
    "twin town": (
        "The twin town of {a} is {b}.",
        "{a} has {b} as its twin town.",
        "{b} is twin town to {a}.",
    ),
    "patron guild": (
        "The patron guild of {a} is {b}.",
        "{a} has the guild {b} as its patron.",
        "{b} is {a}'s patron.",
    ),
    "master": ("The master of {a} is {b}.", "{a} is led by its master {b}.", "{b} was chosen as master of {a}."),
    "seat": ("The seat of {a} is in {b}.", "{a} has its seat in {b}.", "{b} is the seat of {a}."),
    "rival": ("The rival of {a} is {b}.", "{a} has the guild {b} as its rival.", "{b} is the old rival of {a}."),
}
FILLER = (
    "The page is stained, but can be read.",
    "The record was copied twice.",
    "A seal is attached to it.",
    "It was written in a dry year.",
    "The margin has a drawing of a heron.",
)
MIN_SIZE, MAX_SIZE = 12, 237


@dataclass(frozen=True)
class Fact:
    """That `object` stands in `relation` to `subject`: the mayor of the town `subject` is `object`."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, eq=False)
class World:
    """An invented country."""

    kinds: dict[str, str]
    """The kind of each entity, by its name."""
    facts: dict[tuple[str, str], Fact] = field(repr=False)
    """By subject and relation."""
    numbers: dict[str, int] = field(repr=False)
    """The number of each entity's record, 1000 to 9999."""
    records: dict[str, str] = field(repr=False)
    """Text of each entity's record: all its facts, in some order."""
    counts: dict[str, tuple[int, ...]] = field(repr=False)
    """What the table counts of each entity, for each of `YEARS`."""
    spare: dict[str, str]
    """Of each kind a name that no entity has."""

    @cached_property
    def catalogue(self) -> Any:  # noqa: ANN401 (rank_bm25 has no types)
        """BM25+ over names and kinds, in the order of `kinds`. What the records say is not in it."""
        from rank_bm25 import BM25Plus

        return BM25Plus([words(f"{name} {kind}") for name, kind in self.kinds.items()])

    def named_in(self, name: str) -> list[str]:
        """The names in an entity's record: its own, and those of all that it is related to."""
        return [name, *(self.facts[name, relation].object for relation in self.relations(name))]

    def relations(self, name: str) -> list[str]:
        """The relations that an entity has."""
        return list(RELATIONS[self.kinds[name]])

    def number_of(self, number: int) -> str | None:
        """The entity whose record has this number, or None."""
        return next((name for name, one in self.numbers.items() if one == number), None)

    def chain(self, rng: random.Random, hops: int, start: str | None = None) -> list[Fact]:
        """Facts that lead from one to the next, without coming back: the object of each is the subject of the next."""
        if not 1 <= hops < len(self.kinds) / 3 or (start is not None and start not in self.kinds):
            raise BadInput(
                f"A chain of {hops!r} hops from {start or 'anywhere'} cannot be drawn in a world of {len(self.kinds)} "
                "entities; give 1 or more, fewer than a third of its size, and a name of the world"
            )
        while True:
            subject = start or rng.choice(sorted(self.kinds))
            chain: list[Fact] = []
            seen = {subject}
            while len(chain) < hops:
                onward = [f for r in self.relations(subject) if (f := self.facts[subject, r]).object not in seen]
                if not onward:
                    break
                chain.append(rng.choice(onward))
                subject = chain[-1].object
                seen.add(subject)
            if len(chain) == hops:
                return chain

    def table(self, kind: str, without: str | None = None) -> str:
        """The table of a kind as CSV: a row for each entity. In that of `without` stands a name that no entity has."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow([kind, *YEARS])
        lines.writerows(
            [self.spare[kind] if name == without else name, *self.counts[name]]
            for name, one in self.kinds.items()
            if one == kind
        )
        return text.getvalue()


def phrase(start: str, relations: list[str]) -> str:
    """What a chain of relations leads to, in words: "the mayor of the birthplace of Dorel"."""
    return " ".join(["".join(f"the {relation} of " for relation in reversed(relations)) + start])


def words(text: str) -> list[str]:
    """The words of a text as a search compares them."""
    return re.findall(r"\w+", text.lower())


@lru_cache(maxsize=256)
def world(key: str, size: int = 60, only_ways: tuple[tuple[str, str], ...] = ()) -> World:
    """Generate a world."""
    if not key or not isinstance(key, str) or not MIN_SIZE <= size <= MAX_SIZE:
        raise BadInput(
            f"There is no world {key!r} of size={size!r}; give a text as its key, and a size between {MIN_SIZE} and "
            f"{MAX_SIZE}"
        )
    rng = random.Random(f"agent_worlds/{key}/{size}")
    *named, person, town, guild = names(rng, size + len(RELATIONS))
    kinds = {name: tuple(RELATIONS)[i % len(RELATIONS)] for i, name in enumerate(named)}
    of_kind = {kind: [name for name in named if kinds[name] == kind] for kind in RELATIONS}
    facts = {
        (name, relation): Fact(name, relation, rng.choice([other for other in of_kind[to] if other != name]))
        for name in named
        for relation, to in RELATIONS[kinds[name]].items()
    }
    guarded = {facts[way].object for way in only_ways}
    again = random.Random(f"agent_worlds/{key}/{size}/ways")
    for way, fact in facts.items():
        if fact.object in guarded and way not in only_ways:
            others = [one for one in of_kind[kinds[fact.object]] if one != way[0] and one not in guarded]
            facts[way] = Fact(*way, again.choice(others))
    numbers = dict(zip(named, rng.sample(range(1000, 10000), size), strict=True))
    records = {}
    for name in named:
        told = [facts[name, relation] for relation in RELATIONS[kinds[name]]]
        sentences = [rng.choice(SENTENCES[fact.relation]).format(a=name, b=fact.object) for fact in told]
        sentences.append(rng.choice(FILLER))
        rng.shuffle(sentences)
        records[name] = f"{name}, {kinds[name]}. {' '.join(sentences)}"
    counts = {name: tuple(rng.randint(100, 9999) for _ in YEARS) for name in named}
    return World(kinds, facts, numbers, records, counts, dict(zip(RELATIONS, (person, town, guild), strict=True)))
