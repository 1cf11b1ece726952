"""Which questions are asked: by split, by day, and at random."""

from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pytest
from inspect_ai.dataset import Sample

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.selection import select
from truthgym.datasets.question import Question, question, sample


def make(identity: str, **fields: Any) -> Sample:
    known = question(Question, identity, **{"domain": "test", "event": identity, "proposition": "It is so."} | fields)
    return sample(identity, "Is it so?", "yes", known, identity)


def test_an_id_that_stands_twice_is_refused_with_both_places() -> None:
    with pytest.raises(BadInput, match="duplicate id 'b', at questions 2 and 3"):
        select("test", [make("a"), make("b"), make("b")])


def test_select_by_day_split_and_number() -> None:
    samples = [make(f"q{i}", known_on=f"2024-01-{i:02d}") for i in range(1, 31)]
    later = select("test", samples, known_after="2024-01-20")
    assert [s.id for s in later] == [f"q{i}" for i in range(21, 31)]
    for day in (date(2024, 1, 20), datetime(2024, 1, 20, 12), 20240120):  # as YAML may read it
        assert [s.id for s in select("test", samples, known_after=day)] == [s.id for s in later]  # type: ignore[arg-type]
    splits = [s.id for split in ("train", "validation", "test") for s in select("test", samples, split=split)]
    assert sorted(map(str, splits)) == sorted(str(s.id) for s in samples)
    few = [s.id for s in select("test", samples, n=5, seed=1)]
    assert len(few) == 5
    assert few == [s.id for s in select("test", samples, n=5, seed=1)]
    assert few != [s.id for s in select("test", samples, n=5, seed=2)]
    assert len(select("test", samples, n=99)) == 30


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"split": "tset"}, "Unknown split 'tset'; did you mean 'test'?"),
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"n": True}, "n must be at least 1, got True"),
        ({"seed": [1]}, "seed must be an integer, got [1]"),
        ({"known_after": "soon"}, "known_after='soon' is not a day; write it as 2025-06-01"),
        ({"known_after": "2099-01-01"}, "no question is left"),
    ],
)
def test_select_refuses(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        select("test", [make("a", known_on="2024-01-01")], **arguments)
    assert said in str(refused.value)


def test_a_draw_depends_on_the_ids_alone() -> None:
    samples = [make(f"q{i}") for i in range(200)]
    drawn = {s.id for s in select("test", samples, n=20)}
    assert {s.id for s in select("test", samples[::-1], n=20)} == drawn
    grown = {s.id for s in select("test", [*samples, *(make(f"new{i}") for i in range(20))], n=20)}
    assert len(grown & drawn) >= 14  # each new one is drawn with a chance of 1 in 11
    kept = [int(str(s.id)[1:]) for s in select("test", samples, n=20)]
    assert kept == sorted(kept)
    times = Counter(s.id for seed in range(500) for s in select("test", samples[:20], n=5, seed=seed))
    assert all(times[s.id] == pytest.approx(125, abs=40) for s in samples[:20])  # 4 standard deviations


def test_no_more_are_held_than_are_drawn() -> None:
    alive: Counter[str] = Counter()

    class Held(Sample):
        def __del__(self) -> None:
            alive["now"] -= 1

    def stream() -> Iterator[Sample]:
        for i in range(2000):
            alive["now"] += 1
            alive["most"] = max(alive["most"], alive["now"])
            yield Held(**make(f"q{i}").model_dump())

    assert len(select("test", stream(), n=10)) == 10
    assert alive["most"] < 30


def test_what_was_left_out_is_counted_by_reason() -> None:
    samples = [make(f"q{i}", known_on=f"2024-01-{i:02d}") for i in range(1, 31)] + [make("unknown")]
    in_train = sum(s.metadata_as(Question).split == "train" for s in samples)
    chosen = select("t", samples, split="train", known_after="2024-01-20", n=2, dropped=Counter({"post deleted": 4}))
    assert len(chosen) == 2
    assert chosen.dropped["post deleted"] == 4
    assert chosen.dropped["in other splits than train"] == 31 - in_train
    assert chosen.dropped.total() == 4 + 31 - 2
    assert select("t", samples).dropped == {}
    with pytest.raises(BadInput, match=r"no question is left with split=all and known_after=2025-01-01 \(30 known by"):
        select("t", samples, known_after="2025-01-01")
    with pytest.raises(BadInput, match="the source has no questions"):
        select("t", [])
