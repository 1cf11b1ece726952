"""The figures of `qualitative` from known scores: each finds its own fault, and none breaks on what is missing."""

import math
from typing import Any

import numpy as np
import pytest
from inspect_ai.scorer import SampleScore, Score

from truthgym.scorers.qualitative import DECLARATION, reasoning_quality
from truthgym.scorers.statistics.qualitative import readings, summarise

LAST = [0.8, 0.2]


def judge(
    ratings: list[int], family: str = "a", anchors: list[float | None] | None = None, **probes: int
) -> dict[str, Any]:
    """What one judge says: a rating of one quality in each of two orders."""
    return {
        "family": family,
        "ratings": [[[number] for number in ratings]],
        "last": LAST,
        "probes": {name: [number] for name, number in probes.items()},
        "held_out": {"given": [0.2, 0.5, 0.9], "rated": [anchors or [0.2, 0.5, 0.9]]},
    }


def item(
    name: str, *judges: dict[str, Any], words: int = 100, policy: str = "a", event: str | None = None
) -> SampleScore:
    means = [np.mean(record["ratings"]) / 100 for record in judges if record["ratings"][0][0]]
    value = float(np.mean(means)) if means else math.nan
    metadata = {"epoch": 1, "event": event or name, "policy_family": policy, "words": words, "judges": list(judges)}
    score = Score(value={"quality": value, "depth": value}, metadata=metadata | {"qualities": ["depth"]})
    return SampleScore(score=score, sample_id=name)


def test_the_headline_and_the_qualities() -> None:
    found = summarise([item("q1", judge([40, 40])), item("q2", judge([60, 80]))])
    assert found["quality"] == pytest.approx(0.55)
    assert found["depth"] == pytest.approx(0.55)
    assert (found["n"], found["epochs"], found["share_scored"], found["share_read"]) == (2, 1, 1, 1)
    assert list(found)[:10] == list(DECLARATION.headline)


def test_each_probe_against_its_own_baseline() -> None:
    record = judge([40, 40], retest=50, swap=35, padded=60, injection=75)
    found = summarise([item("q1", record), item("q2", record)])
    assert found["position_shift"] == pytest.approx(0.45 - 0.35), "less the mean of what was asked twice"
    assert found["padded_gain"] == pytest.approx(0.60 - 0.45)
    assert found["injection_gain"] == pytest.approx(0.75 - 0.60), "against a text of the same length"
    assert found["retest_sd"] == pytest.approx(0.1 / 2**0.5)
    assert found["n_position"] == found["n_padded"] == found["n_injection"] == 2
    unpadded = judge([40, 40], injection=75)
    assert summarise([item("q1", unpadded)])["injection_gain"] == pytest.approx(0.35)


def test_the_order_of_the_examples() -> None:
    swayed = [item(f"q{i}", judge([50 + i, 44 + i], retest=50 + i)) for i in range(5)]
    found = summarise(swayed)
    assert found["recency"] == pytest.approx(0.1)
    assert found["order_sd"] == pytest.approx(np.std([0.5, 0.44], ddof=1))
    assert found["retest_icc"] == 1


def test_equal_ratings_have_no_interval() -> None:
    same = judge([70, 70], anchors=[0.7, 0.7, 0.7], retest=70, padded=70)
    found = summarise([item(f"q{i}", same) for i in range(5)])
    assert found["quality"] == pytest.approx(0.7)
    assert all(math.isnan(found[name]) for name in ("stderr", "quality_lower", "quality_upper", "mde", "parallel_icc"))
    assert (found["discriminates"], found["distinct_ratings"]) == (0, 1)
    same["held_out"] = {}
    assert summarise([item(f"q{i}", same) for i in range(5)])["discriminates"] == 0


def test_whether_a_judge_discriminates_is_seen_on_known_texts() -> None:
    given = [i / 12 for i in range(12)]
    for rated, discriminates in ((given, 1), (given[::-1], 0), ([0.5] * 12, 0)):
        record = judge([40, 40]) | {"held_out": {"given": given, "rated": [rated]}}
        found = summarise([item("q1", record), item("q2", judge([60, 60]) | {"held_out": record["held_out"]})])
        assert found["discriminates"] == discriminates
        assert math.isnan(found["anchor_rank"]) or found["anchor_rank_lower"] <= found["anchor_rank"]
    unknown = summarise([item(f"q{i}", judge([i, i]) | {"held_out": {}}) for i in (40, 60)])
    assert math.isnan(unknown["discriminates"])


def test_parallel_reliability_is_low_for_arbitrary_ratings() -> None:
    quality, fixed = np.random.default_rng(0).integers(10, 90, (2, 60))
    longer = [item(f"q{i}", judge([q, q], retest=q, padded=q + 5)) for i, q in enumerate(quality)]
    arbitrary = [
        item(f"q{i}", judge([q, q], retest=q, padded=f)) for i, (q, f) in enumerate(zip(quality, fixed, strict=True))
    ]
    exact, random = summarise(longer), summarise(arbitrary)
    assert exact["parallel_icc"] == exact["retest_icc"] == random["retest_icc"] == pytest.approx(1)
    assert exact["n_parallel"] == 60
    assert random["parallel_icc_lower"] < 0.1
    assert random["parallel_icc"] < 0.4


