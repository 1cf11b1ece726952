"""Where the variance of scores comes from: events, questions and epochs, and how many of each an effect needs."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.interval import MIN_CLUSTERS, cluster_codes, satterthwaite_degrees, t_estimate
from truthgym.scorers.statistics.proper_scores import row_mean

MOST_QUESTIONS = 100_000
"""The most questions that a plan names."""


def planned_mde(sd: float, cluster: Sequence[Hashable], correlation: float = 0.0) -> float:
    r"""The `mde` to expect of a mean over questions that are yet to be answered.

    $$\mathrm{SE}^2=\frac{\mathrm{sd}^2}{n^2}\sum_g n_g\big(1+(n_g-1)\rho\big)$$

    >>> round(planned_mde(0.1, range(200)), 3)
    0.02
    """
    return planned_mde_of_sizes(sd, np.bincount(cluster_codes(cluster)), correlation)


def planned_mde_of_sizes(sd: float, size: NDArray[np.intp], correlation: float = 0.0) -> float:
    """`planned_mde` from the number of questions in each cluster."""
    if size.size < 2 or round((degrees := satterthwaite_degrees(size)) + 1, 6) < MIN_CLUSTERS:
        return np.nan
    error = sd * float(np.sqrt(np.sum(size * (1 + (size - 1) * correlation)))) / size.sum()
    return t_estimate(0.0, error, degrees, int(size.sum())).mde


@dataclass(frozen=True)
class Components:
    """Variance of a score by source, each 0 or more. Together, the variance of one answer to one question."""

    event: float
    """Between events, shared by their questions. 0 if no event has two questions."""
    question: float
    """Between the questions of an event."""
    epoch: float
    """Between the epochs of a question. NaN if none has two; `question` then includes it."""
    sizes: tuple[int, ...]
    """Questions of each event."""

    @property
    def n(self) -> int:
        return sum(self.sizes)

    def mde(self, questions: int, epochs: float) -> float:
        """Minimum detectable effect of so many questions, in events of the same sizes, and epochs."""
        if not self.sizes:
            return math.nan
        noise = self.epoch / epochs if epochs > 1 or not math.isnan(self.epoch) else 0.0
        total = self.event + self.question + noise
        ends = np.cumsum(np.resize(self.sizes, -(-questions // min(self.sizes))))
        sizes = np.diff(np.minimum(ends, questions), prepend=0)
        return planned_mde_of_sizes(math.sqrt(total), sizes[sizes > 0], self.event / total if total else 0.0)

    def questions(self, effect: float, epochs: int) -> float:
        """The fewest questions whose minimum detectable effect is at most `effect`. Infinite above `MOST_QUESTIONS`."""
        few, many = 0, 4
        while not self.mde(many, epochs) <= effect:
            if many >= MOST_QUESTIONS:
                return math.inf
            few, many = many, min(2 * many, MOST_QUESTIONS)
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if self.mde(middle, epochs) <= effect else (middle, many)
        return many


def variance_components(values: ArrayLike, cluster: Sequence[Hashable]) -> Components:
    r"""Estimate variance components from the mean squares between events, between questions and between epochs.

    $$\sigma_e^2=\frac{\sum_q\sum_k(x_{qk}-\bar x_q)^2}{\sum_q(K_q-1)},\quad
    \sigma_g^2=\frac{M_B-M_W}{n_0},\quad \sigma_q^2=M_W-\sigma_e^2\,\overline{1/K},\quad
    n_0=\frac{N-\sum_g n_g^2/N}{G-1}$$

    with the mean squares $M_B$ between events and $M_W$ within them of the questions' means. A negative estimate is 0.
    Searle, Casella and McCulloch (1992). Variance Components. Chapter 3.
    """
    x = np.asarray(values, dtype=float)
    count = np.isfinite(x).sum(axis=1)
    x, names, count = x[count > 0], [name for name, k in zip(cluster, count, strict=True) if k], count[count > 0]
    codes = cluster_codes(names)
    size = np.bincount(codes)
    n, groups, means = len(x), size.size, row_mean(x)
    if n < 2:
        return Components(math.nan, math.nan, math.nan, tuple(size.tolist()))
    repeats = int((count - 1).sum())
    epoch = float(np.nansum((x - means[:, None]) ** 2) / repeats) if repeats else math.nan
    noise = 0.0 if math.isnan(epoch) else epoch * float((1 / count).mean())
    spread, event = float(means.var(ddof=1)), 0.0
    if 1 < groups < n:
        centre = np.bincount(codes, weights=means) / size
        within = float(((means - centre[codes]) ** 2).sum() / (n - groups))
        between = float((size * (centre - means.mean()) ** 2).sum() / (groups - 1))
        event = max(0.0, (between - within) * (groups - 1) / (n - float((size**2).sum()) / n))
        spread = within if event else spread
    return Components(event, max(0.0, spread - noise), epoch, tuple(size.tolist()))
