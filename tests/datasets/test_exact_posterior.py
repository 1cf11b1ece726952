"""The stated posterior of agent tasks is that of an exact reader, and nothing else that the tools show adds to it."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, permutations, product
from typing import Any

import numpy as np
import pytest

from truthgym.datasets import agent_bench_mini as bench
from truthgym.datasets import gaia_mini as gaia
from truthgym.datasets.agent_worlds import (
    TABLES,
    AgentQuestion,
    Archive,
    Call,
    Fact,
    World,
    answerable_path,
    listing,
    make_call,
    next_call,
)

CALLS = 12


def explore(question: AgentQuestion, draw: random.Random, curious: float) -> list[Call]:
    """Calls of a reader who in this share of them looks for what it does not need, by names and kinds of all sorts."""
    archive, calls = question.archive(), list[Call]()
    names = [*archive.world.kinds, *archive.world.spare.values()]
    while len(calls) < CALLS:
        step = next_call(question, calls, persists=True)
        if draw.random() < curious or step is None:
            kind = draw.choice(["names", "kind", "number", "table"])
            listed = [name for call in calls if call.tool == "search" for name in call.shown]
            if kind == "table" and question.attachments:
                step = "attachment", {"name": draw.choice(question.attachments)}
            elif kind == "number":
                step = "retrieve", {"number": archive.world.numbers[draw.choice(listed or names[:9])]}
            elif kind == "kind":
                step = "search", {"query": draw.choice([*TABLES])}
            else:
                step = "search", {"query": " ".join(draw.sample(names, 3))}
        calls.append(make_call(archive, *step, calls))
    return calls


def renamed(place: World, of: dict[str, str]) -> World:
    """The same world with other names."""

    def text(old: str) -> str:
        return re.sub(r"\w+", lambda found: of.get(found[0], found[0]), old)

    facts = {(text(a), r): Fact(text(a), r, text(fact.object)) for (a, r), fact in place.facts.items()}
    numbers = {text(name): value for name, value in place.numbers.items()}
    counts = {text(name): value for name, value in place.counts.items()}
    records = {text(name): text(record) for name, record in place.records.items()}
    spare = {kind: text(name) for kind, name in place.spare.items()}
    return World({text(name): kind for name, kind in place.kinds.items()}, facts, numbers, records, counts, spare)


def likelihoods(true: Archive, other: Archive, calls: Sequence[Call]) -> list[float]:
    """How likely what was shown would be in another archive: before any call and after each. By the texts alone."""
    path = [1.0]
    for k, call in enumerate(calls):
        one = 1.0
        if call.failed or not path[-1]:
            pass
        elif call.tool == "attachment":
            one = float(other.table(call.arguments["name"]) == true.table(call.arguments["name"]))
        elif call.tool == "retrieve":
            name = other.record(call.arguments["number"], calls[:k])
            read = true.world.records[call.shown[0]] if call.shown else None
            one = float((None if name is None else other.world.records[name]) == read)
        else:
            fits = other.ranking(call.arguments["query"], other.open_names(calls[:k]))
            there, miss = [name for name in fits if name != other.missing], other.miss / 100
            same = [name for name in there if name in call.shown] == [*call.shown]
            same = same and listing(other.world, call.shown) == listing(true.world, call.shown)
            one = (1 - miss) ** len(call.shown) * miss ** (len(there) - len(call.shown)) if same else 0.0
        path.append(path[-1] * one)
    return path


def enumerated_path(question: AgentQuestion, calls: Sequence[Call]) -> list[float]:
    """The posterior of a reader who knows the world, but not which name is which among some of a row's kind.

    It is enough that a few names of the kind are mixed up: who knows more than an agent can, knows at least as much.
    """
    true, base = question.archive(), question.base_rate or 0.0
    place, sources = true.world, [need.rpartition(": ") for need in question.needs]
    rows = [row for file, _, row in sources if file] or [sources[-1][2]]
    mixed = []
    for kind in {place.kinds[row] for row in rows}:
        own = [row for row in rows if place.kinds[row] == kind and row not in question.told]
        others = [name for name, of in place.kinds.items() if of == kind and name not in (*own, *question.told)]
        mixed.append([place.spare[kind], *own, others[0]])
    weights = []
    for orders in product(*map(permutations, mixed)):
        of = dict(zip(chain(*mixed), chain(*orders), strict=True))
        other = renamed(place, of)
        for missing in ["", *question.needs]:
            file, colon, row = missing.rpartition(": ")
            archive = replace(true, world=other, missing=f"{file}{colon}{of.get(row, row)}")
            prior = (1 - base) / len(question.needs) if missing else base
            weights.append((not missing, prior * np.array(likelihoods(true, archive, calls))))
    total = np.sum([weight for _, weight in weights], axis=0)
    return [float(p) for p in np.sum([weight for there, weight in weights if there], axis=0) / total]


@pytest.mark.parametrize("data", [bench, gaia])
def test_the_posterior_is_that_of_an_exact_reader_by_enumeration(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one who knows more than any agent can: all of the world but a few names."""
    monkeypatch.setattr(bench, "SIZE", 18)
    monkeypatch.setattr(data, "SIZE", 18)
    moved = 0
    for i, item in enumerate(getattr(data, data.NAME)(8, seed=11, split="all")):
        question = item.metadata_as(AgentQuestion)
        calls = explore(question, random.Random(i), curious=0.5)
        expected = enumerated_path(question, calls)
        assert answerable_path(question, calls) == pytest.approx(expected, abs=1e-9), question.event
        moved += len({round(p, 6) for p in expected}) > 2
    assert moved >= 4
