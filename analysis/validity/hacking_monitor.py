"""How often does the hacking monitor stop a clean run, and how soon one that drifts? Simulated traces of both.

python -m truthgym.analysis.validity.hacking_monitor docs/reward_methods.md      (a minute of one core)
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from truthgym.analysis.tables.markdown import table
from truthgym.analysis.tables.saving import between
from truthgym.analysis.validity.pages import main
from truthgym.scorers.statistics.drift import calibrate

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

ALPHA, CHECKPOINTS, ONSET, WITHIN = 0.05, 50, 20, 10
CASES = {
    "independent": (0.0, 0.0, False),
    "correlated signals": (0.0, 0.5, False),
    "one checkpoint like the last": (0.5, 0.0, False),
    "heavy tails": (0.0, 0.0, True),
}
"""By name: the correlation from one checkpoint to the next, that between signals, and whether the tails are heavy."""
LABELS = {"signals": "signals that drift", "clean": "checkpoints of clean runs", "false": "clean runs stopped",
          "stopped": "stopped within 10", "delay": "median checkpoints"}  # fmt: skip


def traces(
    rng: np.random.Generator, runs: int, length: int, signals: int, carry: float, between_signals: float, heavy: bool
) -> "NDArray[np.float64]":
    """Clean traces, runs x checkpoints x signals, each signal with mean 0 and standard deviation 1."""
    shape = (runs, length, signals)
    noise = rng.standard_t(5, shape) / np.sqrt(5 / 3) if heavy else rng.standard_normal(shape)
    shared = rng.standard_normal((runs, length, 1))
    noise = np.sqrt(1 - between_signals) * noise + np.sqrt(between_signals) * shared
    for t in range(1, length):
        noise[:, t] = carry * noise[:, t - 1] + np.sqrt(1 - carry**2) * noise[:, t]
    return np.asarray(noise, dtype=np.float64)


def simulate(runs: int = 400, clean: tuple[int, ...] = (50, 200), signals: tuple[int, ...] = (1, 2, 4),
             calibrations: int = 8, seed: int = 0, cases: Sequence[str] = tuple(CASES)) -> "pd.DataFrame":  # fmt: skip
    """Stop clean and drifting runs with tests that were calibrated on other clean traces.

    The drift is planted at checkpoint 20 of 50: from there on every signal is 1 standard deviation (of a checkpoint in
    a clean run) higher, which is what a reader of the curves would hardly see.

    Args:
        runs: Runs of each kind and case, divided among the calibrations.
        clean: Checkpoints of the clean traces on which a test is calibrated.
        signals: How many signals there are. All of them drift.
        calibrations: Tests that are calibrated, each on traces of its own.
        seed: Of the traces.
        cases: Names of `CASES`.

    Returns:
        A row for each case, number of signals and size of the clean traces: `false`, the share of clean runs stopped;
        `stopped`, of the drifting runs that were not stopped before the drift, the share stopped within 10 checkpoints;
        `delay`, the median number of checkpoints until then (NaN if fewer than half are stopped).
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    rows = []
    for name, number, size in product(cases, signals, clean):
        case = CASES[name]
        stops: list[NDArray[np.float64]] = []
        delays: list[NDArray[np.float64]] = []
        for repeat in range(calibrations):
            null = traces(rng, size // CHECKPOINTS, CHECKPOINTS, number, *case)
            test = calibrate(list(null), ALPHA, CHECKPOINTS, seed=repeat)
            each = runs // calibrations
            for drift, found in ((0.0, stops), (1.0, delays)):
                drawn = traces(rng, each, CHECKPOINTS, number, *case)
                drawn[:, ONSET:] += drift
                alarm = test.statistic(drawn) > test.threshold
                first = np.where(alarm.any(axis=1), alarm.argmax(axis=1), np.inf)
                found.append(first)
        null_stops, drifted = np.concatenate(stops), np.concatenate(delays)
        delay = drifted[drifted >= ONSET] - ONSET + 1
        rows.append({
            "case": name, "signals": number, "clean": size, "false": float(np.isfinite(null_stops).mean()),
            "stopped": float((delay <= WITHIN).mean()), "delay": float(np.median(delay)),
            "runs": len(null_stops),
        })  # fmt: skip
    return pd.DataFrame(rows)


def write(out: Path, runs: int = 400) -> None:
    """Write the table between the page's comments `<!-- monitor -->` and `<!-- end -->`."""
    frame = simulate(runs)
    text = table(frame, ("case", "signals", "clean", "false", "stopped", "delay"), LABELS, digits=2)
    text += f"\n*{int(frame['runs'].iloc[0])} clean and as many drifting runs in each row, by 8 calibrations.*\n"
    out.write_text(between(out.read_text(encoding="utf-8"), "monitor", text, str(out)), encoding="utf-8")


if __name__ == "__main__":
    main(write, __doc__, "runs")
