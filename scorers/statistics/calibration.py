"""Calibration: whether events with a forecast of p happen with frequency p. Pure functions of arrays.

Each takes one forecast per question: repeats of a question share its outcome, and counting them as independent would
understate the noise. Score several epochs one at a time and average the results. What depends on how much the outcomes
vary also takes the event of each question: questions that resolve together would make it wrong.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.interval import LEVEL, cluster_codes, quantile, satterthwaite_degrees

BINS = 10
PER_BIN, MOST_BINS = 10, 20
"""Of a diagram: independent events for each bin, and the most bins."""
BAND_DRAWS = 2000
"""Number of simulations for a consistency band: its ends are exact to about 3 % of its width."""
NULL_DRAWS = 400
"""Number of simulations for the null value of the ECE: its Monte-Carlo error is about 2 %."""
FEWEST = 10
"""Fewest events with a miss, and with a hit, for an interval of the calibration slope."""


class Murphy(NamedTuple):
    """The three parts of the Brier score. NaN with fewer than two events."""

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
    lower: float
    upper: float


class ECE(NamedTuple):
    """Expected calibration error, and its value for a calibrated forecaster."""

    ece: float
    null: float
    """The mean of a calibrated forecaster. NaN without events."""
    null_upper: float
    """Below this are 95 % of a calibrated forecaster's values."""


class ReliabilityBin(NamedTuple):
    """A point of a reliability diagram."""

    forecast: float
    frequency: float
    """Share of outcomes that are 1."""
    lower: float
    """Lower end of the consistency band: 95 % of the frequencies of a calibrated forecaster are within it."""
    upper: float
    n: int
    """Questions with a forecast in the bin."""


