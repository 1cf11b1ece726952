"""From recorded beliefs to arrays: what is read, what is NaN, and that nothing makes it fail."""

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from inspect_ai.scorer import SampleScore, Score
from numpy.testing import assert_equal

from truthgym.scorers.beliefs.elicitation import ElicitationConfig
from truthgym.scorers.beliefs.record import Belief
from truthgym.scorers.statistics.belief_table import belief_table

SETTINGS = asdict(ElicitationConfig()) | {"granularity": "trajectory", "domains": "pooled"}
Path = list[float | None]


def beliefs(elicitor: str, path: Path, epoch: int = 1, saw: bool = False) -> list[dict[str, Any]]:
    """What `elicit` records of a path from prior to posterior."""
    stages = ["prior", *(f"step {k}" for k in range(1, len(path) - 1)), "posterior"]
    made = []
    for stage, value in zip(stages, path, strict=True):
        reason = "unread" if value is None else None
        seen = saw if stage == "prior" else True
        made.append(asdict(Belief(value, stage, elicitor, "read", seen, epoch, "50", reason, "digest")))
    return made


def view(epoch: int = 1) -> dict[str, Any]:
    return asdict(Belief(None, "view", "judge", "separate", False, epoch, "I lean to yes.", None, "digest"))


def scored(identity: str | int, epoch: int, *paths: list[dict[str, Any]], **facts: Any) -> SampleScore:
    """A score as `martingale` gives it."""
    listed = [belief for path in paths for belief in path]
    first = [b["value"] for b in listed if b["elicitor"] == listed[0]["elicitor"] and b["stage"] != "view"]
    ends = [math.nan if value is None else value for value in (first[0], first[-1])]
    value = {"prior": ends[0], "posterior": ends[1], "change": round(ends[1] - ends[0], 4)}
    metadata = {
        "epoch": epoch,
        "event": f"event of {identity}",
        "domain": "urns",
        "outcome": 1.0,
        "base_rate": None,
        "crowd": None,
        "reason": None,
        "beliefs": listed,
        "settings": SETTINGS,
    }
    return SampleScore(score=Score(value=dict(value), metadata=metadata | facts), sample_id=identity)


def test_beliefs_of_one_elicitor() -> None:
    made = [
        scored("a", 1, beliefs("self", [0.2, 0.4])),
        scored("b", 2, beliefs("self", [0.7, 0.9]), domain="other", outcome=0.0),
        scored("a", 2, beliefs("self", [0.3, 0.5])),
    ]
    table = belief_table(made)
    assert table.questions.question == ["a", "b"]
    assert_equal(table.prior["self"], [[0.2, 0.3], [np.nan, 0.7]])
    assert_equal(table.posterior["self"], [[0.4, 0.5], [np.nan, 0.9]])
    assert_equal(table.questions.values, table.prior["self"])
    assert_equal(table.questions.outcome, [1, 0])
    assert table.questions.cluster == ["event of a", "event of b"]
    assert table.domain == ["urns", "other"]
    assert table.share_scored == 1
    assert not table.saw_reasoning
    assert table.settings == SETTINGS
    assert (table.first, table.second) == ("self", None)
    assert set(table.prior) == set(table.posterior) == {"self"}


def test_an_empty_list_is_an_empty_table() -> None:
    table = belief_table([])
    assert table.questions.question == table.domain == []
    assert table.prior["self"].shape == table.posterior["self"].shape == (0, 0)
    assert table.path == {}
    assert math.isnan(table.share_scored)
    assert (table.first, table.second, table.saw_reasoning, table.settings) == ("self", None, False, {})


def test_self_judge_and_joint() -> None:
    made = [
        scored(
            "a",
            epoch,
            beliefs("self", [0.1 * epoch, 0.4]),
            [view(epoch)],
            beliefs("judge", [0.2 * epoch, 0.5]),
            beliefs("joint", [0.3 * epoch, 0.45, 0.6], saw=True),
        )
        for epoch in (1, 2)
    ]
    table = belief_table(made)
    assert list(table.prior) == list(table.posterior) == ["self", "judge", "joint"]
    for name, priors, end in (("self", [0.1, 0.2], 0.4), ("judge", [0.2, 0.4], 0.5), ("joint", [0.3, 0.6], 0.6)):
        assert table.prior[name].tolist() == [pytest.approx(priors)]
        assert table.posterior[name].tolist() == [[end, end]]
    assert table.path["joint"][0, 0] == pytest.approx([0.3, 0.45, 0.6])
    assert table.path["judge"][0, 0] == pytest.approx([0.2, 0.5]), "the text of a first view is no belief"
    assert (table.first, table.second) == ("self", "judge")
    assert not table.saw_reasoning, "a joint prior has seen the end, and is no instrument"


def test_the_judge_alone_is_the_first_elicitor() -> None:
    table = belief_table([scored("a", 1, [view()], beliefs("judge", [0.2, 0.5]))])
    assert (table.first, table.second) == ("judge", None)
    assert table.prior["judge"].tolist() == [[0.2]]
    assert "self" not in table.prior


