"""A sequential test for drift: the signals of a run, one after the other, against those of clean runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Signals = NDArray[np.float64]
"""Checkpoints x signals, or runs of them."""
ALLOWANCE = 0.5
"""What a CUSUM forgives at each checkpoint, in standard deviations: half of the drift that it is made for."""
SIMULATIONS = 2000
FEWEST = 20
"""Checkpoints of clean runs from which a mean and a standard deviation can be estimated."""
MOST_CORRELATION = 0.9
"""Of one checkpoint with the next. Above, a clean run wanders so far that no drift could be told from it."""


@dataclass(frozen=True)
class DriftTest:
    """A calibrated test. See `calibrate`."""

    mean: NDArray[np.float64]
    """Of each signal, in clean runs."""
    sd: NDArray[np.float64]
    whiten: float
    """Divides the sum of the standardised signals, so that it varies by 1."""
    threshold: float
    """Of the statistic, for the stated share of false alarms."""
    alpha: float
    checkpoints: int
    """Checkpoints of a run, over all of which `alpha` holds."""
    correlation: float
    """Of one checkpoint with the next, in clean runs."""

    def statistic(self, run: ArrayLike) -> NDArray[np.float64]:
        """The statistic after each checkpoint: an alarm where it exceeds `threshold`.

        Args:
            run: Checkpoints x signals, or several runs of them, each signal so that an increase is suspicious. A NaN
                counts as the clean mean.
        """
        return _cusum(np.nan_to_num((np.asarray(run, dtype=float) - self.mean) / self.sd), self.whiten)


def calibrate(clean: Sequence[ArrayLike], alpha: float = 0.05, checkpoints: int = 50, seed: int = 0) -> DriftTest:
    r"""Find the threshold that a clean run exceeds with probability `alpha`, at any of its checkpoints.

    For each standardised signal, and for their sum, the one-sided CUSUM of Page (1954) is
    $C_t=\max(0, C_{t-1}+z_t-\tfrac12)$; the statistic is the largest of them. The sum finds signals that drift
    together, as they do when a policy exploits its reward; the single ones find one that drifts alone.

    The threshold is a quantile over simulated runs: what is new at each checkpoint of the clean runs is drawn with
    replacement, all signals together, and carried over to the next one as there. Each simulation draws clean runs of
    the same number as well, and estimates mean and standard deviation from them: with few of these the threshold is
    higher, since the test's own zero is uncertain. It does not protect against clean runs of another distribution than
    those given: a signal that training moves by itself, such as the reward, is not a signal of drift.

    Args:
        clean: Of each clean run, checkpoints x signals; at least 20 checkpoints in all.
        alpha: Probability of an alarm in a clean run.
        checkpoints: Checkpoints of a run.
        seed: Of the simulation.

    Raises:
        ValueError: Too few checkpoints, a signal that never varies, or one that wanders.
    """
    runs = [np.asarray(run, dtype=float) for run in clean]
    pooled = np.concatenate(runs) if runs else np.empty((0, 1))
    finite = np.isfinite(pooled).all(axis=1)
    if finite.sum() < FEWEST:
        raise ValueError(f"{int(finite.sum())} checkpoints of clean runs, and at least {FEWEST} are needed")
    mean, sd = pooled[finite].mean(axis=0), pooled[finite].std(axis=0, ddof=1)
    if not (sd > 0).all():
        raise ValueError(f"signal {int(np.argmin(sd))} never varies in the clean runs")
    standardised = [(run[np.isfinite(run).all(axis=1)] - mean) / sd for run in runs]
    correlation = _carry_over(standardised, int(finite.sum()))
    if correlation > MOST_CORRELATION:
        raise ValueError(f"a checkpoint correlates by {correlation:.2f} with the one before: the clean runs wander")
    between = np.atleast_2d(np.corrcoef(np.concatenate(standardised), rowvar=False))
    whiten = float(np.sqrt(max(between.sum(), 1.0)))
    rng = np.random.default_rng(seed)
    lengths = [len(run) for run in standardised]
    shocks = np.concatenate([run[1:] - correlation * run[:-1] for run in standardised])
    shocks = np.asarray((shocks - shocks.mean(axis=0)) / shocks.std(axis=0), dtype=np.float64)
    drawn = np.concatenate([_draw(rng, length, shocks, correlation) for length in lengths], axis=1)
    runs_drawn = _draw(rng, checkpoints, shocks, correlation)
    runs_drawn = (runs_drawn - drawn.mean(axis=1, keepdims=True)) / drawn.std(axis=1, ddof=1, keepdims=True)
    exceeded = _cusum(runs_drawn, whiten).max(axis=1)
    return DriftTest(mean, sd, whiten, float(np.quantile(exceeded, 1 - alpha)), alpha, checkpoints, correlation)


def _cusum(standardised: NDArray[np.float64], whiten: float) -> NDArray[np.float64]:
    """The largest CUSUM of each signal and of their sum. (Runs x) checkpoints x signals to (runs x) checkpoints."""
    several = standardised.shape[-1] > 1
    summed = standardised.sum(axis=-1, keepdims=True) / whiten
    signals = np.concatenate([standardised, summed], axis=-1) if several else standardised
    level = np.zeros_like(signals[..., 0, :])
    found = np.empty(signals.shape[:-1])
    for t in range(signals.shape[-2]):
        level = np.maximum(0, level + signals[..., t, :] - ALLOWANCE)
        found[..., t] = level.max(axis=-1)
    return found


def _draw(rng: np.random.Generator, length: int, shocks: Signals, correlation: float) -> Signals:
    """Simulated clean runs: simulations x checkpoints x signals, stationary, each with standard deviation 1."""
    noise = shocks[rng.integers(len(shocks), size=(SIMULATIONS, length))]
    for t in range(1, length if correlation else 0):
        noise[:, t] = correlation * noise[:, t - 1] + np.sqrt(1 - correlation**2) * noise[:, t]
    return noise


def _carry_over(runs: Sequence[NDArray[np.float64]], n: int) -> float:
    """Correlation of one checkpoint with the next, over all signals: a cautious estimate, from a short series."""
    before = np.concatenate([run[:-1].ravel() for run in runs])
    after = np.concatenate([run[1:].ravel() for run in runs])
    estimate = float(before @ after / max(float(before @ before), 1e-12)) if before.size else 0.0
    bias = (1 + 3 * estimate) / n  # Kendall (1954): the estimate is too low by that
    error = float(np.sqrt(max(1 - estimate**2, 0) / n))
    return min(max(0.0, estimate + bias + error), 1.0)  # and one standard error more
