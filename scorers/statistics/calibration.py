"""Calibration: whether events with a forecast of p happen with frequency p. Pure functions of arrays.

Each takes one forecast per question: repeats of a question share its outcome, and counting them as independent would
understate the noise. Score several epochs one at a time and average the results.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

BINS = 10
BAND_DRAWS = 2000
"""Number of simulations for a consistency band: its ends are exact to about 3 % of its width."""
NULL_DRAWS = 200
"""Number of simulations for the null value of the ECE: its Monte-Carlo error is about 2 %."""


class Murphy(NamedTuple):
    """The three parts of the Brier score."""

    reliability: float
    """Mean squared distance between frequency and forecast within bins. 0 is calibrated; lower is better."""
    resolution: float
    """Variance of the frequency between bins. Higher is better; at most `uncertainty`."""
    uncertainty: float
    """Variance of the outcome, which does not depend on the forecasts."""


class Recalibration(NamedTuple):
    """Logistic recalibration."""

    slope: float
    """1 is calibrated, below 1 too extreme, above 1 not extreme enough."""
    intercept: float
    """0 is calibrated, below 0 too high, above 0 too low (at a forecast of one half)."""


class ECE(NamedTuple):
    """Expected calibration error, and its value for a calibrated forecaster."""

    ece: float
    null: float


class ReliabilityBin(NamedTuple):
    """A point of a reliability diagram."""

    forecast: float
    """Mean forecast."""
    frequency: float
    """Share of outcomes that are 1."""
    lower: float
    """Lower end of the consistency band: 95 % of the frequencies of a calibrated forecaster are within it."""
    upper: float
    n: int
    """Questions with a forecast in the bin."""


def reliability_diagram(
    p: ArrayLike, y: ArrayLike, bins: int = BINS, events: Sequence[Hashable] | None = None
) -> list[ReliabilityBin]:
    r"""Frequency against forecast, with consistency bands: what a calibrated forecaster's diagram looks like.

    Consistency resampling draws as many questions as there are, and an outcome with exactly the forecast probability
    for each. The number of questions in the bins is then multinomial, and that of the outcomes that are 1 binomial:

    $$(n_1,\dots,n_K)\sim\mathrm{Multinomial}(N, w),\qquad s_k\sim\mathrm{Binomial}(n_k,\bar p_k)$$

    The band is the central 95 % of $s_k/n_k$. It is of each bin alone: of ten bins of a calibrated forecaster, one is
    outside in four diagrams of ten. Questions of one event may resolve together. In place of N, the band draws the
    effective number $N^2 / \sum_g n_g^2$ of events g with $n_g$ questions: all of an event resolve the same way, the
    worst case.

    Forecasts are one per question, or questions x epochs; epochs add to the frequencies, but N counts a question once.
    No bins with fewer than two questions.

    References:
        Bröcker and Smith (2007), Weather and Forecasting 22, 651-661.
    """
    values = np.asarray(p, dtype=float)
    values = values[:, None] if values.ndim == 1 else values
    question, _ = np.nonzero(np.isfinite(values) & np.isfinite(np.asarray(y, dtype=float))[:, None])
    forecast, outcome = pairs(values, np.asarray(y, dtype=float)[:, None])
    n = np.unique(question).size
    if n < 2:
        return []
    bin_of = _bins(forecast, min(bins, n // 2))
    size, mean_p, mean_y = _bin_means(bin_of, forecast, outcome)
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(_effective(n, np.unique(question), events), size / size.sum(), BAND_DRAWS)
    shares = rng.binomial(drawn, np.clip(mean_p, 0, 1)) / np.where(drawn, drawn, np.nan)
    lower, upper = np.nanquantile(shares, (0.025, 0.975), axis=0)
    counts = [np.unique(question[bin_of == k]).size for k in range(size.size)]
    points = np.column_stack([mean_p, mean_y, lower, upper]).tolist()
    return [ReliabilityBin(p, y, low, high, count) for (p, y, low, high), count in zip(points, counts, strict=True)]


def murphy_decomposition(p: ArrayLike, y: ArrayLike, bins: int = BINS) -> Murphy:
    r"""Split the Brier score into reliability - resolution + uncertainty, corrected for bias.

    $$\mathrm{REL}=\sum_k\tfrac{n_k}{N}\Big[(\bar p_k-\bar y_k)^2-\tfrac{\bar y_k(1-\bar y_k)}{n_k-1}\Big],\quad
    \mathrm{RES}=\sum_k\tfrac{n_k}{N}\Big[(\bar y_k-\bar y)^2-\tfrac{\bar y_k(1-\bar y_k)}{n_k-1}\Big]
    +\tfrac{\bar y(1-\bar y)}{N-1},\quad \mathrm{UNC}=\bar y(1-\bar y)\tfrac{N}{N-1}$$

    Without the correction, the sampling noise of each bin's frequency inflates both reliability and resolution: a
    calibrated forecaster would have a reliability of about bins / (4 N). With it, they can be slightly negative. The
    parts sum to the Brier score of the forecasts rounded to their bins' means, which is the Brier score itself if the
    forecasts within each bin are equal.

    Bins have equal mass. Equal forecasts share a bin, and a bin of one question is merged with its neighbour. NaN with
    fewer than two questions. ValueError: shapes differ, a forecast outside [0, 1], an outcome other than 0 and 1.

    References:
        Murphy (1973), J. Appl. Meteorol. 12; Ferro and Fricker (2012), Q. J. R. Meteorol. Soc. 138, 1954-1960.
    """
    forecast, outcome = pairs(p, y)
    n = forecast.size
    if n < 2:
        return Murphy(np.nan, np.nan, np.nan)
    bin_of = _bins(forecast, bins)
    size, mean_p, mean_y = _bin_means(bin_of, forecast, outcome)
    noise = mean_y * (1 - mean_y) / (size - 1)
    base = float(outcome.mean())
    spread = base * (1 - base)
    reliability = float(np.sum(size * ((mean_p - mean_y) ** 2 - noise)) / n)
    resolution = float(np.sum(size * ((mean_y - base) ** 2 - noise)) / n + spread / (n - 1))
    return Murphy(reliability, resolution, spread * n / (n - 1))


def recalibration(p: ArrayLike, y: ArrayLike, clip: float) -> Recalibration:
    r"""Fit $\mathrm{logit}\,P(y=1)=a+b\,\mathrm{logit}\,p$ by maximum likelihood: intercept a and slope b.

    Forecasts are clipped to [clip, 1 - clip], because the logits of 0 and 1 are infinite. Epochs may be pooled: repeats
    do not bias the estimate. NaN if no finite one exists: all forecasts or all outcomes are equal, or the forecasts
    separate the outcomes perfectly. ValueError as in `checked`.

    References:
        Cox (1958), Biometrika 45, 562-565.
    """
    forecast, outcome = pairs(p, y)
    clipped = np.clip(forecast, clip, 1 - clip)
    x = np.log(clipped / (1 - clipped))
    yes, no = x[outcome == 1], x[outcome == 0]
    if not yes.size or not no.size or no.max() <= yes.min() or yes.max() <= no.min():
        return Recalibration(np.nan, np.nan)
    from statsmodels.discrete.discrete_model import Logit

    fit = Logit(outcome, np.column_stack([np.ones_like(x), x])).fit(disp=False)
    return Recalibration(slope=float(fit.params[1]), intercept=float(fit.params[0]))


def expected_calibration_error(p: ArrayLike, y: ArrayLike, bins: int = BINS) -> ECE:
    r"""Mean distance between forecast and frequency over bins, and its value for a calibrated forecaster.

    $$\mathrm{ECE}=\sum_k\tfrac{n_k}{N}\,|\bar p_k-\bar y_k|$$

    Even a perfectly calibrated forecaster scores well above 0 (about 0.1 at N = 100), so the number means nothing by
    itself: compare it with the null, and prefer the corrected reliability.

    The null is its mean over outcomes simulated with the forecast probabilities. NaN with fewer than two questions.

    References:
        Naeini, Cooper and Hauskrecht (2015), AAAI; Kumar, Liang and Ma (2019), NeurIPS, on its bias.
    """
    forecast, outcome = pairs(p, y)
    n = forecast.size
    if n < 2:
        return ECE(np.nan, np.nan)
    order = np.argsort(forecast, kind="stable")  # so that the simulated null does not depend on the order of questions
    forecast, outcome = forecast[order], outcome[order]
    bin_of = _bins(forecast, bins)
    rng = np.random.default_rng(0)

    def error(outcomes: NDArray[np.float64]) -> float:
        return float(np.abs(np.bincount(bin_of, weights=forecast - outcomes)).sum() / n)

    null = float(np.mean([error((rng.random(n) < forecast).astype(float)) for _ in range(NULL_DRAWS)]))
    return ECE(error(outcome), null)


def pairs(p: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check forecasts and outcomes, flatten them, and leave out pairs with NaN."""
    forecast, outcome = checked(p, y)
    kept = np.isfinite(forecast) & np.isfinite(outcome)
    return forecast[kept], outcome[kept]


