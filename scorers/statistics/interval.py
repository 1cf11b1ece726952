"""Mean with a cluster-robust 95 % interval, n, and the minimum detectable effect.

Every scorer uses this one function, so that tables, viewer and charts agree.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
"""Coverage of the interval."""
MIN_CLUSTERS = 3
"""Effective clusters below which there is no interval: the variance between clusters cannot be estimated."""
EQUAL = 1e-9
"""Relative difference up to which values are equal."""
ROUNDING_ERROR = 1e-8
"""Size up to which an end of an interval is 0 but for floating-point arithmetic."""
RARE = 5
"""Clusters of the smaller class, hits or misses, up to which the variance of a score counts as not seen."""
POWER = 0.8
"""Probability of detecting an effect of the size of `mde`."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval and minimum detectable effect. NaN if undefined."""

    estimate: float
    lower: float
    upper: float
    mde: float = np.nan
    """Minimum detectable effect: the true distance from a fixed reference value that a two-sided test at 5 % detects
    with probability 0.8. Smaller is better."""
    n: int = 0
    stderr: float = np.nan
    clusters: int = 0
    effective_clusters: float = np.nan
    """Number of equally large clusters whose interval would have the same degrees of freedom: these plus 1. With
    equally large clusters, their number."""

    @property
    def sign(self) -> int:
        """-1 or 1 if the interval excludes 0, else 0."""
        return int(self.lower > 0) - int(self.upper < 0)

    def main_metrics(self, name: str, share_scored: float) -> dict[str, float]:
        """The metrics with which every scorer begins. Inspect's `evals_df` finds the one called `stderr`."""
        return {
            name: self.estimate,
            "stderr": self.stderr,
            f"{name}_lower": self.lower,
            f"{name}_upper": self.upper,
            "mde": self.mde,
            "n": self.n,
            "share_scored": share_scored,
        }

    def cluster_metrics(self) -> dict[str, float]:
        """How many independent observations the interval rests on."""
        return {"clusters": self.clusters, "effective_clusters": self.effective_clusters}

    def metrics(self, name: str) -> dict[str, float]:
        """The estimate and its interval as `name`, `name_lower`, `name_upper`."""
        return {name: self.estimate, f"{name}_lower": self.lower, f"{name}_upper": self.upper}


UNKNOWN = Estimate(np.nan, np.nan, np.nan)


def metrics_of(estimates: Mapping[str, Estimate]) -> dict[str, float]:
    """The metrics of all of these estimates."""
    return {key: figure for name, each in estimates.items() for key, figure in each.metrics(name).items()}


