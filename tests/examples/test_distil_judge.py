"""Distillation of a judge: what repeated scores and the filter do to labels, and the whole path on a small n."""

from pathlib import Path

import numpy as np
import pytest

from examples import distil_judge
from examples.distil_judge import Arm, Reply, in_order, judge_scores, pooled, preferences

GROUPS = distil_judge.make_replies(12, 4, seed=0, split="test")
REPLIES = [reply for group in GROUPS for reply in group]


def test_repeated_scores_are_draws_around_the_planted_quality() -> None:
    quiet = judge_scores(REPLIES[:8], 2, noise=0.0)
    assert quiet == pytest.approx(np.array([[reply.quality] * 2 for reply in REPLIES[:8]]), abs=0.011)
    noisy = judge_scores(REPLIES, 4, noise=0.1)
    assert 0.06 < noisy.std(axis=1, ddof=1).mean() < 0.14
    errors = noisy - np.array([[reply.quality] for reply in REPLIES])
    assert np.abs(errors.mean(axis=1)).mean() < 0.75 * np.abs(errors).mean(), "the mean of four is nearer"


def test_the_filter_keeps_the_pairs_that_are_told_apart() -> None:
    group = [[Reply("q", "a"), Reply("q", "b"), Reply("q", "c")]]
    scores = np.array([[0.1, 0.2], [0.2, 0.1], [0.8, 0.9]])
    assert [(pair.chosen.text, pair.rejected.text) for pair in preferences(group, scores, 1.0)] == [
        ("c", "a"),
        ("c", "b"),
    ]
    # The pooled variance is 0.005, so that the standard error of a difference of means of two is sqrt(0.005).
    assert len(preferences(group, scores, 0.7 / np.sqrt(0.005) - 1e-6)) == 2
    assert preferences(group, scores, 0.7 / np.sqrt(0.005) + 1e-6) == []
    assert len(preferences(group, scores[:, :1], 0)) == 3
    assert preferences(group, np.ones((3, 1)), 0) == [], "a tie is no preference"


def test_the_share_in_order_is_that_of_the_truth() -> None:
    truth = np.array([reply.quality for reply in REPLIES])
    assert in_order(GROUPS, truth)[0].mean() == 1
    assert in_order(GROUPS, -truth)[0].mean() == 0
    assert in_order(GROUPS, np.zeros(len(REPLIES)))[0].mean() == 0.5


def test_arms_are_compared_pair_by_pair_over_seeds() -> None:
    def arm(name: str, *hits: float) -> Arm:
        return Arm(name, 8, 0, 4, 0.5, np.array(hits), tuple("aabbcc"[: len(hits)]))

    runs = [[arm("x", 1, 1, 1, 1, 0, 1), arm("y", 0, 1, 1, 1, 0, 0)]] * 2
    one, other = pooled(runs)
    gap = one.minus(other)
    assert [gap.estimate, gap.n] == pytest.approx([1 / 3, 12])
    assert len(set(one.clusters)) == 6, "a prompt of another seed is another prompt"
    assert one.accuracy.estimate == pytest.approx(5 / 6)


@pytest.mark.slow
def test_both_arms_spend_the_same_calls(tiny_model: Path, tmp_path: Path) -> None:
    base = str(tiny_model)
    found = list(
        distil_judge.arms(base, tmp_path, budget=64, repeats=4, each=4, held_out=8, noise=0.15, steps=2, seed=0)
    )
    assert [(arm.label_calls, arm.calls_each) for arm in found] == [(0, 1), (0, 4), (64, 0), (64, 0)]
    assert found[1].accuracy.estimate >= found[0].accuracy.estimate
    assert found[2].training_pairs is not None
    assert found[3].training_pairs is not None
    assert found[2].training_pairs > found[3].training_pairs
    text = distil_judge.page(found, "", base, 0.15, 8, 1)
    assert text.count("\n| ") == 11
    assert f"{found[0].accuracy.n} pairs of replies to 8 prompts" in " ".join(text.split())
