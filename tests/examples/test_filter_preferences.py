"""The confidence filter: who may score a pair, what is kept, and what it is worth where label noise is planted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import filter_preferences
from examples.filter_preferences import (
    Indices,
    Margins,
    cross_fitted_margins,
    filter_rows,
    keep_random,
    keep_top,
    length_strata,
)
from studies.training import preference_labels
from studies.training.preference_labels import flywheel
from tests.fixtures import write_rows
from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.preference import fit_bradley_terry


def test_no_model_scores_a_pair_of_an_event_that_it_saw() -> None:
    events = [f"event {i // 3}" for i in range(31)]
    scored: list[int] = []

    def fit(train: Indices) -> Callable[[Indices], Margins]:
        def score(those: Indices) -> Margins:
            assert not {events[i] for i in those} & {events[i] for i in train}
            scored.extend(those)
            return those.astype(float)

        return score

    margins = cross_fitted_margins(events, fit, folds=4)
    assert margins.tolist() == list(range(31)), "each by its own place"
    assert sorted(scored) == list(range(31))


def test_the_signed_margin_counts_and_strata_keep_their_mix() -> None:
    margins = np.array([-5.0, 1, 2, 3, np.nan, 0.1, 0.2, 0.3])
    kept = keep_top(margins, 0.5, ["a"] * 4 + ["b"] * 4)
    assert kept.tolist() == [False, False, True, True, False, False, True, True], "not the surest, -5"
    drawn = keep_random(8, 0.5, ["a"] * 4 + ["b"] * 4, np.random.default_rng(0))
    assert (drawn[:4].sum(), drawn[4:].sum()) == (2, 2)


def test_no_cycle_of_the_flywheel_uses_a_pair_to_score_it() -> None:
    """Neither to train the model that scores it, nor to choose what that model is trained on."""
    trained: list[set[int]] = []
    scored_by: list[tuple[set[int], set[int]]] = []

    def fit(train: Indices) -> Callable[[Indices], Margins]:
        trained.append(set(train.tolist()))

        def score(those: Indices) -> Margins:
            scored_by.append((set(those.tolist()), set(train.tolist())))
            return -those.astype(float)

        return score

    first, second = flywheel(range(20), fit, 0.5, ["a"] * 20, folds=2)
    assert np.flatnonzero(first).tolist() == np.flatnonzero(second).tolist() == list(range(10))
    assert not any(scored & seen for scored, seen in scored_by)
    assert len(trained) == 2 + 2 * (2 + 1), "the second cycle filters anew without each of its folds"
    for last in (4, 7):  # after the two models of the first cycle: two inner models and then the one that scores
        inner, (scored, seen) = scored_by[last - 2 : last], scored_by[last]
        candidates = set.union(*(pairs for pairs, _ in inner))
        assert not scored & candidates.union(*(pairs for _, pairs in inner)), "no part in the choice either"
        assert seen == set(sorted(candidates)[:5]), "what the inner filter kept"


def test_bradley_terry_recovers_its_weights() -> None:
    rng = np.random.default_rng(0)
    planted = np.array([1.0, -0.5, 0.0])
    x = rng.normal(size=(4000, 3))
    wins = rng.random(4000) < 1 / (1 + np.exp(-x @ planted))
    assert fit_bradley_terry(np.where(wins[:, None], x, -x)) == pytest.approx(planted, abs=0.12)
    # One pair that differs by 1: the gradient 1 - sigma(w) = w has its root at 0.4011.
    assert fit_bradley_terry([[1.0]]) == pytest.approx([0.40106], abs=1e-5)


def test_recorded_labels_are_turned_to_gold_by_their_column(tmp_path: Path) -> None:
    rows = []
    for i in range(90):
        good, bad = ({"role": "assistant", "content": f"{word} {i}"} for word in ("right", "wrong"))
        correct = i % 3 > 0
        sides = {"chosen": [good if correct else bad], "rejected": [bad if correct else good]}
        rows.append({"prompt": [], **sides, "event": f"event {i // 2}"} | ({"correct": correct} if i < 84 else {}))
    write_rows(tmp_path / "train.jsonl", *rows)
    x, wrong, held, events = preference_labels.recorded(str(tmp_path), 0, 40)
    weights = preference_labels.features(["right"])[0] - preference_labels.features(["wrong"])[0]
    assert ((x @ weights < 0) == wrong).all(), "the label as the judge gave it"
    assert (held @ weights > 0).all(), "held-out pairs have gold"
    assert len(held) == 84 - 56, "a third of the 42 events with gold, two pairs each"
    assert len(set(events)) == 14
    (row,) = preference_labels.recorded_curve(str(tmp_path), 0, (40,))
    assert row[:2] == ["40", f"{wrong.mean():.3f}"]
    assert row[3] == "1.000"
    assert row[4].endswith("]"), "over held-out events"
    with pytest.raises(BadInput, match="84 rows have a gold label"):
        preference_labels.recorded(str(tmp_path), 0, 60)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cross_fitted_margins(["a", "a"], lambda _: lambda _: np.zeros(1)), "pairs of two events, got 5 folds"),
        (lambda: keep_top(np.zeros(2), 1.5, ["a", "a"]), "share=1.5 cannot be used"),
        (lambda: length_strata(["x", "same"], ["y z", "same"]), "Pair 1 has no winner: 'same'"),
        (lambda: length_strata(["a b"] * 12, ["a"] * 12), "labels are of one side"),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        call()


def test_rows_with_tools_or_without_pairs_are_refused_before_a_model_loads(tmp_path: Path) -> None:
    sides = {side: [{"role": "assistant", "content": side}] for side in ("chosen", "rejected")}
    call = {"role": "assistant", "content": "", "tool_calls": [{"name": "add"}]}
    for row, problem in (
        ({"prompt": [{"role": "tool", "content": "7"}], **sides, "event": "a"}, "row 0: the message of .* uses tools"),
        ({"prompt": [call], **sides, "event": "a"}, "row 0: the message of .* uses tools"),
        ({"prompt": [], "completion": []}, "has no preference rows"),
    ):
        write_rows(tmp_path / "train.jsonl", row)
        with pytest.raises(BadInput, match=problem):
            filter_rows(str(tmp_path), str(tmp_path / "out"), 0.5, 5, [], False)


def test_rows_are_filtered_by_models_of_the_other_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    for i in range(20):
        replies = ({"role": "assistant", "content": f"{word} {i}"} for word in ("good", "bad x" if i % 2 else "bad"))
        chosen, rejected = tuple(replies)[:: 1 if i % 4 else -1]  # every fourth label is wrong
        rows.append({"prompt": [{"role": "user", "content": "Q"}], "chosen": [chosen], "rejected": [rejected],
                     "event": str(i)})  # fmt: skip
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data" / "train.jsonl", *rows)
    seen: list[set[str]] = []

    class Model:
        def score(self, conversations: list[list[Any]]) -> list[float]:
            asked = {conversation[-1].text.split()[-1] for conversation in conversations}
            assert not asked & seen[-1], "a model scores no pair that it was trained on"
            return [float(conversation[-1].text.startswith("good")) for conversation in conversations]

    def reward(options: list[str]) -> str:
        assert options[:2] == ["--max_steps", "5"]
        data = Path(options[options.index("--dataset_name") + 1]) / "train.jsonl"
        seen.append({json.loads(line)["chosen"][0]["content"].split()[-1] for line in data.read_text().splitlines()})
        return "trained"

    monkeypatch.setattr(filter_preferences, "reward", reward)
    monkeypatch.setattr(filter_preferences, "load", lambda folder: Model())
    kept = filter_rows(str(tmp_path / "data"), str(tmp_path / "kept"), 0.5, 4, ["--max_steps", "5"], False)
    filtered = [json.loads(line) for line in (tmp_path / "kept" / "train.jsonl").read_text().splitlines()]
    assert len(seen) == 4
    assert kept == len(filtered) == 10
    assert {row["filter_margin"] for row in filtered} == {1.0}, "wrong labels have a margin of -1"
