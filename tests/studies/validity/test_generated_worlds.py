"""The study of generated worlds, on few questions. The page has the figures of many."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from studies.validity import generated_worlds as study


def test_form_tells_nothing_of_the_outcome() -> None:
    paths = study.draw("disclosure", 300)
    found, chance = study.leak(paths)
    assert found < chance + 0.06
    told = replace(paths, form=np.column_stack([paths.form, paths.outcome]))
    assert study.leak(told)[0] > 0.9, "a leak would be found"


def test_a_wrong_posterior_is_found() -> None:
    rng = np.random.default_rng(1)
    first = rng.uniform(0.2, 0.8, 20_000)
    outcome = (rng.random(20_000) < first).astype(float)
    nothing = np.zeros((20_000, 1))
    right = study.Paths(first[:, None], first[:, None], outcome, np.zeros(20_000, int), nothing)
    assert study.martingale_tests(right).min() > 1e-3
    gap, bound = study.largest_gap(right)
    assert gap < bound
    wrong = replace(right, exact=0.5 + 0.8 * (right.exact - 0.5))
    assert study.martingale_tests(wrong).min() < 1e-6
    gap, bound = study.largest_gap(wrong)
    assert gap > bound


def test_the_power_of_a_paired_comparison() -> None:
    """All questions alike: exact 0.5 and naive 0.9. The gap is 0.16, the difference of scores +-0.4 around it."""
    n = 1000
    half, naive = np.full((n, 2), 0.5), np.tile([0.5, 0.9], (n, 1))
    paths = study.Paths(half, naive, np.zeros(n), np.ones(n, int), np.zeros((n, 1)))
    row = next(row for row in study.scores(paths) if row["reader"] == "naive")
    assert row["brier"] == pytest.approx(0.25 + 0.16)
    assert row["enough"] == np.ceil((2.801585 * 0.4 / 0.16) ** 2)
    assert row["power"] == pytest.approx(1, abs=1e-3)


def test_one_command_writes_the_page(written: Callable[..., str]) -> None:
    few = {"frames": lambda n, workers: study.studies(n, workers, ("urns", "disclosure"))}
    page = written(replace(study.STUDY, measures=few), n=60, workers=1)
    assert " 60 questions" in page
    assert page.count("\n| disclosure |") == 2
