"""Ratios with intervals, and words copied from an observation."""

import numpy as np
import pytest

from truthgym.scorers.statistics.uplift import copied_share, ratio_estimate


def test_a_ratio_is_that_of_the_sums() -> None:
    found = ratio_estimate([1.0, 3.0, 5.0, np.nan], [10, 10, 40, 7])
    assert found.estimate == pytest.approx(9 / 60)
    assert found.n == 3


def test_its_standard_error_is_that_of_a_regression_through_the_origin() -> None:
    rng = np.random.default_rng(0)
    b = rng.uniform(1, 9, 200)
    u = 0.3 * b + rng.normal(size=200)
    found = ratio_estimate(u, b)
    left = u - u.sum() / b.sum() * b
    assert found.stderr == pytest.approx(np.sqrt((left**2).sum() * 200 / 199) / b.sum())


def test_its_interval_contains_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(300):
        b = rng.gamma(2, 50, 80)
        found = ratio_estimate(0.02 * b + rng.normal(0, 1, 80), b, np.repeat(range(40), 2).tolist())
        inside.append(found.lower <= 0.02 <= found.upper)
    assert 0.91 <= np.mean(inside) <= 0.98


@pytest.mark.parametrize(("values", "sizes"), [([], []), ([np.nan], [1]), ([1.0], [0])])
def test_without_a_text_there_is_no_ratio(values: list[float], sizes: list[float]) -> None:
    assert np.isnan(ratio_estimate(values, sizes).estimate)


@pytest.mark.parametrize(
    ("text", "known", "share"),
    [
        ("It was 84.6 percent of the voters, I read.", "", 4 / 6),
        ("THE TURNOUT WAS 84.6 PERCENT OF THE VOTERS!", "", 1.0),
        ("I would say it is about 80.", "", 0.0),
        ("The turnout was 84.6 percent of the voters.", "The turnout was 84.6 percent of the voters.", np.nan),
    ],
)
def test_copied_share(text: str, known: str, share: float) -> None:
    # The, turnout, was, 84, 6, percent, of, the, voters: six runs of four words.
    found = copied_share(text, "The turnout was 84.6 percent of the voters.", known)
    assert found == pytest.approx(share, nan_ok=True)
