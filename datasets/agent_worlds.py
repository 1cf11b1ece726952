r"""Invented countries, their archives, and what each call of a tool says of whether a question can be answered.

A country is a function of its key and size: people, towns and guilds, how they are related, a record of each and
tables of numbers. Its names are made of syllables, so that no model can know anything of it. Its archive has seeded
oversights, failures and delays.

A question needs one or more sources in turn: records, each of which names the next, and perhaps a row of a table. With
the stated chance b all of them exist; otherwise exactly one of the h is missing, each with the same chance. A search
overlooks a fitting record with the stated chance m. So after any calls the probability that the question can be
answered is known exactly:

$$P(\text{all})\propto b\prod_j m^{k_j},\qquad P(j\text{ missing})\propto\frac{1-b}{h}\prod_{i\ne j}m^{k_i}$$

where $k_j$ searches would have listed the record j and did not; the second is 0 once j has been seen. Failed calls say
nothing. Nothing else does, since the archive is closed (`Archive`): a record is not looked up before a
record that was read names it, no other record names it, the catalogue has names and kinds alone, and a table has as
many rows with a missing one as without. A table says something of a row from when the row's name is known.
"""

import csv
import io
import math
import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import permutations
from typing import Any

from truthgym.datasets.loading.generated import names
from truthgym.datasets.question import Question

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
    "twin town": ("The twin town of {a} is {b}.", "{a} has {b} as its twin town.", "{b} is twin town to {a}."),
    "patron guild": ("The patron guild of {a} is {b}.", "{a} has the guild {b} as its patron.", "{b} is {a}'s patron."),
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
        return next((name for name, own in self.numbers.items() if own == number), None)

    def chain(self, rng: random.Random, hops: int) -> list[Fact]:
        """Facts that lead from one to the next, without coming back: the object of each is the subject of the next."""
        chain: list[Fact] = []
        while len(chain) < hops:
            subject = chain[-1].object if chain else rng.choice(sorted(self.kinds))
            seen = {subject, *(fact.subject for fact in chain)}
            onward = [f for r in self.relations(subject) if (f := self.facts[subject, r]).object not in seen]
            chain = [*chain, rng.choice(onward)] if onward else []  # a dead end: anew from elsewhere
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
            others = [name for name in of_kind[kinds[fact.object]] if name != way[0] and name not in guarded]
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
        return {*self.told, *(name for record in read for name in self.world.named_in(record))}

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
        listed = {name for call in calls if call.tool == "search" for name in call.shown}
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


REFUSAL = 0.1
"""A reader may say that a question has no answer when the probability that it has one is at most this."""
STORED_CALLS = "AgentTask:calls"
"""Store key of a sample's calls of tools, as `Call` with its fields in a dict."""
TOOLS = ("search", "retrieve", "attachment", "python")
WEB_SEARCH = "web_search"


class AgentQuestion(Question, frozen=True):
    """A question with what it was generated from. The proposition is that the sources have its answer."""

    kind: str
    """Class of the task, such as "multi_step"."""
    needs: list[str]
    """The sources in order: the name of a record's entity, or "FILE: ROW" for a row of a table."""
    answer: str
    """The answer, which is known even if the archive does not have it."""
    missing: str = ""
    """Of the sources, the one that is missing; "" if none is."""
    world: str
    """Key of the world."""
    size: int
    """Number of its entities."""
    told: list[str] = []  # noqa: RUF012 (pydantic copies it)
    """Names that the text tells, where the archive is closed."""
    ways: list[tuple[str, str]] = []  # noqa: RUF012
    """Subject and relation of the facts that lead from source to source, and that nothing else leads to."""
    tools: list[str]
    """Names of the tools, of `TOOLS`, or `WEB_SEARCH` in the place of "search"."""
    attachments: list[str] = []  # noqa: RUF012 (pydantic copies it)
    """Names of the tables that the question comes with."""
    miss: int = 0
    """Percent of the fitting records that a search overlooks."""
    failure: int = 0
    """Percent of the calls that fail."""
    delay: float = 0.0
    """Mean seconds that a call takes."""
    budget: int
    """Calls that the text allows. It depends on nothing that the text does not say."""

    @property
    def chains(self) -> list[list[str]]:
        """The sources in chains, which can be read in any order. A row of a table ends a chain."""
        chains: list[list[str]] = [[]]
        for need in self.needs:
            chains[-1].append(need)
            if ": " in need:
                chains.append([])
        return [chain for chain in chains if chain]

    def archive(self, epoch: int = 1) -> Archive:
        """What its tools search and read."""
        key = f"{self.event}/{epoch}"
        place = world(self.world, self.size, tuple(self.ways))
        return Archive(key, place, tuple(self.told), self.missing, self.miss, self.failure, self.delay)


