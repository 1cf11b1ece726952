"""Agent bench mini: its worlds, what calls say by exact arithmetic, and refusals."""

import random
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from inspect_ai.dataset import Sample

from truthgym.datasets.agent_bench_mini import agent_bench_mini
from truthgym.datasets.agent_worlds import (
    RELATIONS,
    AgentQuestion,
    Archive,
    Call,
    answerable_path,
    make_call,
    may_refuse,
    next_call,
    par,
    phrase,
    sources_read,
    world,
)
from truthgym.datasets.errors import BadInput


@pytest.fixture(scope="module")
def items() -> list[Sample]:
    return list(agent_bench_mini(150, seed=3, split="all"))


@pytest.fixture(scope="module")
def questions(items: list[Sample]) -> list[AgentQuestion]:
    return [item.metadata_as(AgentQuestion) for item in items]


def test_a_record_says_all_facts_of_its_entity() -> None:
    place = world("somewhere", 60)
    for (name, _), fact in place.facts.items():
        assert fact.object in place.records[name]
        assert place.kinds[fact.object] == RELATIONS[place.kinds[name]][fact.relation]
    assert world.__wrapped__("somewhere", 60).records == place.records
    assert world("elsewhere", 60).records != place.records


def test_only_the_ways_lead_where_they_lead() -> None:
    plain = world("somewhere", 60)
    ways = tuple((fact.subject, fact.relation) for fact in plain.chain(random.Random(0), 4))
    guarded = world("somewhere", 60, ways)
    for way in ways:
        to = plain.facts[way].object
        assert [place for place, fact in guarded.facts.items() if fact.object == to] == [way]
        assert [name for name, record in guarded.records.items() if to in record] == sorted(
            {way[0], to}, key=list(guarded.records).index
        )
    for (name, relation), fact in guarded.facts.items():
        assert guarded.kinds[fact.object] == RELATIONS[guarded.kinds[name]][relation]
        assert fact.object != name


def test_chains_lead_on_and_never_come_back() -> None:
    place = world("somewhere", 60)
    for hops in (1, 2, 8, 16):
        chain = place.chain(random.Random(hops), hops)
        passed = [chain[0].subject, *(fact.object for fact in chain)]
        assert len(set(passed)) == hops + 1
        assert [fact.subject for fact in chain] == passed[:-1]
    assert phrase("Dorel", ["birthplace", "mayor"]) == "the mayor of the birthplace of Dorel"


def test_a_record_is_found_by_its_name() -> None:
    place = world("somewhere", 60)
    archive = Archive("somewhere", place)
    assert all(archive.ranking(f"Who is {name}?", place.kinds) == [name] for name in place.kinds)
    assert archive.ranking("nothingofthekind", place.kinds) == []
    assert len(archive.ranking("town", place.kinds)) == 5


def test_a_closed_archive_opens_from_record_to_record() -> None:
    place = world("somewhere", 60)
    start, *_, other = place.kinds
    archive = Archive("somewhere", place, told=(start,))
    led = place.facts[start, place.relations(start)[0]].object
    assert archive.search(f"{start} {led} {other} town person guild", []) == [start]
    assert archive.record(place.numbers[start], []) is None
    searched = [Call("search", {"query": start}, (start,))]
    assert archive.record(place.numbers[start], searched) == start
    read = [*searched, Call("retrieve", {"number": place.numbers[start]}, (start,))]
    assert archive.search(led, read) == [led]
    assert archive.record(place.numbers[led], read) is None


def test_in_a_missing_row_stands_another_name() -> None:
    place = world("somewhere", 60)
    town = next(name for name, kind in place.kinds.items() if kind == "town")
    whole, without = place.table("town"), Archive("somewhere", place, missing=f"towns.csv: {town}").table("towns.csv")
    assert without == whole.replace(town, place.spare["town"])
    assert place.spare["town"] not in place.kinds


def test_the_36_have_three_classes_of_12_and_answers_as_the_card_says() -> None:
    made = [item.metadata_as(AgentQuestion) for item in agent_bench_mini()]
    assert Counter(question.kind for question in made) == {"tool_use": 12, "multi_step": 12, "failure_recovery": 12}
    assert sum(not question.missing for question in made) == 24
    assert {question.split for question in made} == {"test"}
    longer = list(agent_bench_mini(40))
    assert [item.id for item in longer[:36]] == [item.id for item in agent_bench_mini()]


def test_the_text_has_neither_the_answer_nor_what_is_missing(
    items: list[Sample], questions: list[AgentQuestion]
) -> None:
    for item, question in zip(items, questions, strict=True):
        words = re.findall(r"\w+", str(item.input))
        assert question.answer not in words or question.answer.isdigit()
        hidden = [need for need in question.needs[1:] if ": " not in need]
        assert not set(hidden) & set(words)


def test_the_posterior_of_a_search_is_a_martingale_and_calibrated(questions: list[AgentQuestion]) -> None:
    paths, outcomes = [], np.array([not question.missing for question in questions], dtype=float)
    for question in questions:
        archive, calls = question.archive(1), list[Call]()
        while step := next_call(question, calls):
            calls.append(make_call(archive, *step, calls))
        paths.append(answerable_path(question, calls))
    moved = np.array([sum((after - p) * (p - 0.5) for p, after in pairwise(path)) for path in paths])
    assert abs(moved.sum()) < 3 * np.sqrt((moved**2).sum())
    for k in range(max(map(len, paths))):
        p = np.array([path[min(k, len(path) - 1)] for path in paths])
        assert abs((p - outcomes).sum()) < 3 * np.sqrt((p * (1 - p)).sum()) + 1e-9, k


def test_the_oracle_ends_with_every_answer_or_every_right_to_refuse(questions: list[AgentQuestion]) -> None:
    for question in questions:
        calls = par(question, epoch=2)
        assert (sources_read(question, calls) == question.needs) == (not question.missing)
        assert may_refuse(question, calls) == bool(question.missing)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"kind": "chess"}, "Unknown kind 'chess'.*known: tool_use"),
        ({"split": "exam"}, "Unknown split 'exam'"),
        ({"n": 0}, "n=0"),
        ({"delay": -1}, "delay=-1"),
        ({"search": "library"}, "search='library'"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        agent_bench_mini(**arguments)  # type: ignore[arg-type]


def test_the_live_search_takes_the_place_of_the_archives() -> None:
    tools = agent_bench_mini(1, search="web", python=True)[0].metadata_as(AgentQuestion).tools
    assert tools == ["web_search", "retrieve", "attachment", "python"]


def test_no_world_of_the_test_split_is_in_another() -> None:
    of = {split: {item.id for item in agent_bench_mini(30, split=split)} for split in ("train", "validation", "test")}
    assert not of["train"] & of["test"]
    assert not of["validation"] & (of["train"] | of["test"])


def test_one_call_is_not_several() -> None:
    allowed = {
        item.metadata_as(AgentQuestion).budget: str(item.input) for item in agent_bench_mini(n=30, kind="tool_use")
    }
    assert "Use at most 1 call: " in allowed[1]
    assert all(f"Use at most {budget} calls: " in text for budget, text in allowed.items() if budget > 1)