def bins_carried(events: Sequence[Hashable]) -> int:
    """How many bins the questions of these events carry in a diagram: with fewer events each, bands say nothing."""
    return min(max(_effective(len(events), np.arange(len(events)), events) // PER_BIN, 2), MOST_BINS)


def reliability_diagram(
    p: ArrayLike, y: ArrayLike, bins: int = BINS, events: Sequence[Hashable] | None = None
) -> list[ReliabilityBin]:
    r"""Frequency against forecast, with consistency bands: what a calibrated forecaster's diagram looks like.

    Consistency resampling draws as many questions as there are, and an outcome with exactly the forecast probability:

    $$(n_1,\dots,n_K)\sim\mathrm{Multinomial}(N, w),\qquad s_k\sim\mathrm{Binomial}(n_k,\bar p_k)$$

    The band is the central 95 % of $s_k/n_k$, of each bin alone. In place of N, the band draws the effective number
    $N^2 / \sum_g n_g^2$ of events g with $n_g$ questions: all of an event resolve the same way, the worst case. Epochs
    add to the frequencies, but N counts a question once. Bröcker and Smith (2007), Weather and Forecasting 22.
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


def murphy_decomposition(
    p: ArrayLike, y: ArrayLike, bins: int = BINS, events: Sequence[Hashable] | None = None
) -> Murphy:
    r"""Split the Brier score into reliability - resolution + uncertainty, corrected for bias.

    $$\mathrm{REL}=\sum_k\tfrac{n_k}{N}\big[(\bar p_k-\bar y_k)^2-V_k\big],\quad
    \mathrm{RES}=\sum_k\tfrac{n_k}{N}\big[(\bar y_k-\bar y)^2-V_k\big]+V,\quad \mathrm{UNC}=\bar y(1-\bar y)+V$$

    where $V_k$ and V are the squared cluster-robust standard errors (CR2, as in `mean_estimate`) of the frequency in a
    bin and of all. Without the correction a calibrated forecaster would have a reliability of about bins / (4 N); with
    it, both can be slightly negative. Bins have equal mass, at most one for two events. Equal forecasts share a bin,
    and a bin of one event is merged with its neighbour. NaN with fewer than two events. Murphy (1973), J. Appl.
    Meteorol. 12; Ferro and Fricker (2012), Q. J. R. Meteorol. Soc. 138.
    """
    forecast, outcome = pairs(p, y)
    event = _events(p, y, events)
    n, groups = forecast.size, np.unique(event).size
    if groups < 2:
        return Murphy(np.nan, np.nan, np.nan)
    bin_of = _bins(forecast, min(bins, groups // 2), event)
    size, mean_p, mean_y = _bin_means(bin_of, forecast, outcome)
    base = float(outcome.mean())
    noise, total = _noise(bin_of, outcome - mean_y[bin_of], event), _noise(0 * bin_of, outcome - base, event)[0]
    reliability = float(np.sum(size * ((mean_p - mean_y) ** 2 - noise)) / n)
    resolution = float(np.sum(size * ((mean_y - base) ** 2 - noise)) / n + total)
    return Murphy(reliability, resolution, float(base * (1 - base) + total))


def recalibration(p: ArrayLike, y: ArrayLike, clip: float, events: Sequence[Hashable] | None = None) -> Recalibration:
    r"""Fit $\mathrm{logit}\,P(y=1)=a+b\,\mathrm{logit}\,p$ by maximum likelihood: intercept a and slope b.

    Forecasts are clipped to [clip, 1 - clip]. Epochs may be pooled: repeats do not bias the estimate. The interval of
    the slope is cluster-robust, with Student's t of the effective clusters; NaN without events, and with fewer than ten
    that have a question which ended against its forecast, or as forecast. All is NaN if all forecasts or all outcomes
    are equal, or the forecasts separate the outcomes perfectly. Cox (1958), Biometrika 45.
    """
    forecast, outcome = pairs(p, y)
    clipped = np.clip(forecast, clip, 1 - clip)
    x = np.log(clipped / (1 - clipped))
    yes, no = x[outcome == 1], x[outcome == 0]
    if not yes.size or not no.size or no.max() <= yes.min() or yes.max() <= no.min():
        return Recalibration(np.nan, np.nan, np.nan, np.nan)
    from statsmodels.discrete.discrete_model import Logit

    fit = Logit(outcome, design := np.column_stack([np.ones_like(x), x])).fit(disp=False)
    slope, half = float(fit.params[1]), np.nan
    event, against = _events(p, y, events), (x > 0) != outcome
    if event.size and min(np.unique(event[side]).size for side in (against, ~against)) >= FEWEST:
        robust = Logit(outcome, design).fit(disp=False, cov_type="cluster", cov_kwds={"groups": event})
        half = float(robust.bse[1]) * quantile((1 + LEVEL) / 2, satterthwaite_degrees(np.bincount(event)))
    return Recalibration(slope, float(fit.params[0]), slope - half, slope + half)


def expected_calibration_error(
    p: ArrayLike, y: ArrayLike, bins: int = BINS, events: Sequence[Hashable] | None = None
) -> ECE:
    r"""Mean distance between forecast and frequency over bins, and its value for a calibrated forecaster.

    $$\mathrm{ECE}=\sum_k\tfrac{n_k}{N}\,|\bar p_k-\bar y_k|$$

    Even a perfectly calibrated forecaster scores well above 0 (about 0.1 at N = 100): compare it with the null, its
    mean over outcomes simulated with the forecast probabilities. Of the events a share $\lambda$ resolves as one, by a
    single random number for all its questions, and the others by one for each. It is estimated by the products of the
    errors $r=y-p$ of two questions of an event,

    $$\hat\lambda=\sum r_ir_j\Big/\sum\big(\min(\bar p_i,\bar p_j)-\bar p_i\bar p_j\big)$$

    plus its cluster-robust standard error, for the propositions as they are and with each turned round whose forecast
    is below one half; the larger counts, within [0, 1]. The null is NaN without events (questions that resolve together
    make it larger). Naeini, Cooper and Hauskrecht (2015), AAAI; Kumar, Liang and Ma (2019), NeurIPS, on its bias.
    """
    forecast, outcome = pairs(p, y)
    event = _events(p, y, events)
    n = forecast.size
    if n < 2:
        return ECE(np.nan, np.nan, np.nan)
    order = np.argsort(forecast, kind="stable")  # so that the simulated null does not depend on the order of questions
    forecast, outcome = forecast[order], outcome[order]
    bin_of = _bins(forecast, bins)
    inside = np.equal.outer(bin_of, np.arange(bin_of.max() + 1)).astype(float)
    ece = float(np.abs((forecast - outcome) @ inside).sum() / n)
    if not event.size:
        return ECE(ece, np.nan, np.nan)
    event = cluster_codes(event[order].tolist())
    turned = forecast < 0.5
    sides = [(forecast, outcome), (np.where(turned, 1 - forecast, forecast), np.where(turned, 1 - outcome, outcome))]
    place = np.unique(np.column_stack([bin_of, event]), axis=0, return_inverse=True)[1].ravel()
    alike = [(np.bincount(place, weights=side) / np.bincount(place))[place] for side, _ in sides]
    together = [_together(*side, same, event) for side, same in zip(sides, alike, strict=True)]
    best = int(np.argmax(together))
    rng = np.random.default_rng(0)
    one = rng.random((NULL_DRAWS, event.max() + 1))
    joint = (rng.random(one.shape) < max(together))[:, event]
    alone = rng.random((NULL_DRAWS, n)) < sides[best][0]
    happened = np.where(joint, one[:, event] < alike[best], alone) ^ (turned if best else False)
    null = np.abs((forecast - happened) @ inside).sum(axis=1) / n
    return ECE(ece, float(null.mean()), float(np.quantile(null, LEVEL)))


def _together(
    forecast: NDArray[np.float64], outcome: NDArray[np.float64], alike: NDArray[np.float64], event: NDArray[np.intp]
) -> float:
    """Share of the events that resolve as one, a standard error above its estimate. 0 if each has one question."""
    size = np.bincount(event)
    error, forecast = outcome - forecast, alike
    order = np.lexsort([forecast, event])
    rank = np.arange(event.size) - np.repeat(np.cumsum(size) - size, size)  # of the forecast in its event, from 0
    least = np.bincount(event[order], weights=forecast[order] * (size[event[order]] - 1 - rank))
    total, squares = (np.bincount(event, weights=forecast**power) for power in (1, 2))
    most = least - (total**2 - squares) / 2
    found = (np.bincount(event, weights=error) ** 2 - np.bincount(event, weights=error**2)) / 2
    if most.sum() <= 0:
        return 0.0
    share = found.sum() / most.sum()
    spread = np.sqrt(np.sum((found - share * most) ** 2)) / most.sum()
    return float(np.clip(share + spread, 0, 1))


def _events(p: ArrayLike, y: ArrayLike, events: Sequence[Hashable] | None) -> NDArray[np.intp]:
    """The number of the event of each of `pairs`; of epochs, that of their row. Empty without events."""
    if events is None:
        return np.zeros(0, dtype=np.intp)
    forecast, outcome = checked(p, y)
    if len(events) != len(forecast):
        raise ValueError(f"{len(events)} events for {len(forecast)} questions; give one for each")
    rows = np.nonzero(np.isfinite(forecast) & np.isfinite(outcome))[0]
    return cluster_codes([events[row] for row in rows.tolist()])


def _noise(bin_of: NDArray[np.intp], error: NDArray[np.float64], event: NDArray[np.intp]) -> NDArray[np.float64]:
    """Squared standard error (CR2) of the mean in each bin, by the deviations from it."""
    groups = int(event.max()) + 1
    place, size = bin_of * groups + event, np.bincount(bin_of)
    count = np.bincount(place, minlength=size.size * groups).reshape(-1, groups)
    sums = np.bincount(place, weights=error, minlength=count.size).reshape(-1, groups)
    return np.asarray((sums**2 / (1 - count / size[:, None])).sum(axis=1) / size**2)


def pairs(p: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check forecasts and outcomes, flatten them, and leave out pairs with NaN."""
    forecast, outcome = checked(p, y)
    kept = np.isfinite(forecast) & np.isfinite(outcome)
    return forecast[kept], outcome[kept]


def checked(p: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Forecasts and outcomes as float arrays of one shape, broadcast; NaN passes. ValueError names what is wrong."""
    forecast, outcome = np.broadcast_arrays(np.asarray(p, dtype=float), np.asarray(y, dtype=float))
    wrong = forecast[(forecast < 0) | (forecast > 1)]
    if wrong.size:
        raise ValueError(f"forecast {wrong[0]} is not a probability between 0 and 1; divide percentages by 100")
    wrong = outcome[~np.isnan(outcome) & (outcome != 0) & (outcome != 1)]
    if wrong.size:
        raise ValueError(f"outcome {wrong[0]} is neither 0 nor 1; give NaN if it is unknown")
    return forecast, outcome


def _bins(forecast: NDArray[np.float64], bins: int, event: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
    """Bin number of each forecast: bins of equal mass, with equal forecasts together and no bin of one event."""
    bins = max(1, min(bins, forecast.size // 2))
    _, which, count = np.unique(forecast, return_inverse=True, return_counts=True)
    middle = (np.cumsum(count) - count / 2) * bins / forecast.size
    # A middle on an edge goes to the bin nearer the centre, and one on the centre is a bin of its own: both choices are
    # symmetric.
    label = np.where(middle < bins / 2, np.floor(middle), np.ceil(middle) - 1)
    label = np.where(middle == bins / 2, bins / 2 - 0.5, label)
    return _without_singletons(label[which], forecast, np.arange(forecast.size) if event is None else event)


def _without_singletons(
    label: NDArray[np.float64], forecast: NDArray[np.float64], event: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Merge each bin of one event with its nearer neighbour: the correction needs a variance within the bin."""
    bin_of = np.unique(label, return_inverse=True)[1]
    while (events := _events_in(bin_of, event)).size > 1 and events.min() == 1:
        size = np.bincount(bin_of)
        mean = np.bincount(bin_of, weights=forecast) / size
        alone = int(np.argmin(events))
        nearest = min(
            (k for k in (alone - 1, alone + 1) if 0 <= k < size.size), key=lambda k: abs(mean[k] - mean[alone])
        )
        bin_of = np.where(bin_of == alone, nearest, bin_of)
        bin_of = np.unique(bin_of, return_inverse=True)[1]
    return bin_of


def _events_in(bin_of: NDArray[np.intp], event: NDArray[np.intp]) -> NDArray[np.intp]:
    """The number of events in each bin."""
    return np.bincount(np.unique(np.column_stack([bin_of, event]), axis=0)[:, 0])


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
