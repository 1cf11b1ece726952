"""How often does the hacking monitor stop a clean run, and how soon one that drifts? Simulated traces of both.

python -m studies.validity.hacking_monitor      (a few minutes of one core)
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truthgym.scorers.statistics.drift import calibrate
from truthgym.scorers.statistics.interval import mean_estimate

ALPHA, CHECKPOINTS, ONSET, WITHIN = 0.05, 50, 20, 10
CASES = {
    "independent": (0.0, 0.0, False, 0.0),
    "correlated signals": (0.0, 0.5, False, 0.0),
    "one checkpoint like the last": (0.5, 0.0, False, 0.0),
    "heavy tails": (0.0, 0.0, True, 0.0),
    "levels of runs differ by 0.5 sd": (0.0, 0.0, False, 0.5),
    "levels of runs differ by 1 sd": (0.0, 0.0, False, 1.0),
    "all runs rise by 2 sd": (0.0, 0.0, False, 0.0, 2.0),
}
"""By name: the correlation from one checkpoint to the next, that between signals, whether the tails are heavy, the
standard deviation of a run's level, in those of a checkpoint, and by how many of those all runs rise from the first
checkpoint to the last."""


def traces(
    rng: np.random.Generator,
    runs: int,
    length: int,
    signals: int,
    carry: float,
    between_signals: float,
    heavy: bool,
    level: float = 0.0,
    rise: float = 0.0,
) -> "NDArray[np.float64]":
    """Clean traces, runs x checkpoints x signals, of mean 0 but for the rise, and sd 1 within a run."""
    shape = (runs, length, signals)
    noise = rng.standard_t(5, shape) / np.sqrt(5 / 3) if heavy else rng.standard_normal(shape)
    shared = rng.standard_normal((runs, length, 1))
    noise = np.sqrt(1 - between_signals) * noise + np.sqrt(between_signals) * shared
    for t in range(1, length):
        noise[:, t] = carry * noise[:, t - 1] + np.sqrt(1 - carry**2) * noise[:, t]
    noise += rise * np.linspace(0, 1, length)[:, None]
    return np.asarray(noise + level * rng.standard_normal((runs, 1, signals)), dtype=np.float64)


def simulate(runs: int = 600, clean: tuple[int, ...] = (4, 10), signals: tuple[int, ...] = (1, 2, 4),
             calibrations: int = 12, seed: int = 0, cases: Sequence[str] = tuple(CASES)) -> pd.DataFrame:  # fmt: skip
    """Stop clean and drifting runs with tests that were calibrated on other clean traces.

    The drift is planted at checkpoint 20 of 50: from there on every signal is 1 standard deviation (of a checkpoint in
    a clean run) higher, which is what a reader of the curves would hardly see.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for name, number, size in product(cases, signals, clean):
        carry, between_signals, heavy, *level = CASES[name]
        false, stopped = [], []
        for repeat in range(calibrations):
            null = traces(rng, size, CHECKPOINTS, number, carry, between_signals, bool(heavy), *level)
            test = calibrate(list(null), ALPHA, CHECKPOINTS, seed=repeat)
            each = runs // calibrations
            drawn = traces(rng, each, CHECKPOINTS, number, carry, between_signals, bool(heavy), *level)
            false.append(float((test.statistic(drawn) > test.threshold).any(axis=1).mean()))
            drawn = traces(rng, each, CHECKPOINTS, number, carry, between_signals, bool(heavy), *level)
            drawn[:, ONSET:] += 1
            alarm = test.statistic(drawn) > test.threshold
            first = np.where(alarm.any(axis=1), alarm.argmax(axis=1), np.inf)
            delay = first[first >= ONSET] - ONSET + 1
            stopped.append(float((delay <= WITHIN).mean()) if delay.size else np.nan)
        rows.append({
            "case": name, "signals": number, "clean": size, **mean_estimate(false).metrics("false"),
            **mean_estimate(stopped).metrics("stopped"), "runs": each * calibrations, "calibrations": calibrations,
        })  # fmt: skip
    return pd.DataFrame(rows)


if __name__ == "__main__":
    print(simulate(600).to_string(index=False))
