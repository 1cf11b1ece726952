"""The page on the validity of the progress tasks: its runs and tables, on few timelines."""

from collections.abc import Callable

import numpy as np
import pytest
from inspect_ai.scorer import SampleScore, Score

from studies.validity import progress
from studies.validity.progress import FOLLOWERS, NOISY, STEERERS, Setup, measured, replicate
from truthgym.scorers import value_influence, value_tracking


def test_agents_differ_by_name_and_policy() -> None:
    for setups in (FOLLOWERS, NOISY, STEERERS):
        assert len({setup.name for setup in setups}) == len(setups)
    refuses = measured("follow", FOLLOWERS[-1], 1, "linear")
    assert refuses["share_scored"] == 0


def test_noise_is_what_the_people_have() -> None:
    noisy = measured("follow", NOISY[0], 1, "linear")
    clean = measured("follow", FOLLOWERS[0], 1, "linear")
    assert noisy["snr"] < clean["snr"]
    assert noisy["reliability"] < clean["reliability"]
    assert noisy["skill"] < 0.99 < clean["skill"], "it learns from answers to other items"


def test_the_page_has_a_row_for_each_agent(monkeypatch: pytest.MonkeyPatch, written: Callable[..., str]) -> None:
    keys = {*value_influence.KEYS, *value_tracking.KEYS}

    def made(task: str, setup: Setup, n: int, drift: str) -> list[SampleScore]:
        values = np.random.default_rng(len(setup.name)).uniform(0.1, 0.9, (n, len(keys)))
        return [
            SampleScore(score=Score(value=dict(zip(sorted(keys), row, strict=True)), metadata={"epoch": 1}),
                        sample_id=f"linear-{i}")
            for i, row in enumerate(values.tolist())
        ]  # fmt: skip

    monkeypatch.setattr(progress, "scores", made)
    lines = written(progress.STUDY, timelines=4, population=5, runs=3).splitlines()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")]
    for setups, tables in ((FOLLOWERS, 1), (STEERERS, 1), (NOISY, 1)):
        for setup in setups:
            assert rows.count(setup.name) >= tables, setup.name
    covered = [line for line in lines if line.startswith(("| follow |", "| predict |", "| coevolve |"))]
    assert len(covered) == len(progress.COVERED) * len(progress.SIZES)


def test_half_of_the_way_earns_three_quarters() -> None:
    anchored = next(one for one in FOLLOWERS if one.policy == "anchored")
    assert measured("follow", anchored, 1, "linear")["skill"] == pytest.approx(0.75, abs=0.05)


def test_coverage_is_that_of_the_draws() -> None:
    rng = np.random.default_rng(0)
    errors = rng.uniform(0.1, 0.3, size=40)
    population = [
        SampleScore(score=Score(value={"error": error, "start_error": 1.0}, metadata={"epoch": 1}), sample_id=str(i))
        for i, error in enumerate(errors)
    ]
    figures = replicate("follow", population, 10, 200)
    assert figures["truth"] == pytest.approx(1 - errors.mean())
    assert 0.9 <= figures["coverage"] <= 0.99, "95 %, with a standard error of 1.5 %"
    assert figures["detected"] == 1
    # t with 9 degrees of freedom at 0.975 and 0.8: 2.262 and 0.883, times the standard error of a mean of 10
    assert figures["mde"] == pytest.approx((2.262 + 0.883) * errors.std(ddof=1) / np.sqrt(10), rel=0.1)
