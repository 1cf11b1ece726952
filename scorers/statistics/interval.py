"""Mean with a cluster-robust 95 % interval, n, and the minimum detectable effect.

Every paradigm uses this one function, so that tables, viewer and charts agree.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
"""Coverage of the interval."""
POWER = 0.8
"""Probability of detecting an effect of the size of `mde`."""


@dataclass(frozen=True)
class Headline:
    """A mean with its interval and minimum detectable effect. NaN if undefined."""

    estimate: float
    lower: float
    upper: float
    mde: float = np.nan
    """Minimum detectable effect: the true distance from a fixed reference value that a two-sided test at 5 % detects
    with probability 0.8. Smaller is better."""
    n: int = 0
    """Questions used."""
    stderr: float = np.nan

    def headline(self, name: str, share_scored: float) -> dict[str, float]:
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

    def metrics(self, name: str) -> dict[str, float]:
        """The estimate and its interval as `name`, `name_lower`, `name_upper`."""
        return {name: self.estimate, f"{name}_lower": self.lower, f"{name}_upper": self.upper}


UNKNOWN = Headline(np.nan, np.nan, np.nan)


def mean_headline(values: ArrayLike, cluster: Sequence[Hashable] | None = None) -> Headline:
    r"""Mean over questions with a cluster-robust interval.

    $$\mathrm{SE}^2 = \frac{G}{G-1}\,\frac{1}{n^2}\sum_{g}\Big(\sum_{i\in g}(x_i-\bar x)\Big)^2,\qquad
    \bar x \pm t_{0.975,\,G-1}\,\mathrm{SE},\qquad
    \mathrm{mde} = (t_{0.975,\,G-1}+t_{0.8,\,G-1})\,\mathrm{SE}$$

    Equals `inspect_ai.scorer.ci(cluster=...)`, and OLS on a constant with a clustered covariance in statsmodels; the
    tests compare it with both.

    Args:
        values: One number per question: the mean over its epochs. A question with NaN is left out.
        cluster: Cluster name of each question: questions that resolve together share one. None: each is its own.

    Returns:
        The mean. NaN for the interval and mde with fewer than two clusters, and for everything without a question.

    Raises:
        ValueError: `cluster` has another length than `values`.

    References:
        Miller, E. (2024). Adding error bars to evals. arXiv:2411.00640, appendix A (with the finite-cluster factor).
    """
    x = np.asarray(values, dtype=float).ravel()
    names: Sequence[Hashable] = range(x.size) if cluster is None else cluster
    if len(names) != x.size:
        raise ValueError(f"mean_headline: {len(names)} cluster names for {x.size} values; give one for each")
    finite = np.isfinite(x)
    x = x[finite]
    codes = cluster_codes([name for name, keep in zip(names, finite, strict=True) if keep])
    n, clusters = x.size, int(codes.max(initial=-1)) + 1
    if n == 0:
        return UNKNOWN
    mean = float(x.mean())
    if clusters < 2:
        return replace(UNKNOWN, estimate=mean, n=n)
    sums = np.bincount(codes, weights=x - mean)
    error = float(np.sqrt(clusters / (clusters - 1) * np.sum(sums**2)) / n)
    return t_headline(mean, error, clusters - 1, n)


def t_headline(estimate: float, error: float, degrees: int, n: int) -> Headline:
    """The headline of an estimate with a standard error, by Student's t distribution."""
    half, power = (quantile(q, degrees) * error for q in ((1 + LEVEL) / 2, POWER))
    return Headline(estimate, estimate - half, estimate + half, half + power, n, error)


def cluster_codes(names: Sequence[Hashable]) -> NDArray[np.intp]:
    """Number the clusters from 0, in order of appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.intp)


def quantile(probability: float, degrees: float) -> float:
    """Quantile of Student's t distribution with so many degrees of freedom."""
    from scipy.special import stdtrit  # scipy.stats takes half a second longer to load

    return float(stdtrit(degrees, probability))
