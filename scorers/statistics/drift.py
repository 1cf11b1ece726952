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
ROUNDING_ERROR = 1e-9
"""Standard deviation of a signal, relative to its size, that is 0 but for floating-point arithmetic."""
MOST_CORRELATION = 0.9
"""Of one checkpoint with the next. Above, a clean run wanders so far that no drift could be told from it."""


@dataclass(frozen=True)
class DriftTest:
    """A calibrated test. See `calibrate`."""

    mean: NDArray[np.float64]
    """Of each signal, over clean runs."""
    trend: NDArray[np.float64]
    """What the clean runs have in common at each checkpoint of the longest of them, minus the mean (checkpoints x
    signals). After it the last value stays."""
    sd: NDArray[np.float64]
    """Of each signal within a clean run."""
    level: NDArray[np.float64]
    """Standard deviation of each signal's mean between clean runs, beyond what that within runs explains; in `sd`."""
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
        """The statistic after each checkpoint: an alarm where it exceeds `threshold`."""
        values = np.asarray(run, dtype=float)
        return _cusum(np.nan_to_num((values - self.expected(values.shape[-2])) / self.sd), self.whiten)

    def expected(self, checkpoints: int) -> NDArray[np.float64]:
        """What clean runs show at each of the first checkpoints (checkpoints x signals)."""
        return self.mean + self.trend[np.minimum(np.arange(checkpoints), len(self.trend) - 1)]


def calibrate(clean: Sequence[ArrayLike], alpha: float = 0.05, checkpoints: int = 50, seed: int = 0) -> DriftTest:
    r"""Find the threshold that a clean run exceeds with probability `alpha`, at any of its checkpoints.

    For each standardised signal, and for their sum, the one-sided CUSUM of Page (1954) is $C_t=\max(0,
    C_{t-1}+z_t-\tfrac12)$; the statistic is the largest of them. The sum finds signals that drift together, as they do
    when a policy exploits its reward.

    The threshold is a quantile over simulated runs: what is new at each checkpoint of the clean runs is drawn with
    replacement, all signals together, and carried over to the next one as there. Each has a level of its own, whose
    spread is that of the clean runs' means, and estimates mean, trend and standard deviation from as many simulated
    clean runs: with few clean runs the threshold is high. A trend that all clean runs share (a multiple of t and one of
    log(t)) is taken off. Each clean run is checkpoints x signals: two runs or more, with at least 20 checkpoints in
    all.
    """
    runs = [np.asarray(run, dtype=float) for run in clean]
    kept = [np.flatnonzero(np.isfinite(run).all(axis=1)) for run in runs]
    places = [place for place in kept if len(place) > 1]
    runs = [run[place] for run, place in zip(runs, kept, strict=True) if len(place) > 1]
    lengths = [len(run) for run in runs]
    if len(runs) < 2:
        raise ValueError(f"{len(runs)} clean run, and 2 or more are needed: one does not show how clean runs differ")
    if sum(lengths) < FEWEST:
        raise ValueError(f"{sum(lengths)} checkpoints of clean runs, and at least {FEWEST} are needed")
    means = np.array([run.mean(axis=0) for run in runs])
    within = [run - run_mean for run, run_mean in zip(runs, means, strict=True)]
    shapes = [_shapes(place) for place in places]
    centred = [shape - shape.mean(axis=0) for shape in shapes]
    centre = np.mean([shape.mean(axis=0) for shape in shapes], axis=0)
    weights = _trend(centred, within)
    within = [run - shape @ weights for run, shape in zip(within, centred, strict=True)]
    means = np.array([run - (shape.mean(axis=0) - centre) @ weights for run, shape in zip(means, shapes, strict=True)])
    trend = (_shapes(np.arange(max(place[-1] for place in places) + 1)) - centre) @ weights
    mean, sd = means.mean(axis=0), _within_sd([(run**2).sum(axis=0) for run in within], lengths)
    still = sd <= ROUNDING_ERROR * np.abs(np.concatenate(runs)).max(axis=0)
    if still.any():
        raise ValueError(f"signal {int(np.argmax(still))} never varies in the clean runs, but for a trend of them all")
    standardised = [run / sd for run in within]
    correlation = _carry_over(standardised, lengths)
    if correlation > MOST_CORRELATION:
        raise ValueError(f"a checkpoint correlates by {correlation:.2f} with the one before: the clean runs wander")
    between = np.atleast_2d(np.corrcoef(np.concatenate(standardised), rowvar=False))
    whiten = float(np.sqrt(max(between.sum(), 1.0)))
    rng = np.random.default_rng(seed)
    shocks = np.concatenate([run[1:] - correlation * run[:-1] for run in standardised])
    shocks = np.asarray((shocks - shocks.mean(axis=0)) / shocks.std(axis=0), dtype=np.float64)
    drawn = [_draw(rng, length, shocks, correlation) for length in lengths]
    levels, spread = _levels(rng, (means - mean) / sd, lengths, correlation)
    drawn_means = np.stack([run.mean(axis=1) for run in drawn], axis=1)  # simulations x runs x signals
    around = [run - run.mean(axis=1, keepdims=True) for run in drawn]
    fitted = _trend(centred, around)
    squares = [((run - shape @ fitted) ** 2).sum(axis=1) for run, shape in zip(around, centred, strict=True)]
    offsets = np.array([shape.mean(axis=0) - centre for shape in shapes])
    zero = (drawn_means + levels[:, 1:] - offsets @ fitted).mean(axis=1)
    ahead = (_shapes(np.minimum(np.arange(checkpoints), len(trend) - 1)) - centre) @ fitted
    runs_drawn = _draw(rng, checkpoints, shocks, correlation) + levels[:, :1]
    runs_drawn = (runs_drawn - zero[:, None] - ahead) / _within_sd(squares, lengths)[:, None]
    exceeded = _cusum(runs_drawn, whiten).max(axis=1)
    threshold = float(np.quantile(exceeded, 1 - alpha))
    return DriftTest(mean, trend, sd, spread, whiten, threshold, alpha, checkpoints, correlation)