def answerable_path(question: AgentQuestion, calls: Sequence[Call]) -> list[float]:
    """The exact probability that the question can be answered: before any call, and after each."""
    return [_answerable(question, calls[:k]) for k in range(len(calls) + 1)]


def _answerable(question: AgentQuestion, calls: Sequence[Call]) -> float:
    base, needs, miss = question.base_rate or 0.0, question.needs, question.miss / 100
    archive = question.archive()
    overlooked = dict.fromkeys(needs, 0)
    seen: set[str] = set()
    rows: dict[str, tuple[str, ...]] = {}
    for k, call in enumerate(calls):
        if call.failed:
            continue
        if call.tool == "attachment":
            rows[str(call.arguments.get("name"))] = call.shown
        seen.update(call.shown if call.tool in ("search", "retrieve") else ())
        if call.tool == "search":
            asked = archive.ranking(str(call.arguments.get("query")), archive.open_names(calls[:k]))
            for name in {*asked} & {*needs} - {*call.shown}:
                overlooked[name] += 1
    known = archive.open_names(calls)
    for need in needs:
        file, _, row = need.rpartition(": ")
        if file in rows and row in known:  # a table overlooks nothing
            if row not in rows[file]:
                return 0.0
            seen.add(need)
    all_there = base * math.prod(miss**k for k in overlooked.values())
    absent = [
        (1 - base) / len(needs) * math.prod(miss**k for other, k in overlooked.items() if other != need)
        for need in needs
        if need not in seen
    ]
    total = all_there + sum(absent)
    return all_there / total if total else 0.0


def _opens(call: Call, file: str) -> bool:
    return call.tool == "attachment" and call.arguments.get("name") == file


def sources_read(question: AgentQuestion, calls: Sequence[Call]) -> list[str]:
    """The needed sources that have been read: of each chain, those up to the first that has not."""
    read = []
    for chain in question.chains:
        for need in chain:
            file, _, row = need.rpartition(": ")
            if not any(row in c.shown and (_opens(c, file) if file else c.tool == "retrieve") for c in calls):
                break
            read.append(need)
    return read


def may_refuse(question: AgentQuestion, calls: Sequence[Call]) -> bool:
    """Whether the calls leave so little chance of an answer that to say so is knowledge and not a guess."""
    return _answerable(question, calls) <= REFUSAL


def next_call(
    question: AgentQuestion, calls: Sequence[Call], persists: bool = False
) -> tuple[str, dict[str, Any]] | None:
    """The call that an economical reader makes next, or None if it has all that it needs or may refuse."""
    read = sources_read(question, calls)
    need = next((need for need in question.needs if need not in read), None)
    if need is None:
        return None
    if may_refuse(question, calls) and (need == question.missing or not persists):
        return None
    file, _, row = need.rpartition(": ")
    if file:
        return "attachment", {"name": file}
    if any(row in call.shown for call in calls if call.tool == "search"):
        return "retrieve", {"number": question.archive().world.numbers[row]}
    return "search", {"query": row}


def make_call(archive: Archive, tool: str, arguments: Mapping[str, Any], calls: Sequence[Call]) -> Call:
    """What a call of a tool comes to, after these calls."""
    if archive.fails(tool, count(calls, tool)):
        return Call(tool, dict(arguments), failed=True)
    if tool == "search":
        shown = archive.search(str(arguments["query"]), calls)
    elif tool == "retrieve":
        shown = [name for name in [archive.record(int(arguments["number"]), calls)] if name]
    else:
        shown = table_rows(archive.table(str(arguments["name"])))
    return Call(tool, dict(arguments), tuple(shown))


def table_rows(table: str) -> list[str]:
    """The entities in a table's rows."""
    return [line.split(",")[0] for line in table.splitlines()[1:]]


def par(question: AgentQuestion, epoch: int) -> list[Call]:
    """The calls of the oracle: it knows which sources exist, and reads one chain after the other without a detour."""
    archive, calls = question.archive(epoch), list[Call]()
    while step := next_call(question, calls, persists=True):
        calls.append(make_call(archive, *step, calls))
    return calls


def oracle_calls(question: AgentQuestion, calls: Sequence[Call], epoch: int) -> int:
    """The number of calls of an oracle that takes up the chains in the same order as these calls."""
    read = [name for call in calls if call.tool == "retrieve" for name in call.shown]
    begun = sorted((chain for chain in question.chains if chain[0] in read), key=lambda chain: read.index(chain[0]))
    orders = ([*begun, *rest] for rest in permutations(chain for chain in question.chains if chain not in begun))
    needs = ([need for chain in order for need in chain] for order in orders)
    return min(len(par(question.model_copy(update={"needs": ordered}), epoch)) for ordered in needs)