@pytest.mark.parametrize(("elicitor", "seen"), [("self", True), ("judge", True), ("joint", False)])
def test_a_prior_that_saw_the_reasoning_is_told(elicitor: str, seen: bool) -> None:
    clean, leaky = beliefs("self", [0.2, 0.4]), beliefs(elicitor, [0.2, 0.4], saw=True)
    assert belief_table([scored("a", 1, clean), scored("b", 1, clean, leaky)]).saw_reasoning == seen
    assert belief_table([scored("b", 1, clean, leaky), scored("a", 1, clean)]).saw_reasoning == seen


def test_paths_of_different_lengths_are_filled_up_with_nan() -> None:
    made = [
        scored("a", 1, beliefs("self", [0.1, 0.2, 0.3, 0.4])),
        scored("a", 2, beliefs("self", [0.5, 0.6])),
        scored("b", 2, beliefs("self", [0.7, None, 0.9])),
    ]
    table = belief_table(made)
    nan = np.nan
    assert_equal(
        table.path["self"],
        [[[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, nan, nan]], [[nan] * 4, [0.7, nan, 0.9, nan]]],
    )
    assert_equal(table.posterior["self"], [[0.4, 0.6], [nan, 0.9]])
    assert np.isfinite(np.diff(table.path["self"])).sum() == 4, "no step leads across a belief that is missing"


def test_what_could_not_be_read_is_nan_and_counted() -> None:
    made = [
        scored("a", 1, beliefs("self", [0.2, 0.4])),
        scored("a", 2, beliefs("self", [None, 0.4])),
        scored("b", 1, beliefs("self", [0.2, None])),
        scored("b", 2, beliefs("self", [None, None])),
    ]
    table = belief_table(made)
    assert_equal(table.prior["self"], [[0.2, np.nan], [0.2, np.nan]])
    assert_equal(table.posterior["self"], [[0.4, 0.4], [np.nan, np.nan]])
    assert table.share_scored == 0.25


@pytest.mark.parametrize("value", [70, -0.1, 1.01, math.nan, math.inf, "0.5", None, [0.5], {}, 10**400])
def test_a_belief_that_is_no_probability_is_nan(value: Any) -> None:
    listed = beliefs("self", [0.2, 0.4])
    listed[0]["value"] = value
    made = scored("a", 1, beliefs("self", [0.2, 0.4]))
    assert made.score.metadata
    made.score.metadata["beliefs"] = listed
    table = belief_table([made])
    assert np.isnan(table.prior["self"]).all()
    assert table.posterior["self"].tolist() == [[0.4]]


def test_numbers_as_sample_ids() -> None:
    made = [scored(i, epoch, beliefs("self", [0.1 * i, 0.5])) for epoch in (1, 2) for i in (3, 1, 2)]
    table = belief_table(made)
    assert table.questions.question == ["3", "1", "2"]
    assert_equal(table.prior["self"], np.array([[0.1 * i] * 2 for i in (3, 1, 2)]))


def test_a_score_that_stands_twice_counts_once_the_last() -> None:
    made = [scored("a", 1, beliefs("self", [0.2, 0.4])), scored("a", 1, beliefs("self", [0.3, 0.5]))]
    assert belief_table(made).prior["self"].tolist() == [[0.3]]


def test_order_of_scores_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    made = [
        scored(q, epoch, beliefs("self", rng.random(4).tolist()), domain=f"d{q % 2}")
        for q in range(6)
        for epoch in (1, 2, 3)
    ]
    plain, shuffled = belief_table(made), belief_table([made[i] for i in rng.permutation(len(made))])
    order = [shuffled.questions.question.index(name) for name in plain.questions.question]
    assert_equal(shuffled.path["self"][order], plain.path["self"])
    assert [shuffled.domain[i] for i in order] == plain.domain


def bare(identity: str | int | None, value: Any, metadata: dict[str, Any] | None = None) -> SampleScore:
    return SampleScore(score=Score(value=value, metadata=metadata), sample_id=identity)


def test_scores_of_another_scorer_and_without_metadata_are_rows_without_beliefs() -> None:
    brier = {"epoch": 1, "event": "e", "outcome": 1.0, "base_rate": None, "crowd": None}
    odd = [
        bare("x", {"belief": 0.7}, brier),
        bare("y", "C"),
        bare("z", 0.5, {}),
        bare(None, {"prior": "?", "posterior": None}),
        bare("w", {"prior": 0.5, "posterior": 0.6}, {"epoch": 1}),
    ]
    table = belief_table([*odd, scored("a", 2, beliefs("self", [0.2, 0.4]))])
    assert table.prior["self"].shape == (6, 2)
    assert np.isfinite(table.prior["self"]).sum() == 1
    assert table.prior["self"][5, 1] == 0.2
    assert table.share_scored == pytest.approx(2 / 6), "the last of the odd has two numbers under the right keys"
    alone = belief_table(odd)
    assert np.isnan(alone.prior["self"]).all()
    assert alone.prior["self"].shape == (5, 1)
    assert alone.path == {}