def checked(p: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Forecasts and outcomes as float arrays of one shape, broadcast; NaN passes.

    ValueError names what is wrong.
    """
    forecast, outcome = np.asarray(p, dtype=float), np.asarray(y, dtype=float)
    try:
        forecast, outcome = np.broadcast_arrays(forecast, outcome)
    except ValueError:
        raise ValueError(
            f"forecasts of shape {forecast.shape} do not match outcomes of shape {outcome.shape}"
        ) from None
    wrong = forecast[(forecast < 0) | (forecast > 1)]
    if wrong.size:
        raise ValueError(f"forecast {wrong[0]} is not a probability between 0 and 1; divide percentages by 100")
    wrong = outcome[~np.isnan(outcome) & (outcome != 0) & (outcome != 1)]
    if wrong.size:
        raise ValueError(f"outcome {wrong[0]} is neither 0 nor 1; give NaN if it is unknown")
    return forecast, outcome


def _bins(forecast: NDArray[np.float64], bins: int) -> NDArray[np.intp]:
    """Bin number of each forecast: bins of equal mass, with equal forecasts together and no bin of one question.

    A value belongs to the bin that contains the middle of its mass, so negating every proposition mirrors the bins.
    """
    bins = max(1, min(bins, forecast.size // 2))
    _, which, count = np.unique(forecast, return_inverse=True, return_counts=True)
    middle = (np.cumsum(count) - count / 2) * bins / forecast.size
    # A middle on an edge goes to the bin nearer the centre, and one on the centre is a bin of its own: both choices are
    # symmetric.
    label = np.where(middle < bins / 2, np.floor(middle), np.ceil(middle) - 1)
    label = np.where(middle == bins / 2, bins / 2 - 0.5, label)
    return _without_singletons(label[which], forecast)


def _without_singletons(label: NDArray[np.float64], forecast: NDArray[np.float64]) -> NDArray[np.intp]:
    """Merge each bin of one question with its nearer neighbour: the correction needs a variance within the bin."""
    bin_of = np.unique(label, return_inverse=True)[1]
    while (size := np.bincount(bin_of)).size > 1 and size.min() == 1:
        mean = np.bincount(bin_of, weights=forecast) / size
        alone = int(np.argmin(size))
        nearest = min(
            (k for k in (alone - 1, alone + 1) if 0 <= k < size.size), key=lambda k: abs(mean[k] - mean[alone])
        )
        bin_of = np.where(bin_of == alone, nearest, bin_of)
        bin_of = np.unique(bin_of, return_inverse=True)[1]
    return bin_of


def _effective(n: int, questions: NDArray[np.intp], events: Sequence[Hashable] | None) -> int:
    """The number of independent questions that say as much as n questions of some events."""
    if events is None:
        return n
    size = np.array(list(Counter(events[i] for i in questions).values()))
    return max(round(n**2 / int((size**2).sum())), 1)


def _bin_means(
    bin_of: NDArray[np.intp], forecast: NDArray[np.float64], outcome: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    size = np.bincount(bin_of).astype(float)
    filled = size > 0
    sums = (np.bincount(bin_of, weights=values)[filled] for values in (forecast, outcome))
    mean_p, mean_y = (total / size[filled] for total in sums)
    return size[filled], mean_p, mean_y
