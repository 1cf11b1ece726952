"""Variance components: a hand-computed value, planted components, and what plans follow from them."""

import math

import numpy as np
import pytest

from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.power import Components, planned_mde, variance_components


def test_components_of_a_small_table_are_those_computed_by_hand() -> None:
    # Means 1, 3 | 7, 9: within events 2 + 2 over 2, between 2 x 9 + 2 x 9 over 1. Epochs differ by 2: variance 2.
    result = variance_components([[0, 2], [2, 4], [6, 8], [8, 10]], ["a", "a", "b", "b"])
    assert result.epoch == pytest.approx(2)
    assert result.question == pytest.approx(2 - 2 / 2)
    assert result.event == pytest.approx((36 - 2) / 2)
    assert result.sizes == (2, 2)


def test_without_shared_events_questions_have_their_variance() -> None:
    result = variance_components([[1.0], [3.0], [5.0], [math.nan]], ["a", "b", "c", "d"])
    assert [result.event, result.question, result.n] == pytest.approx([0, 4, 3])
    assert math.isnan(result.epoch)


def test_planted_components_are_recovered() -> None:
    rng = np.random.default_rng(0)
    event = np.repeat(np.arange(1500), 2)
    question = rng.normal(0, 0.3, 1500)[event] + rng.normal(0, 0.2, 3000)
    result = variance_components(question[:, None] + rng.normal(0, 0.1, (3000, 3)), event.tolist())
    assert [result.event, result.question, result.epoch] == pytest.approx([0.09, 0.04, 0.01], rel=0.08)


def test_the_plan_for_the_same_run_is_its_own_mde() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0, 1, (200, 1)) + rng.normal(0, 0.5, (200, 3))
    result = variance_components(values, range(200))
    assert result.mde(200, 3) == pytest.approx(mean_estimate(values.mean(axis=1)).mde)
    assert result.mde(200, 1) > result.mde(200, 3)


def test_the_fewest_questions_detect_the_effect() -> None:
    plan = Components(event=0.02, question=0.03, epoch=0.04, sizes=(3, 1))
    n = plan.questions(0.05, 2)
    assert plan.mde(int(n), 2) <= 0.05 < plan.mde(int(n) - 1, 2)
    assert plan.questions(0.05, 1) > n
    assert plan.questions(1e-6, 1) == math.inf
    alone = Components(0.0, 0.04, math.nan, (1,) * 10)
    assert alone.mde(50, 1) == pytest.approx(planned_mde(0.2, range(50)))
    assert math.isnan(alone.mde(50, 2))


def test_one_question_has_no_variance() -> None:
    assert math.isnan(variance_components([[1.0, 2.0]], ["a"]).question)


def test_unread_answers_alone_have_no_plan() -> None:
    result = variance_components([[math.nan, math.nan], [math.nan, math.nan]], ["a", "b"])
    assert math.isnan(result.mde(result.n, 2))