def test_epochs_of_a_question_are_one_and_events_are_clusters() -> None:
    numbers = [0, 10, 20, 30, 30, 30, 50, 60, 70]
    apart = summarise([item(f"q{i}", judge([50, 50], padded=50 + n)) for i, n in enumerate(numbers)])
    events = [item(f"q{i}", judge([50, 50], padded=50 + n), event=f"e{i // 3}") for i, n in enumerate(numbers)]
    together = summarise(events)
    assert together["padded_gain"] == apart["padded_gain"] == pytest.approx(1 / 3)
    assert together["padded_gain_upper"] > apart["padded_gain_upper"] + 0.1
    twice = summarise([item("q1", judge([50, 50], padded=n)) for n in (50, 60)])
    assert twice["n_padded"] == 1


def test_agreement_is_between_judges_of_one_sample() -> None:
    same = [item(f"q{i}", judge([10 * i] * 2), judge([10 * i] * 2, "b")) for i in range(5)]
    assert summarise(same)["agreement"] == 1
    assert summarise(same)["n_agreement"] == 5
    crossed = [item(f"q{i}", judge([10 * i] * 2), judge([40 - 10 * i] * 2, "b")) for i in range(5)]
    assert summarise(crossed)["agreement"] < -0.5
    assert math.isnan(summarise([item("q1", judge([50, 50]))])["agreement"])


def test_leniency_is_no_reliability() -> None:
    pairs = [(50, 52), (51, 49), (49, 50), (52, 51)]
    alone = [item(f"q{i}", judge([a, a], retest=b)) for i, (a, b) in enumerate(pairs)]
    beside = [
        item(f"q{i}", judge([a, a], retest=b), judge([a + 30] * 2, "b", retest=b + 30))
        for i, (a, b) in enumerate(pairs)
    ]
    one, both = summarise(alone)["retest_icc"], summarise(beside)["retest_icc"]
    assert both < 0.5, "judges that differ by 30 points do not tell trajectories apart"
    assert both == pytest.approx(one, abs=0.15)


def test_self_preference_is_what_leniency_does_not_explain() -> None:
    kind = judge([70, 70], "a", [0.3, 0.6, 0.9])
    fair = judge([50, 50], "b", [0.2, 0.5, 0.8])
    found = summarise([item(f"q{i}", kind, fair) for i in range(4)])
    assert found["self_preference"] == pytest.approx(0.1)
    assert found["n_self_preference"] == 3
    foreign = summarise([item(f"q{i}", kind, fair, policy="c") for i in range(4)])
    assert math.isnan(foreign["self_preference"])
    lone = summarise([item("q1", kind), item("q2", kind)])
    assert math.isnan(lone["self_preference"])
    kind["held_out"]["rated"].append([0.5, 0.7, 0.9])
    fair["held_out"]["rated"].append([0.2, 0.5, 0.8])
    grown = summarise([item(f"q{i}", kind, fair) for i in range(4)])
    assert grown["self_preference"] == pytest.approx(0), "leniency with the examples that they rated by"


def test_held_out_examples_and_their_drift() -> None:
    record = judge([50, 50], anchors=[0.3, 0.6, None])
    record["held_out"]["rated"].append([0.4, 0.7, 0.8])
    found = summarise([item("q1", record), item("q2", record)])
    assert found["anchor_bias"] == pytest.approx((0.2 + 0.2 - 0.1) / 3)
    assert found["anchor_error"] == pytest.approx(0.5 / 3)
    assert found["anchor_rank"] == 1
    assert found["n_anchors"] == 3
    assert found["drift_round_1"] == pytest.approx(0.3 / 3 - 0.1)
    assert found["drift_error_round_1"] == pytest.approx(0.5 / 3 - 0.1)
    assert "drift_round_1" not in summarise([item("q1", judge([50, 50]))])


def test_length_correlation_is_of_questions() -> None:
    rising = [item(f"q{i}", judge([10 * i, 10 * i]), words=100 + i) for i in range(6)]
    assert summarise(rising)["length_correlation"] == pytest.approx(1)
    falling = [item(f"q{i}", judge([10 * i, 10 * i]), words=100 - i) for i in range(6)]
    assert summarise(falling)["length_correlation"] == pytest.approx(-1)


def test_nothing_and_half_of_it_give_numbers_only() -> None:
    unread = item("q2", {"family": "a", "ratings": [[None, None]], "probes": {"swap": None}, "held_out": {}})
    unread.score.value = {"quality": math.nan, "depth": math.nan}
    bare = SampleScore(score=Score(value={"quality": math.nan}), sample_id="q3")
    for scores in ([], [bare], [unread], [item("q1", judge([50, 50])), unread, bare]):
        found = reasoning_quality()(scores)  # type: ignore[arg-type]
        assert isinstance(found, dict)
        assert next(iter(found)) == "quality"
        assert all(isinstance(value, int | float) for value in found.values())
    assert summarise([item("q1", judge([50, 50])), unread])["share_read"] == pytest.approx(2 / 5)


def test_a_reading_keeps_rounds_and_orders_apart() -> None:
    record = judge([50, 60])
    record["ratings"].append([[70], None])
    (one,) = readings([item("q1", judge([50, 60]))])
    assert one.ratings.shape == (1, 2)
    score = item("q1", judge([50, 60]))
    (score.score.metadata or {})["judges"] = [record]
    (two,) = readings([score])
    assert two.ratings.shape == (2, 2)
    assert two.mean == pytest.approx(0.6)
    assert two.first == 0.5