def mean_estimate(
    values: ArrayLike,
    cluster: Sequence[Hashable] | None = None,
    bounds: tuple[float, float] | None = None,
    other: ArrayLike | None = None,
    missed: ArrayLike | None = None,
) -> Estimate:
    r"""Mean over questions with a cluster-robust interval (CR2, with Satterthwaite degrees of freedom).

    $$\mathrm{SE}^2=\frac{1}{n^2}\sum_g\frac{\big(\sum_{i\in g}(x_i-\bar x)\big)^2}{1-n_g/n},\qquad
    \nu=\frac{n^2}{\sum_g n_g^2+(\sum_g r_g)^2-\sum_g r_g^2},\quad r_g=\frac{n_g^2}{n-n_g}$$

    The interval is $\bar x\pm t_{0.975,\,\nu}\,\mathrm{SE}$, and mde is $(t_{0.975,\,\nu}+t_{0.8,\,\nu})\,\mathrm{SE}$.
    With G equally large clusters, $\nu=G-1$ and both equal `inspect_ai.scorer.ci(cluster=...)`; with unequal ones those
    are too short.

    **Few misses.** Forecasts near 0 and 1 have small scores but for a rare miss, and the variance is not seen before
    there are about ten. With `bounds` (the range of the values), or with `other` (what each value would be if its
    question had ended otherwise; `missed`, whether it ended against its forecast), the upper end is that of the values
    and one more cluster of questions that all end against the forecast, and the lower end that of one more that all end
    as forecast: their mean score h as one of $N=G+1$ values, with G the effective clusters. The end is the quantile of
    a distribution (Pearson's type III) with the mean, variance and skewness of a mean of the N values whose weights are
    Dirichlet(1, ..., 1): Rubin's Bayesian bootstrap with one more value. With $\sigma$ its standard deviation, the
    probability is

    $$\Phi\Big(\pm\frac{t_{0.975,\,\nu}}{\sigma}\sqrt{\mathrm{SE}^2+\frac{G\,(h-\bar x)^2}{N^2(N+1)}}\Big)$$

    h goes to the mean as the smaller class, clusters with a miss or clusters with a hit, goes from 5 to 10. Where more
    than half of the values are equal, whatever the outcome, an end of the range takes the place of h, and goes to the
    mean as the clusters with another value go from 5 to 10. Without `other`, and if no value is beyond the bounds, a
    value in the better quarter of its range is taken for a Brier score: with $u$ the share of the range between it and
    the end that is nearer to the mean, it would be $(1-\sqrt u)^2$.

    Values that are all equal do not show how much such values vary. If they lie in a known range [a, b], the interval
    of an equal value c is, with G the effective clusters,

    $$\big[\,a+(c-a)\,0.025^{1/G},\;b-(b-c)\,0.025^{1/G}\,\big]$$

    since a mean beyond it gives G equal values with a chance of at most 0.025 (Markov), and mde is the larger of its
    two sides. With `bounds` (0, 1), answers that are all right or wrong have the interval of Clopper and Pearson, with
    the effective number of answers (Korn and Graubard)

    $$n^*=\min\Big(n,\;1+\frac{\bar x(1-\bar x)}{\mathrm{SE}^2}
    \Big(\frac{t_{0.975,\,n-1}}{t_{0.975,\,\nu}}\Big)^2\Big)$$

    With bounds [a, b], mde is the larger of two: the longer side of the interval plus $t_{0.8,\,\nu}\,\mathrm{SE}$, for
    a reference at that distance from the mean, and $(t_{0.975,\,\nu}+t_{0.8,\,\nu})$ times the standard error at a mean
    that far from $\bar x$, which grows with $\sqrt{(x-a)(b-x)}$. NaN for the interval and mde with fewer than three
    effective clusters, at a side of equal values where their range has no end, and for everything without a question.

    >>> [round(bound, 3) for bound in (lambda found: (found.lower, found.upper))(mean_estimate([1] * 72, None, (0, 1)))]
    [0.95, 1.0]

    References:
        Bell and McCaffrey (2002). Survey Methodology 28. Pustejovsky and Tipton (2018). JBES 36. Miller (2024).
        arXiv:2411.00640, appendix A. Clopper and Pearson (1934). Biometrika 26. Korn and Graubard (1998). Survey
        Methodology 24. Rubin (1981). Annals of Statistics 9. Learned-Miller and Thomas (2019). arXiv:1905.06208.
    """
    x = np.asarray(values, dtype=float).ravel()
    names: Sequence[Hashable] = range(x.size) if cluster is None else cluster
    finite = np.isfinite(x)
    others = None if other is None else np.asarray(other, dtype=float).ravel()[finite]
    misses = None if missed is None else np.asarray(missed, dtype=bool).ravel()[finite]
    x = x[finite]
    codes = cluster_codes([name for name, keep in zip(names, finite, strict=True) if keep])
    n, size = x.size, np.bincount(codes)
    if n == 0:
        return UNKNOWN
    mean = float(x.mean())
    if size.size < 2:
        return replace(UNKNOWN, estimate=mean, n=n, clusters=1, effective_clusters=1.0)
    degrees = satterthwaite_degrees(size)
    if round(degrees + 1, 6) < MIN_CLUSTERS:
        return replace(UNKNOWN, estimate=mean, n=n, clusters=size.size, effective_clusters=degrees + 1)
    if bounds and np.ptp(x) <= EQUAL * max(1.0, abs(mean)):
        low, high = bounds
        if not low - EQUAL <= mean <= high + EQUAL:
            raise ValueError(f"mean_estimate: the value {mean:g} is outside of {bounds}")
        share = 1 - ((1 - LEVEL) / 2) ** (1 / (degrees + 1))
        below, above = (max(gap, 0.0) * share if np.isfinite(gap) else np.nan for gap in (mean - low, high - mean))
        ends = Estimate(mean, mean - below, mean + above, float(np.maximum(below, above)), n, 0.0)
        return replace(ends, clusters=size.size, effective_clusters=degrees + 1)
    sums = np.bincount(codes, weights=x - mean)
    error = float(np.sqrt(np.sum(sums**2 / (1 - size / n))) / n)
    estimate = replace(t_estimate(mean, error, degrees, n), clusters=size.size, effective_clusters=degrees + 1)
    closed = bool(bounds and np.isfinite(bounds).all() and bounds[0] <= x.min() and x.max() <= bounds[1])
    if bounds and closed and tuple(bounds) == (0, 1) and np.isin(x, (0, 1)).all():
        return clopper_pearson(estimate)
    low, high = (min(bounds[0], mean), max(bounds[1], mean)) if bounds else (-np.inf, np.inf)
    reached = mean, mean
    if closed or others is not None:
        others = turned(x, (low, high)) if others is None else others
        reached = _one_more(x, others, misses, codes, (low, high))
    if not np.allclose(reached, mean) or (others is not None and not np.allclose(others, x)):
        third = float(np.sum(sums**3)) * (degrees + 1) ** 3 / n**3
        lower, upper = (_end(estimate, h, third, side) for h, side in zip(reached, (-1, 1), strict=True))
        estimate = replace(estimate, lower=min(lower, mean), upper=max(upper, mean))
    estimate = replace(estimate, lower=max(estimate.lower, low), upper=min(estimate.upper, high))
    return _far_enough(estimate, (low, high)) if closed else estimate


