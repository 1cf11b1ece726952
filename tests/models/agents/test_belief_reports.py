"""Reports: noise that keeps the mean, errors that are tied as planted, and numbers that follow from their key alone."""

from itertools import product

import numpy as np
import pytest

from truthgym.models.agents.belief_reports import noisy, noisy_reports, percent, report
from truthgym.models.agents.policies import Parameters, uniform


@pytest.mark.parametrize(
    ("belief", "noise", "a", "b"),
    [
        (0.3, 0.1, 6, 14),  # .3 x .7 / .01 - 1 = 20
        (0.5, 0.05, 49.5, 49.5),  # .25 / .0025 - 1 = 99
        (0.9, 0.15, 2.7, 0.3),  # .09 / .0225 - 1 = 3
        (0.5, 0.5, 1 / 18, 1 / 18),  # no more than nine tenths of .25: 1 / .9 - 1 = 1/9
    ],
)
def test_a_report_is_a_quantile_of_the_beta_distribution(belief: float, noise: float, a: float, b: float) -> None:
    from scipy.stats import beta

    places = np.array([0.1, 0.25, 0.5, 0.9])
    np.testing.assert_allclose(noisy(belief, noise, places), beta(a, b).ppf(places), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_a_report_without_noise_or_doubt_is_the_belief(shared: float) -> None:
    without, much = Parameters(shared=shared), Parameters(noise=0.2, shared=shared)
    assert noisy(0.4, 0, 0.1) == 0.4
    for certain in (0.0, 1.0):
        assert noisy(certain, 0.2, 0.1) == certain
        assert report(certain, much, "bayesian", "q", 1, "marker", 1, 4) == certain
    assert report(0.4, without, "bayesian", "q", 1, "marker", 1, 4) == 0.4
    np.testing.assert_array_equal(noisy_reports(np.array([0.0, 0.4, 1.0]), 0.1, 0.2, without), [0.0, 0.4, 1.0])
    mixed = noisy_reports(np.array([0.0, 0.4, 1.0]), 0.1, 0.2, much)
    assert mixed[[0, 2]].tolist() == [0, 1]
    assert mixed[1] != 0.4


def test_many_reports_at_once_and_one_by_one_are_the_same() -> None:
    beliefs = np.array([0.0, 0.01, 0.3, 0.5, 0.9, 1.0])
    own, first = np.array([0.1, 0.9, 0.3, 0.6, 0.2, 0.5]), np.array([0.4, 0.7, 0.1, 0.9, 0.5, 0.2])
    for planted in (Parameters(noise=0.1), Parameters(noise=0.1, shared=0.4)):
        at_once = noisy_reports(beliefs, own, first, planted)
        one_by_one = [float(noisy_reports(*row, planted)) for row in zip(beliefs, own, first, strict=True)]
        assert at_once.tolist() == one_by_one


def test_shared_1_repeats_the_first_quantile_and_0_draws_anew() -> None:
    own, first = np.random.default_rng(3).random((2, 100))
    all_shared = noisy_reports(0.7, own, first, Parameters(noise=0.1, shared=1))
    np.testing.assert_allclose(all_shared, noisy(0.7, 0.1, first), atol=1e-9)
    np.testing.assert_array_equal(noisy_reports(0.7, own, first, Parameters(noise=0.1)), noisy(0.7, 0.1, own))


PLACES = list(product(("percent", "marker"), (0, 1), (0, 1, 4)))
"""Form, beliefs stated, pieces."""


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_one_report_follows_from_the_numbers_drawn_for_it(shared: float) -> None:
    planted = Parameters(noise=0.1, shared=shared, seed=7)
    for place in PLACES:
        own = uniform(7, "report", "entrenched", "q", 2, *place)
        first = uniform(7, "report", "entrenched", "q", 2, "percent", 0, 0)
        result = float(noisy_reports(0.3, own, first, planted, is_first=place == ("percent", 0, 0)))
        assert report(0.3, planted, "entrenched", "q", 2, *place) == result


def test_a_percent_is_a_rounded_probability() -> None:
    assert percent(0.734) == 0.73
    assert percent(0.736) == 0.74
    assert percent(0.004) == 0
    assert percent(0.9951) == 1
    for whole in range(101):
        assert percent(whole / 100) == whole / 100
        assert f"{100 * float(percent(whole / 100)):.0f}" == f"{whole}"
    np.testing.assert_array_equal(percent(np.array([0.126, 0.5])), [0.13, 0.5])