@pytest.mark.parametrize("epoch", [None, 0, -1, "1", 1.5])
def test_a_score_without_a_usable_epoch_has_no_place(epoch: Any) -> None:
    table = belief_table([scored("a", 1, beliefs("self", [0.2, 0.4])), scored("b", epoch, beliefs("self", [0.3, 0.5]))])
    assert_equal(table.prior["self"], [[0.2], [np.nan]])


@pytest.mark.parametrize("listed", [None, [], {}, 3, [{}], [{"elicitor": "self"}], [{"stage": "prior", "value": 0.5}]])
def test_beliefs_that_are_missing_or_empty(listed: Any) -> None:
    made = scored("a", 1, beliefs("self", [0.2, 0.4]), beliefs=listed)
    table = belief_table([made])
    assert np.isnan(table.prior["self"]).all()
    assert belief_table([made, scored("b", 1, beliefs("self", [0.2, 0.4]))]).prior["self"][1, 0] == 0.2


@pytest.mark.parametrize("listed", ["none", ["none"], [None], [{"elicitor": ["self"], "stage": "posterior"}]])
def test_beliefs_of_another_make_do_not_make_it_fail(listed: Any) -> None:
    odd = scored("a", 1, beliefs("self", [0.2, 0.4]), beliefs=listed)
    table = belief_table([odd])
    assert_equal(table.prior, {"self": [[np.nan]]})
    assert_equal(table.posterior, {"self": [[np.nan]]})
    assert (table.path, table.saw_reasoning) == ({}, False)
    assert_equal(belief_table([odd, scored("b", 1, beliefs("self", [0.3, 0.5]))]).prior["self"], [[np.nan], [0.3]])


def test_malformed_records_among_good_ones_are_passed_over() -> None:
    good = beliefs("self", [0.2, 0.3, 0.4], saw=True)
    odd: list[Any] = [
        None, "self", 3, [], ["prior"], {}, {"elicitor": ["self"], "stage": "prior", "value": 0.9},
        {"elicitor": None, "stage": "prior", "value": 0.9}, {"elicitor": "judge", "stage": "posterior", "value": 0.9},
    ]  # fmt: skip
    made = scored("a", 1, good, beliefs=[*odd, good[0], *odd, *good[1:], *odd])
    table = belief_table([made])
    assert_equal(table.prior, {"self": [[0.2]]})
    assert_equal(table.posterior, {"self": [[0.4]]})
    assert_equal(table.path, {"self": [[[0.2, 0.3, 0.4]]]})
    assert table.saw_reasoning
    assert (table.first, table.second) == ("self", None), "a posterior without a prior makes no elicitor"
    assert_equal(belief_table([scored("a", 1, good, beliefs=tuple(good))]).prior, {"self": [[0.2]]})


@pytest.mark.parametrize("settings", [None, "step", 3, ["step"]])
def test_settings_of_another_make_are_no_settings(settings: Any) -> None:
    made = scored("a", 1, beliefs("self", [0.2, 0.4]), settings=settings)
    assert belief_table([made]).settings == {}
    known = scored("b", 1, beliefs("self", [0.2, 0.4]))
    for order in ([made, known], [known, made]):
        assert belief_table(order).settings == SETTINGS


def test_joint_readings_alone_leave_the_first_elicitor_unread() -> None:
    made = [scored("a", epoch, beliefs("joint", [0.2, 0.3, 0.4], epoch, saw=True)) for epoch in (1, 2)]
    table = belief_table(made)
    assert (table.first, table.second, table.saw_reasoning) == ("self", None, False)
    assert set(table.prior) == set(table.posterior) == {"self", "joint"}
    assert_equal(table.prior["self"], [[np.nan, np.nan]])
    assert_equal(table.posterior["self"], [[np.nan, np.nan]])
    assert_equal(table.prior["joint"], [[0.2, 0.2]])
    assert_equal(table.posterior["joint"], [[0.4, 0.4]])
    assert set(table.path) == {"joint"}


def test_an_unknown_elicitor_or_stage_is_no_column() -> None:
    stranger = [
        asdict(Belief(0.5, stage, "crowd", "read", False, 1, "", None, None)) for stage in ("prior", "posterior")
    ]
    table = belief_table([scored("a", 1, beliefs("self", [0.2, 0.4]), stranger)])
    assert set(table.prior) == {"self"}
    assert set(table.path) == {"self"}


@pytest.mark.parametrize("seed", range(20))
def test_any_part_of_a_run_makes_a_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = []
    for q in range(5):
        for epoch in (1, 2, 3):
            paths = [
                beliefs(name, [None if rng.random() < 0.3 else float(v) for v in rng.random(rng.integers(2, 5))])
                for name in ("self", "judge", "joint")
                if name == "self" or rng.random() < 0.7
            ]
            made.append(scored(q, epoch, *paths))
    kept = [item for item in made if rng.random() < 0.5]
    table = belief_table(kept)
    shape = (len({item.sample_id for item in kept}), table.questions.values.shape[1])
    for held in (table.prior, table.posterior):
        assert all(values.shape == shape for values in held.values())
    for name, path in table.path.items():
        assert path.shape[:2] == shape
        assert_equal(path[:, :, 0], table.prior[name])
    assert len(table.domain) == len(table.questions.cluster) == shape[0]