def turned(x: NDArray[np.float64], bounds: tuple[float, float]) -> NDArray[np.float64]:
    """What values of a range would be on the other side, if the better quarter of it were hits of a Brier score."""
    low, high = bounds
    share = (x - low) / (high - low)
    upside_down = share.mean() > 0.5
    share = 1 - share if upside_down else share
    hit = share <= 0.25
    other = np.where(hit, (1 - np.sqrt(share)) ** 2, share[hit].mean() if hit.any() else share)
    return low + (high - low) * (1 - other if upside_down else other)


def _one_more(
    x: NDArray[np.float64],
    other: NDArray[np.float64],
    misses: NDArray[np.bool_] | None,
    codes: NDArray[np.intp],
    bounds: tuple[float, float],
) -> tuple[float, float]:
    """The lowest and the highest mean that one more cluster may have, and the mean itself where enough are seen."""
    mean, near = float(x.mean()), EQUAL * max(1.0, float(np.abs(x).max()))
    against = x > other + near if misses is None else misses
    favour = x < other - near if misses is None else ~misses
    seen = min(np.unique(codes[against]).size, np.unique(codes[favour]).size)
    levels, count = np.unique(x, return_counts=True)
    still = (np.abs(x - levels[count.argmax()]) <= near) & (np.abs(other - x) <= near)
    parts = [(_doubt(seen), float(np.minimum(x, other).mean()), float(np.maximum(x, other).mean()))]
    if 2 * still.sum() > x.size and np.isfinite(bounds).all():
        parts.append((_doubt(np.unique(codes[~still]).size), *bounds))
    return (
        mean + min(doubt * (least - mean) for doubt, least, _ in parts),
        mean + max(doubt * (most - mean) for doubt, _, most in parts),
    )


def _doubt(seen: int) -> float:
    """How much of the unseen to allow for: all with up to `RARE` of the smaller class, nothing with twice as many."""
    return min(max(2 - seen / RARE, 0.0), 1.0)


def _end(estimate: Estimate, h: float, third: float, side: int) -> float:
    """The lower (-1) or upper (1) end of the interval, with one more cluster of mean h and the third moment of all."""
    from scipy.special import gammaincinv, ndtr

    groups, mean, error = estimate.effective_clusters, estimate.estimate, estimate.stderr
    more = groups + 1
    centre = mean + (h - mean) / more
    within = (groups - 1) * groups * error**2
    squares = within + groups * (mean - centre) ** 2 + (h - centre) ** 2
    cubes = third + 3 * within * (mean - centre) + groups * (mean - centre) ** 3 + (h - centre) ** 3
    spread = np.sqrt(squares / (more * (more + 1)))
    if not spread:
        return mean
    wider = np.sqrt(error**2 + groups * (h - mean) ** 2 / (more**2 * (more + 1))) / spread
    reach = side * quantile((1 + LEVEL) / 2, groups - 1) * wider
    skewness = 2 * cubes / (more * (more + 1) * (more + 2)) / spread**3
    if abs(skewness) > 1e-3:
        shape, sign = 4 / skewness**2, np.sign(skewness)
        reach = sign * (gammaincinv(shape, np.clip(ndtr(sign * reach), 1e-12, 1 - 1e-12)) - shape) / np.sqrt(shape)
    return float(centre + spread * reach)


def _far_enough(estimate: Estimate, bounds: tuple[float, float]) -> Estimate:
    """An estimate between bounds with an mde that is found in 80 % of runs on both sides (see `mean_estimate`)."""
    mean, error, degrees = estimate.estimate, estimate.stderr, estimate.effective_clusters - 1
    power = quantile(POWER, degrees)
    mde = max(mean - estimate.lower, estimate.upper - mean) + power * error
    low, high = bounds
    here = (mean - low) * (high - mean)
    if here > 0:
        there = max((at - low) * (high - at) for at in (max(mean - mde, low), min(mean + mde, high)))
        mde = max(mde, (quantile((1 + LEVEL) / 2, degrees) + power) * error * float(np.sqrt(max(there / here, 1.0))))
    return replace(estimate, mde=mde)