def _shapes(place: NDArray[np.intp]) -> NDArray[np.float64]:
    """What a trend is made of, at these checkpoints: their number and its logarithm (checkpoints x 2)."""
    return np.stack([place + 1.0, np.log(place + 1.0)], axis=1)


def _trend(shapes: Sequence[NDArray[np.float64]], runs: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Weights of the shapes in runs, both around their means: (simulations x) 2 x signals, by least squares."""
    products = sum(shape.T @ run for shape, run in zip(shapes, runs, strict=True))
    return np.asarray(np.linalg.pinv(sum(shape.T @ shape for shape in shapes)) @ products, dtype=np.float64)


def _within_sd(squares: Sequence[NDArray[np.float64]], lengths: Sequence[int]) -> NDArray[np.float64]:
    """The pooled standard deviation within runs, from each run's sum of squares around its own mean."""
    return np.asarray(np.sqrt(sum(squares) / (sum(lengths) - len(lengths))), dtype=np.float64)


def _levels(
    rng: np.random.Generator, means: NDArray[np.float64], lengths: Sequence[int], correlation: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Levels of simulated runs, and the standard deviation between the clean runs that they come from."""
    number = len(means)
    noise = float(np.mean(1 / np.array(lengths))) * (1 + correlation) / (1 - correlation)
    variance = (means**2).sum(axis=0) / (number - 1)
    doubt = (number - 1) / rng.chisquare(number - 1, (SIMULATIONS, 1, 1))
    beyond = np.maximum(doubt * variance - noise, 0)  # simulations x 1 x signals
    mixed = rng.standard_normal((SIMULATIONS, 1 + number, number)) @ means / np.sqrt(number - 1)
    scale = np.sqrt(beyond / np.where(variance > 0, variance, 1))
    return mixed * scale, np.sqrt(np.maximum(variance - noise, 0))


def _cusum(standardised: NDArray[np.float64], whiten: float) -> NDArray[np.float64]:
    """The largest CUSUM of each signal and of their sum. (Runs x) checkpoints x signals to (runs x) checkpoints."""
    several = standardised.shape[-1] > 1
    summed = standardised.sum(axis=-1, keepdims=True) / whiten
    signals = np.concatenate([standardised, summed], axis=-1) if several else standardised
    level = np.zeros_like(signals[..., 0, :])
    largest = np.empty(signals.shape[:-1])
    for t in range(signals.shape[-2]):
        level = np.maximum(0, level + signals[..., t, :] - ALLOWANCE)
        largest[..., t] = level.max(axis=-1)
    return largest


def _draw(rng: np.random.Generator, length: int, shocks: Signals, correlation: float) -> Signals:
    """Simulated clean runs: simulations x checkpoints x signals, stationary, each with standard deviation 1."""
    noise = shocks[rng.integers(len(shocks), size=(SIMULATIONS, length))]
    for t in range(1, length if correlation else 0):
        noise[:, t] = correlation * noise[:, t - 1] + np.sqrt(1 - correlation**2) * noise[:, t]
    return noise


def _carry_over(runs: Sequence[NDArray[np.float64]], lengths: Sequence[int]) -> float:
    """Correlation of one checkpoint with the next, over all signals: a cautious estimate, from short series."""
    before = np.concatenate([run[:-1].ravel() for run in runs])
    after = np.concatenate([run[1:].ravel() for run in runs])
    estimate = float(before @ after / max(float(before @ before), 1e-12)) if before.size else 0.0
    bias = (1 + 3 * estimate) * len(lengths) / sum(lengths)  # Kendall (1954): the estimate is too low by that
    error = float(np.sqrt(max(1 - estimate**2, 0) / sum(lengths)))
    return min(max(0.0, estimate + bias + error), 1.0)  # and one standard error more
