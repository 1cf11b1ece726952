"""Paired differences: a known value, what they are invariant to, and the errors."""

import numpy as np
import pytest

from truthgym.scorers.statistics.interval import mean_headline
from truthgym.scorers.statistics.paired import paired_difference


def test_the_difference_is_after_minus_before() -> None:
    found = paired_difference([0.2, 0.2, np.nan, 0.5], [0.4, 0.1, 0.5, np.nan], ["a", "b", "c", "d"])
    assert found.estimate == pytest.approx(-0.05)
    assert found.n == 2
    assert found == mean_headline([0.2 - 0.4, 0.2 - 0.1], ["a", "b"])


def test_it_ignores_the_level_of_each_question() -> None:
    rng = np.random.default_rng(0)
    before, level = rng.random(50), rng.normal(0, 100, 50)
    after = before + rng.normal(0.1, 0.2, 50)
    plain, shifted = paired_difference(after, before), paired_difference(after + level, before + level)
    assert shifted.estimate == pytest.approx(plain.estimate)
    assert shifted.upper - shifted.lower == pytest.approx(plain.upper - plain.lower)


def test_one_cluster_has_no_interval() -> None:
    found = paired_difference([0.1, 0.2], [0.0, 0.0], ["a", "a"])
    assert found.estimate == pytest.approx(0.15)
    assert np.isnan(found.lower)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="2 values after and 1 before"):
        paired_difference([0.1, 0.2], [0.1])
