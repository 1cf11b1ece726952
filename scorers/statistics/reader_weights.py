"""Which reader of a generated world do answers follow: the exact one, or the one that makes the world's error?

A pure function of arrays, as everything in this folder.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from truthgym.scorers.statistics.instrumented_slope import Floats
from truthgym.scorers.statistics.interval import cluster_codes, mean_estimate

LEAST_WEIGHT = 0.1
"""A reader is followed if the lower end of its weight's interval is above this."""
SHARES = np.arange(0, 31) / 20
"""Parts of a reader's update in log-odds that may fit the answers best."""
FEWEST = 10
"""Fewest clusters of questions with weights."""
EDGE = 1e-6
"""Nearest that a reader comes to 0 and 1."""
UNKNOWN = (np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class ReaderWeights:
    """Weight, lower and upper end of its 95 % interval. NaN if undefined."""

    exact: tuple[float, float, float] = UNKNOWN
    """Of the exact reader's update: 1 for the exact reader."""
    naive: tuple[float, float, float] = UNKNOWN
    """Of the naive reader's update: 1 for the naive reader. NaN in a world without one."""
    half: tuple[float, float, float] = UNKNOWN
    """Of the way from the prior to one half: 1 for who always answers one half."""
    follows: str = ""
    """"exact" or "naive" (see `reader_weights`). "": neither, or too few questions to tell."""


def reader_weights(
    belief: ArrayLike,
    prior: ArrayLike,
    exact: ArrayLike,
    naive: ArrayLike | None = None,
    cluster: Sequence[Hashable] | None = None,
) -> ReaderWeights:
    r"""Least-squares weights of two readers' updates in the updates of a model, without a constant.

    $$b-p_0=w_e\,(p_e-p_0)+w_n\,(p_n-p_0)+w_h\,(\tfrac12-p_0)+\varepsilon$$

    A model that moves half as far as the naive reader has $w_n=0.5$ and $w_e=0$; one that always answers one half has
    $w_h=1$, and one that repeats the prior no weight at all. A part of an update in log-odds is no multiple of it in
    probability. So a reader is followed if three things hold, each by its 95 % interval: its weight is above
    `LEAST_WEIGHT`; it is larger than the other's; and its updates, with the best of `SHARES` of their log-odds, are
    nearer to the answers than the other's with the best of theirs.

    b is the model's mean over epochs. Intervals are of Student's t: HC3 (Long and Ervin 2000, The American Statistician
    54), or cluster-robust where questions share a cluster. NaN with fewer than ten clusters.
    """
    import statsmodels.api as sm

    b, p, e = (np.asarray(values, dtype=float) for values in (belief, prior, exact))
    readers = [e, *([] if naive is None else [np.asarray(naive, dtype=float)]), np.full_like(p, 0.5)]
    read = np.isfinite(b)
    rows = np.flatnonzero(read).tolist()
    names = rows if cluster is None else [cluster[row] for row in rows]
    codes = cluster_codes(names)
    if np.unique(codes).size < FEWEST:
        return ReaderWeights()
    robust: dict[str, Any] = {"cov_type": "HC3"}
    if codes.max() + 1 < codes.size:
        robust = {"cov_type": "cluster", "cov_kwds": {"groups": codes}}
    fit = sm.OLS((b - p)[read], np.column_stack(readers)[read] - p[read, None]).fit(use_t=True, **robust)
    weights = [
        (float(weight), float(lower), float(upper))
        for weight, (lower, upper) in zip(fit.params, fit.conf_int(), strict=True)
    ]
    if naive is None:
        return ReaderWeights(weights[0], half=weights[1], follows="exact" * (weights[0][1] > LEAST_WEIGHT))
    lower, upper = fit.t_test([1, -1, 0]).conf_int()[0]
    errors = _errors(b[read], p[read], readers[1][read]) - _errors(b[read], p[read], e[read])
    nearer = mean_estimate(errors, names)
    leads = {
        "exact": weights[0][1] > LEAST_WEIGHT and lower > 0 and nearer.lower > 0,
        "naive": weights[1][1] > LEAST_WEIGHT and upper < 0 and nearer.upper < 0,
    }
    return ReaderWeights(
        weights[0], weights[1], weights[2], next((name for name, leading in leads.items() if leading), "")
    )


def _errors(belief: Floats, prior: Floats, reader: Floats) -> Floats:
    """Squared errors of the part of a reader's update in log-odds that fits the beliefs best."""
    before, after = (np.log(p / (1 - p)) for p in (prior, reader.clip(EDGE, 1 - EDGE)))
    fits = 1 / (1 + np.exp(-(before + SHARES[:, None] * (after - before))))
    errors: Floats = (fits - belief) ** 2
    best: Floats = errors[errors.mean(axis=1).argmin()]
    return best