def clopper_pearson(share: Estimate) -> Estimate:
    """A share with the interval of Clopper and Pearson, from the effective number of answers as in `mean_estimate`."""
    from scipy.special import betaincinv

    p, n = share.estimate, share.n
    apart = (quantile((1 + LEVEL) / 2, n - 1) / quantile((1 + LEVEL) / 2, share.effective_clusters - 1)) ** 2
    answers = min(n, 1 + p * (1 - p) / max(share.stderr**2, EQUAL) * apart)
    right, wrong = p * answers, (1 - p) * answers
    lower, upper = betaincinv(right, wrong + 1, (1 - LEVEL) / 2), betaincinv(right + 1, wrong, (1 + LEVEL) / 2)
    return _far_enough(replace(share, lower=float(lower), upper=float(upper)), (0.0, 1.0))


def ratio_estimate(
    values: ArrayLike,
    sizes: ArrayLike,
    cluster: Sequence[Hashable] | None = None,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    r"""The ratio of two sums, such as uplift per token, with a cluster-robust 95 % interval (linearised).

    $$R=\frac{\sum_i u_i}{\sum_i b_i},\qquad z_i=R+\frac{u_i-Rb_i}{\bar b}$$
    """
    u, b = np.asarray(values, dtype=float).ravel(), np.asarray(sizes, dtype=float).ravel()
    usable = np.isfinite(u) & np.isfinite(b) & (b > 0)
    if not usable.any():
        return UNKNOWN
    mean = b[usable].mean()
    ratio = u[usable].mean() / mean
    return mean_estimate(np.where(usable, ratio + (u - ratio * b) / mean, np.nan), cluster, bounds)


def satterthwaite_degrees(size: NDArray[np.intp]) -> float:
    """Satterthwaite degrees of freedom of a mean over two or more clusters of these sizes."""
    n = size.sum()
    share = size**2 / (n - size)
    return float(n**2 / (np.sum(size**2) + np.sum(share) ** 2 - np.sum(share**2)))


def t_estimate(estimate: float, error: float, degrees: float, n: int) -> Estimate:
    """An estimate with a standard error, by Student's t distribution."""
    half, power = (quantile(q, degrees) * error for q in ((1 + LEVEL) / 2, POWER))
    return Estimate(estimate, estimate - half, estimate + half, half + power, n, error)


def t_bounds(centre: float, error: float, degrees: float) -> tuple[float, float]:
    """The 95 % interval of an estimate with a standard error, by Student's t distribution."""
    half = quantile((1 + LEVEL) / 2, degrees) * error
    return centre - half, centre + half


def jackknife_variance(without: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Variance of figures by their values without each of G clusters: $\frac{G-1}{G}\sum(\theta_g-\bar\theta)^2$."""
    clusters = len(without)
    return np.asarray((clusters - 1) / clusters * np.square(without - without.mean(axis=0)).sum(axis=0))


def jackknife_bounds(whole: float, without: NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % interval of a figure by a jackknife over clusters, with Student's t of the clusters minus 1."""
    return t_bounds(whole, float(np.sqrt(jackknife_variance(without))), len(without) - 1)


def two_sided_p(t: float, degrees: float) -> float:
    """Two-sided p value of a statistic with Student's t distribution."""
    from scipy.special import stdtr  # scipy.stats takes half a second longer to load

    return float(2 * stdtr(degrees, -abs(t)))


def cluster_codes(names: Sequence[Hashable]) -> NDArray[np.intp]:
    """Number the clusters from 0, in order of appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.intp)


def quantile(probability: float, degrees: float) -> float:
    """Quantile of Student's t distribution with so many degrees of freedom."""
    from scipy.special import stdtrit  # scipy.stats takes half a second longer to load

    return float(stdtrit(degrees, probability))


def decimals(value: float, digits: int = 3) -> str:
    """A number with some decimals, and never "-0.000"."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def interval_text(lower: float, upper: float, digits: int = 3) -> str:
    """An interval: "[0.180, 0.240]"; "-" if a bound is NaN.

    An end that would round to 0 has one significant digit, as in "[-0.0002, 0.100]" or "[2e-08, 0.051]": on which side
    of 0 it is decides what can be concluded.
    """
    if np.isnan(lower + upper):
        return "-"
    small = [abs(end) > ROUNDING_ERROR and not round(end, digits) for end in (lower, upper)]
    ends = [f"{end:.1g}" if tiny else decimals(end, digits) for end, tiny in zip((lower, upper), small, strict=True)]
    return f"[{', '.join(ends)}]"
