"""Questions that are asked besides the one that is asked: which, how they are drawn, and the bundled sequence."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inspect_ai.dataset import MemoryDataset, Sample

from truthgym.datasets.domains import (
    BUNDLED,
    DOMAINS,
    GENERATED,
    TRUTH_SEEKING,
    bundled,
    other_questions,
    truth_seeking_questions,
)
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.urns import urns


@cache
def train(domain: str) -> list[Sample]:
    part = {"part": "all"} if domain == "forecasting" else {}
    return list(DOMAINS[domain](split="train", **part))


def about(**fields: Any) -> Question:
    return Question.model_validate({"domain": "d", "proposition": "It rains.", "event": "e", "split": "train"} | fields)


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_domain_stands_under_the_name_that_its_questions_have(domain: str) -> None:
    few = {"n": 9} if domain in GENERATED else {}
    assert {item.metadata_as(Question).domain for item in DOMAINS[domain](**few)} == {domain}


@pytest.mark.parametrize("domain", [*BUNDLED, "urns"])
@settings(deadline=None, max_examples=12)  # the first draw makes the questions
@given(place=st.integers(0, 50), n=st.integers(0, 20), key=st.tuples(st.integers(0, 9), st.text(max_size=3)))
def test_others_are_of_the_train_split_and_never_the_asked_one(
    domain: str, place: int, n: int, key: tuple[int, str]
) -> None:
    asked = train(domain)[place % len(train(domain))].metadata_as(Question)
    drawn = other_questions(domain, asked, n, *key)
    known = [item.metadata_as(Question) for item in drawn]
    assert len({item.id for item in drawn}) == len(drawn) <= n
    assert domain not in GENERATED or len(drawn) == n
    days = [other.opened_on for other in known]
    assert all(asked.opened_on is None or day is None or day <= asked.opened_on for day in days)
    assert all(other.split == "train" and other.domain == domain for other in known)
    assert all(other.event != asked.event for other in known)
    assert all(other.proposition is None or other.proposition != asked.proposition for other in known)
    assert [item.id for item in other_questions(domain, asked, n, *key)] == [item.id for item in drawn]


def test_all_but_the_asked_event_and_proposition_can_be_drawn() -> None:
    first, second = (item.metadata_as(Question) for item in train("urns")[:2])
    most = len(train("urns"))
    assert len(other_questions("urns", about(), most)) == most
    assert len(other_questions("urns", first, most - 1)) == most - 1
    # one question's event and another's proposition: neither is drawn
    mixed = about(event=first.event, proposition=second.proposition)
    drawn = {item.metadata_as(Question).event for item in other_questions("urns", mixed, most - 2)}
    assert drawn.isdisjoint({first.event, second.event})


def test_what_was_written_after_the_asked_day_is_never_shown() -> None:
    """In 2017 it was not known whether Zuma would leave; a question of 2019 calls him the former president."""
    by_id = {str(item.id): item.metadata_as(Question) for item in bundled("forecasting")}
    for name in ("zuma-leaves-presidency-by-june-2018", "bolsonaro-elected-brazil-2018"):
        asked = by_id[name]
        drawn = [item.metadata_as(Question) for item in other_questions("forecasting", asked, 60)]
        assert drawn
        assert asked.opened_on
        assert max(known.opened_on for known in drawn if known.opened_on) <= asked.opened_on
        # One on which time has no hold may always be shown, and to one on which it has none anything may.
        assert other_questions("urns", asked, 3)
    assert len(other_questions("forecasting", about(), 60)) == 60


def test_questions_without_a_proposition_are_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def free(split: str) -> MemoryDataset:
        held = [question(Question, "free", domain="free", form="free", event=f"e{k}") for k in range(5)]
        return MemoryDataset([sample(f"q{k}", "Why?", None, known, "free") for k, known in enumerate(held)])

    monkeypatch.setitem(DOMAINS, "free", free)
    asked = about(form="free", proposition=None, event="e0")
    assert {item.id for item in other_questions("free", asked, 4)} == {"q1", "q2", "q3", "q4"}


def test_another_key_draws_others() -> None:
    drawn = [tuple(item.id for item in other_questions("urns", about(), 5, 0, epoch)) for epoch in range(20)]
    assert len(set(drawn)) == 20
    together = {name: [i.id for i in other_questions(name, about(), 3, 0)] for name in ("urns", "forecasting")}
    assert together["urns"] != together["forecasting"]


@pytest.mark.parametrize("domain", ["research", "urns"])
def test_too_many_are_refused_with_how_many_there_are(domain: str) -> None:
    most = len(train(domain))
    with pytest.raises(BadInput) as error:
        other_questions(domain, about(), most + 1)
    assert str(error.value) == (
        f"{domain}: {most + 1} other questions were requested, but its train split has {most}; use fewer"
    )


def test_an_unknown_domain_is_refused() -> None:
    with pytest.raises(BadInput, match="Unknown domain 'urn'; did you mean 'urns'"):
        other_questions("urn", about(), 1)


def test_the_bundled_sequence_is_as_its_card_says_and_on_no_question_of_a_domain(root: Path) -> None:
    rows = [json.loads(line) for line in TRUTH_SEEKING.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in rows] == [f"truth-seeking-{k:02}" for k in range(1, 13)]
    assert truth_seeking_questions() == [row["question"] for row in rows]
    assert all(text.endswith("?") and text == text.strip() for text in truth_seeking_questions())
    assert len(set(truth_seeking_questions())) == 12
    card = (root / "datasets" / "truth_seeking.md").read_text(encoding="utf-8")
    assert f"{len(rows)} questions" in card
    assert rows[0]["question"] in " ".join(card.split())
    asked = {str(item.input).split("\n")[0] for item in [*bundled("forecasting"), *urns(n=50)]}
    assert asked.isdisjoint(truth_seeking_questions())
