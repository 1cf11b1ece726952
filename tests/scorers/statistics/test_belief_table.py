"""From recorded beliefs to arrays: what is read, and what is NaN."""

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from inspect_ai.scorer import SampleScore, Score
from numpy.testing import assert_equal

from tests.scorers.statistics.test_martingale import DOMAINS, EPOCHS, EVENTS, N, even, paths, scores
from truthgym.scorers.beliefs.elicitation import ElicitationConfig
from truthgym.scorers.beliefs.record import Belief
from truthgym.scorers.statistics.belief_table import belief_table
from truthgym.scorers.statistics.martingale import summarise
from truthgym.scorers.statistics.martingale_score import martingale_score

SETTINGS = asdict(ElicitationConfig()) | {"granularity": "trajectory", "domains": "pooled"}
Path = list[float | None]


def beliefs(elicitor: str, path: Path, epoch: int = 1, saw: bool = False) -> list[dict[str, Any]]:
    """What `elicit` records of a path from prior to posterior."""
    stages = ["prior", *(f"step {k}" for k in range(1, len(path) - 1)), "posterior"]
    records = []
    for stage, value in zip(stages, path, strict=True):
        reason = "unread" if value is None else None
        seen = saw if stage == "prior" else True
        records.append(asdict(Belief(value, stage, elicitor, "read", seen, epoch, "50", reason, "digest")))
    return records


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
    scores = [
        scored("a", 1, beliefs("self", [0.2, 0.4])),
        scored("b", 2, beliefs("self", [0.7, 0.9]), domain="other", outcome=0.0),
        scored("a", 2, beliefs("self", [0.3, 0.5])),
    ]
    table = belief_table(scores)
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


def test_a_prior_in_a_second_wording_is_no_step_of_the_path() -> None:
    first, last = beliefs("self", [0.2, 0.4])
    second = first | {"stage": "prior 2", "value": 0.3}
    table = belief_table([scored("a", 1, [first, second, last]), scored("a", 2, beliefs("self", [0.5, 0.6]))])
    assert_equal(table.path["self"], [[[0.2, 0.4], [0.5, 0.6]]])
    assert_equal(table.prior["self"], [[0.2, 0.5]])
    assert_equal(table.prior_2, [[0.3, np.nan]])
    assert_equal(belief_table([scored("a", 1, [first, second | {"value": None}, last])]).prior_2, [[np.nan]])


def test_self_judge_and_joint() -> None:
    scores = [
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
    table = belief_table(scores)
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
    scores = [
        scored("a", 1, beliefs("self", [0.1, 0.2, 0.3, 0.4])),
        scored("a", 2, beliefs("self", [0.5, 0.6])),
        scored("b", 2, beliefs("self", [0.7, None, 0.9])),
    ]
    table = belief_table(scores)
    nan = np.nan
    assert_equal(
        table.path["self"],
        [[[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, nan, nan]], [[nan] * 4, [0.7, nan, 0.9, nan]]],
    )
    assert_equal(table.posterior["self"], [[0.4, 0.6], [nan, 0.9]])
    assert np.isfinite(np.diff(table.path["self"])).sum() == 4, "no step leads across a belief that is missing"


def test_what_could_not_be_read_is_nan_and_counted() -> None:
    scores = [
        scored("a", 1, beliefs("self", [0.2, 0.4])),
        scored("a", 2, beliefs("self", [None, 0.4])),
        scored("b", 1, beliefs("self", [0.2, None])),
        scored("b", 2, beliefs("self", [None, None])),
    ]
    table = belief_table(scores)
    assert_equal(table.prior["self"], [[0.2, np.nan], [0.2, np.nan]])
    assert_equal(table.posterior["self"], [[0.4, 0.4], [np.nan, np.nan]])
    assert table.share_scored == 0.25


def test_a_score_that_stands_twice_counts_once_the_last() -> None:
    scores = [scored("a", 1, beliefs("self", [0.2, 0.4])), scored("a", 1, beliefs("self", [0.3, 0.5]))]
    assert belief_table(scores).prior["self"].tolist() == [[0.3]]


def test_order_of_scores_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    scores = [
        scored(q, epoch, beliefs("self", rng.random(4).tolist()), domain=f"d{q % 2}")
        for q in range(6)
        for epoch in (1, 2, 3)
    ]
    plain, shuffled = belief_table(scores), belief_table([scores[i] for i in rng.permutation(len(scores))])
    order = [shuffled.questions.question.index(name) for name in plain.questions.question]
    assert_equal(shuffled.path["self"][order], plain.path["self"])
    assert [shuffled.domain[i] for i in order] == plain.domain


def test_scores_without_beliefs_are_rows_without_beliefs() -> None:
    other = SampleScore(score=Score(value={"belief": 0.7}, metadata={"epoch": 1, "event": "e"}), sample_id="x")
    table = belief_table([other, scored("a", 2, beliefs("self", [0.2, 0.4]))])
    assert_equal(table.prior["self"], [[np.nan, np.nan], [np.nan, 0.2]])
    assert table.share_scored == 0.5
    assert belief_table([other]).path == {}


def test_an_error_of_one_wording_does_not_bias_the_score() -> None:
    wording = even(np.random.default_rng(5), 0.12, N, 1)
    path = paths(slope=0.0, error=0.0)
    path[:, :, 0] += wording
    table = belief_table(scores(None, None, self=path))
    assert summarise(table)["martingale_score_upper"] < 0, "as it is in all epochs, another epoch does not reveal it"
    other = replace(table, prior_2=np.clip(paths(seed=1, slope=0.0)[:, :, 0], 0, 1))
    found = summarise(other)
    assert (
        found["martingale_score"]
        == martingale_score(path[:, :, 0], path[:, :, -1], other.prior_2, EVENTS, group=DOMAINS).estimate
    )
    assert found["martingale_score_lower"] < 0 < found["martingale_score_upper"]
    each = replace(other, settings={"domains": "each"})
    rows = np.array(DOMAINS) == "d1"
    only = [event for event, row in zip(EVENTS, rows, strict=True) if row]
    expected = martingale_score(path[rows, :, 0], path[rows, :, -1], other.prior_2[rows], only)
    assert summarise(each)["martingale_score_in_d1"] == pytest.approx(expected.estimate)


def test_a_second_wording_that_nobody_could_read_gives_no_score() -> None:
    table = replace(belief_table(scores({"paraphrases": 2}, self=paths())), prior_2=np.full((N, EPOCHS), np.nan))
    assert summarise(table)["unidentified_unread"] == 1
