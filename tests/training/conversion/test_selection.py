import math

import msgspec
import pytest

from truthgym.datasets.errors import BadInput
from truthgym.evallog.schema import Outcome
from truthgym.training.conversion.options import Selection
from truthgym.training.conversion.selection import (
    Candidate,
    better_half,
    choose,
    is_validation_event,
    on_correct_side,
    pair_up,
    split_validation,
)


def candidate(number: int, score: float, question: str = "", event: str = "", split: str = "train") -> Candidate:
    name = question or f"q{number}"
    return Candidate(0, str(number), name, event or name, split, score, None, "m", "s")


TEN = [candidate(i, i / 10) for i in range(10)]


@pytest.mark.parametrize(
    ("selection", "best", "expected"),
    [
        (Selection(), "lowest", [0]),
        (Selection(), "highest", [9]),
        (Selection(top=0.3), "lowest", [0, 1, 2]),
        (Selection(top=0.01), "lowest", [0]),
        (Selection(top=0.39), "lowest", [0, 1, 2]),
        (Selection(top=0.3, count=2), "highest", [8, 9]),
        (Selection(top=1.0), "lowest", list(range(10))),
        (Selection(count=4), "lowest", [0, 1, 2, 3]),
        (Selection(count=99), "lowest", list(range(10))),
        (Selection(aligned=True), "lowest", list(range(10))),
        (Selection(everything=True), None, list(range(10))),
    ],
)
def test_known_choices(selection: Selection, best: str | None, expected: list[int]) -> None:
    assert [int(c.member) for c in choose(TEN, selection, best)] == expected  # type: ignore[arg-type]


def test_a_share_of_the_best_of_each_question() -> None:
    two = [candidate(i, (i * 7 % 10) / 10, question=f"q{i % 5}") for i in range(10)]
    kept = choose(two, Selection(best_per_question=True), "lowest")
    assert {c.question: c.score for c in kept} == {f"q{i}": min(two[i].score, two[i + 5].score) for i in range(5)}
    assert len(choose(two, Selection(best_per_question=True, top=0.4), "lowest")) == 2
    share = Selection(top=0.4)  # in whatever order the log has them
    assert set(choose(TEN, share, "lowest")) == set(choose(TEN[::-1], share, "lowest"))


@pytest.mark.parametrize(
    ("scores", "best", "expected"),
    [
        ([0.1, 0.2, 0.3, 0.4], "lowest", [0.1, 0.2]),
        ([0.1, 0.2, 0.3, 0.4], "highest", [0.3, 0.4]),
        ([0, 0, 0, 1], "lowest", [0, 0, 0]),
        ([0, 1, 1, 1], "lowest", [0]),
        ([0, 1, 1, 1], "highest", [1, 1, 1]),
        ([0.1, 0.2, 0.2, 0.2, 0.9], "lowest", [0.1]),
        ([0.1, 0.2, 0.2, 0.8, 0.9], "lowest", [0.1, 0.2, 0.2]),
    ],
)
def test_halves_keep_equals_together(scores: list[float], best: str, expected: list[float]) -> None:
    better = better_half([candidate(i, s) for i, s in enumerate(scores)], best)  # type: ignore[arg-type]
    assert sorted(c.score for c in better) == expected
    with pytest.raises(BadInput, match=r"All 3 trajectories have the score 0\.5"):
        better_half([candidate(i, 0.5) for i in range(3)], "lowest")


def test_validation_events_are_a_stable_share() -> None:
    events = [f"event {i}" for i in range(4000)]
    share = sum(map(is_validation_event, events)) / len(events)
    assert abs(share - 0.1) < 4 * math.sqrt(0.1 * 0.9 / len(events))
    candidates = [candidate(i, 0.0, event=f"event {i // 3}") for i in range(300)]
    train, aside = split_validation(candidates, ("train",))
    assert len(train) + len(aside) == 300
    assert not {c.event for c in train} & {c.event for c in aside}
    # Other events beside them move none.
    again, _ = split_validation(candidates[:150], ("train",))
    assert {c.event for c in again} == {c.event for c in train if int(c.member) < 150}


def test_a_validation_split_is_used_if_there_is_one() -> None:
    candidates = [candidate(i, 0.0, split="validation" if i < 3 else "train") for i in range(30)]
    train, aside = split_validation(candidates, ("train",))
    assert [c.split for c in aside] == ["validation"] * 3
    assert len(train) == 27
    train, aside = split_validation(candidates, ("train", "validation"))
    assert aside
    assert len(aside) < 10


def test_at_least_one_of_two_events_is_held_out() -> None:
    train, aside = split_validation([candidate(i, 0.0, event=f"e{i}") for i in range(2)], ("train",))
    assert len(train) == len(aside) == 1
    with pytest.raises(BadInput, match="needs questions of another one"):
        split_validation([candidate(i, 0.0, event="e") for i in range(5)], ("train",))


def test_pairs_have_different_scores() -> None:
    same = [candidate(i, s, question="q") for i, s in enumerate([0.1, 0.5, 0.5, 0.2])]
    (pair,) = pair_up(same, "lowest", "epoch", "widest", 0.0)
    assert (pair.chosen.score, pair.rejected.score) == (0.1, 0.5)
    assert pair.margin == pytest.approx(0.4)
    every = list(pair_up(same, "lowest", "epoch", "all", 0.0))
    assert len(every) == 5
    assert all(p.chosen.score < p.rejected.score for p in every)
    turned = list(pair_up(same, "highest", "epoch", "all", 0.0))
    assert {(p.chosen, p.rejected) for p in every} == {(p.rejected, p.chosen) for p in turned}
    assert len(list(pair_up(same, "lowest", "epoch", "all", 0.25))) == 4
    assert not list(pair_up(same, "lowest", "model", "all", 0.0))
    mixed = [c._replace(model=f"m{i % 2}") for i, c in enumerate(same)]
    assert all(p.chosen.model != p.rejected.model for p in pair_up(mixed, "lowest", "model", "all", 0.0))
    assert all(p.chosen.model == p.rejected.model for p in pair_up(mixed, "lowest", "epoch", "all", 0.0))


@pytest.mark.parametrize(("edited", "side"), [(0.9, True), (0.2, False), (None, None)])
def test_a_belief_that_was_edited_in_the_log_decides_the_side(edited: float | None, side: bool | None) -> None:
    score = {"value": {"belief": edited, "brier_score": 0.64}, "metadata": {"belief": 0.2, "outcome": 1}}
    logged = msgspec.json.encode({"id": "q", "epoch": 1, "scores": {"brier": score}})
    sample = msgspec.json.decode(logged, type=Outcome)
    assert on_correct_side(sample) is side
