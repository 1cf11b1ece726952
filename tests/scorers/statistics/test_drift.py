"""The drift test: its statistic by hand, its false alarms and its power on simulated traces."""

from typing import Any

import numpy as np
import pytest

from studies.validity.hacking_monitor import simulate, traces
from truthgym.scorers.statistics.drift import calibrate


def test_the_statistic_is_the_largest_cusum() -> None:
    clean = traces(np.random.default_rng(0), 4, 50, 1, 0.0, 0.0, False)
    test = calibrate(list(clean))
    run = test.mean + test.trend[:5] + test.sd * np.array([[0.0], [1.5], [2.0], [-1.0], [0.5]])
    # C = max(0, C + z - 1/2): 0, 1, 2.5, 1, 1
    assert test.statistic(run) == pytest.approx([0, 1, 2.5, 1, 1])
    run[3] = np.nan
    assert test.statistic(run)[3] == pytest.approx(2.0), "a missing entry counts as the clean mean"


def test_clean_runs_are_rarely_stopped_and_a_drift_of_one_sd_soon() -> None:
    result: Any = simulate(runs=320, clean=(10,), signals=(2,), calibrations=8, cases=["independent"]).set_index("case")
    assert result.loc["independent", "false"] <= 0.05 + 2 * (0.05 * 0.95 / 320) ** 0.5
    assert result.loc["independent", "stopped"] >= 0.8


def test_a_trend_that_all_clean_runs_share_is_no_drift() -> None:
    case = "all runs rise by 2 sd"
    result: Any = simulate(runs=320, clean=(10,), signals=(2,), calibrations=8, cases=[case]).iloc[0]
    assert result["false"] <= 0.05 + 2 * (0.05 * 0.95 / 320) ** 0.5, "18 %, if the trend stayed"
    assert result["stopped"] >= 0.8
    t = np.arange(60.0)
    runs = [np.stack([3 + t / 9, 1 - np.log(t + 1)], axis=1) + np.random.default_rng(i).normal(0, 0.1, (60, 2))
            for i in (0, 1)]  # fmt: skip
    plain, moved = calibrate(runs), calibrate([run - np.stack([t, np.log(t + 1)], axis=1) for run in runs])
    design = np.column_stack([np.ones(60), t + 1, np.log(t + 1)])
    fitted = design @ np.linalg.lstsq(design, sum(runs) / 2, rcond=None)[0]
    assert plain.mean + plain.trend == pytest.approx(fitted)
    assert moved.threshold == pytest.approx(plain.threshold)
    assert moved.sd == pytest.approx(plain.sd)


def test_clean_runs_that_differ_in_level_are_rarely_stopped() -> None:
    case = "levels of runs differ by 1 sd"
    result = simulate(runs=320, clean=(4,), signals=(2,), calibrations=8, cases=[case]).iloc[0]
    assert result["false_lower"] <= 0.05
    assert result["false"] <= 0.1, "16 % and more, if all runs were taken to have one level"


def test_the_spread_of_levels_is_found() -> None:
    rng = np.random.default_rng(0)
    same, apart = (calibrate(list(traces(rng, 40, 50, 2, 0.0, 0.0, False, level))) for level in (0.0, 0.5))
    assert apart.level == pytest.approx([0.5, 0.5], rel=0.3)
    assert (same.level < 0.15).all()
    assert apart.threshold > same.threshold + 3
    assert apart.sd == pytest.approx([1, 1], rel=0.05), "within a run"


@pytest.mark.parametrize(
    ("clean", "problem"),
    [
        ([np.zeros((5, 1))] * 2, "10 checkpoints of clean runs, and at least 20"),
        ([np.ones((30, 1))] * 2, "signal 0 never varies"),
        ([np.linspace(0, 1, 60)[:, None]] * 2, "signal 0 never varies in the clean runs, but for a trend"),
        ([np.random.default_rng(0).normal(size=(900, 1)).cumsum(axis=0)] * 2, "the clean runs wander"),
        ([np.random.default_rng(0).normal(size=(60, 1))], "1 clean run, and 2 or more are needed"),
    ],
)
def test_clean_runs_that_cannot_calibrate(clean: list[np.ndarray], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        calibrate(clean)


def test_few_clean_checkpoints_raise_the_threshold() -> None:
    rng = np.random.default_rng(1)
    few, many = (calibrate(list(traces(rng, size // 50, 50, 1, 0.0, 0.0, False))) for size in (100, 1000))
    assert few.threshold > many.threshold + 0.5, "the test's own zero is uncertain"
