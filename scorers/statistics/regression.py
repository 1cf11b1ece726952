"""Least squares and two-stage least squares by statsmodels, with errors that are correlated inside clusters."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from truthgym.scorers.statistics.instrumented_slope import MIN_F, Codes, Floats
from truthgym.scorers.statistics.interval import LEVEL, UNKNOWN, Estimate, cluster_codes, quantile, t_estimate

MIN_CLUSTERS_REGRESSED = 10
"""Clusters below which a regression has no intervals."""


@dataclass(frozen=True)
class Fit:
    """A least-squares fit, one number for each column of its design."""

    estimate: Floats
    lower: Floats
    upper: Floats
    p: Floats
    n: int
    clusters: int
    r_squared: float
    fitted: Floats = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)


@dataclass(frozen=True)
class Instrumented:
    """The effect of x on y by two-stage least squares."""

    slope: Estimate
    """NaN if the instruments are weak: a first-stage F under 10."""
    p: float
    """Anderson-Rubin p value of no effect, which is valid however weak the instruments are."""
    first_stage: float
    """F of the instruments in the regression of x on them."""
    least_squares: float
    """The slope without instruments, for comparison."""


def clustered_fit(y: ArrayLike, design: ArrayLike, cluster: Sequence[Hashable]) -> Fit:
    """Least squares with jackknife errors by cluster (CRV3) and Student's t of the clusters minus 1.

    CRV3 is the one of the usual estimators that is not too small with few or unequal clusters. Where the design without
    one cluster is not of full rank it does not exist, and CRV1 takes its place.

    Args:
        y: One number per row.
        design: Rows x columns, with the constant as a column. No column may be a sum of others.
        cluster: Cluster name of each row.

    Returns:
        Intervals and p values are NaN with fewer than ten clusters, and for a column that is identified by one cluster
        alone.

    References:
        MacKinnon, Nielsen and Webb (2023). Fast and reliable jackknife and bootstrap methods for cluster-robust
        inference. Journal of Applied Econometrics 38.
    """
    from statsmodels.api import OLS

    values, columns = np.asarray(y, dtype=float), np.asarray(design, dtype=float)
    codes = cluster_codes(cluster)
    clusters = int(codes.max()) + 1
    model = OLS(values, columns)
    plain = model.fit()
    nothing = np.full(columns.shape[1], np.nan)
    facts = (values.size, clusters, float(plain.rsquared), plain.fittedvalues)
    if clusters < MIN_CLUSTERS_REGRESSED:
        return Fit(plain.params, nothing, nothing, nothing, *facts)
    robust = _robust(model, codes)
    lower, upper = robust.conf_int(1 - LEVEL).T
    alone = np.array([np.unique(codes[column != 0]).size < 2 for column in columns.T])
    lower, upper, p = (np.where(alone, np.nan, one) for one in (lower, upper, robust.pvalues))
    return Fit(plain.params, lower, upper, p, *facts)


def two_stage(
    y: ArrayLike, x: ArrayLike, instruments: ArrayLike, controls: ArrayLike, cluster: Sequence[Hashable]
) -> Instrumented:
    """The effect of x on y, from the part of x that instruments move.

    It is the effect if the instruments were assigned independently of everything else that moves y (given the
    controls), and move y through x alone. Only their strength can be checked.

    Args:
        y: The outcome, one number per row.
        x: The cause.
        instruments: Rows x instruments: indicators of a setting that was assigned.
        controls: Rows x numbers that are part of both stages, with the constant as a column.
        cluster: Cluster name of each row.

    References:
        Angrist and Pischke (2009). Mostly Harmless Econometrics, chapter 4. Andrews, Stock and Sun (2019). Weak
        instruments in instrumental variables regression. Annual Review of Economics 11.
    """
    from statsmodels.api import OLS
    from statsmodels.sandbox.regression.gmm import IV2SLS

    outcome, cause = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
    moved, fixed = np.asarray(instruments, dtype=float), np.asarray(controls, dtype=float)
    codes = cluster_codes(cluster)
    clusters, n = int(codes.max()) + 1, outcome.size
    both, whole = np.column_stack([moved, fixed]), np.column_stack([cause, fixed])
    of_moved = np.eye(moved.shape[1], both.shape[1])
    plain = float(OLS(outcome, whole).fit().params[0])
    enough = clusters >= MIN_CLUSTERS_REGRESSED
    first = _robust(OLS(cause, both), codes).f_test(of_moved) if enough else None
    strength = float(np.squeeze(first.fvalue)) if first else np.nan
    p = float(_robust(OLS(outcome, both), codes).f_test(of_moved).pvalue) if enough else np.nan
    nothing = Estimate(np.nan, np.nan, np.nan, n=n, clusters=clusters)
    if not strength >= MIN_F:
        return Instrumented(nothing, p, strength, plain)
    second = IV2SLS(outcome, whole, both).fit()
    projected = second.exog_hat
    bread = np.linalg.inv(projected.T @ projected)
    scores = np.zeros((clusters, whole.shape[1]))
    np.add.at(scores, codes, projected * (outcome - whole @ second.params)[:, None])
    covariance = bread @ scores.T @ scores @ bread * clusters / (clusters - 1)
    error, slope = float(np.sqrt(covariance[0, 0])), float(second.params[0])
    reach = quantile((1 + LEVEL) / 2, clusters - 1) * error
    bounded = Estimate(slope, slope - reach, slope + reach, n=n, stderr=error, clusters=clusters)
    return Instrumented(bounded, p, strength, plain)


def _robust(model: Any, codes: Codes) -> Any:  # noqa: ANN401
    """The results of a statsmodels model with errors by cluster."""
    by_cluster = {"cov_kwds": {"groups": codes}, "use_t": True}
    try:
        return model.fit(cov_type="cluster-crv3", **by_cluster)
    except ValueError:
        return model.fit(cov_type="cluster", **by_cluster)


def mediated(
    treatment: ArrayLike, mediator: ArrayLike, outcome: ArrayLike, cluster: Sequence[Hashable]
) -> dict[str, Estimate]:
    """The part of a treatment's effect that goes through a mediator, and the part that does not.

    Args:
        treatment: 1 for treated and 0 for not, or that minus its mean in a unit.
        mediator: One number per row, minus its mean in a unit if the treatment is.
        outcome: One number per row, like the mediator.
        cluster: Cluster name of each row.

    Returns:
        `mediated` (the average causal mediation effect: the product of two coefficients) and `direct`, by linear models
        without interaction, with intervals by a jackknife over clusters and Student's t. No interval with fewer than
        ten clusters.

    References:
        Imai, Keele and Tingley (2010). A general approach to causal mediation analysis. Psychological Methods 15.
    """
    columns = [np.asarray(one, dtype=float) for one in (treatment, mediator, outcome)]

    def parts(sums: Floats) -> Floats:
        """Both effects, from sums of products of the columns 1, treatment, mediator and outcome."""
        of_mediator = _solved(sums[..., :2, :2], sums[..., :2, 2])
        of_outcome = _solved(sums[..., :3, :3], sums[..., :3, 3])
        return np.stack([of_mediator[..., 1] * of_outcome[..., 2], of_outcome[..., 1]], axis=-1)

    return dict(zip(("mediated", "direct"), _jackknife(columns, cluster, parts), strict=True))


def crossing(x: ArrayLike, y: ArrayLike, cluster: Sequence[Hashable], level: float) -> Estimate:
    """The x at which the least-squares line of y on x passes a level, with an interval by a jackknife over clusters."""

    def at(sums: Floats) -> Floats:
        line = _solved(sums[..., :2, :2], sums[..., :2, 2])
        return (level - line[..., :1]) / line[..., 1:]

    return _jackknife([np.asarray(x, dtype=float), np.asarray(y, dtype=float)], cluster, at)[0]


def linear_effects(y: ArrayLike, columns: Sequence[ArrayLike], cluster: Sequence[Hashable]) -> list[Estimate]:
    """Least-squares coefficients of y on columns without a constant, with intervals by a jackknife over clusters.

    Args:
        y: One number per row, none of them NaN.
        columns: For each column one number per row.
        cluster: Cluster name of each row.

    Returns:
        One for each column. NaN for a column of zeros; NaN for all if one of the others is a sum of the rest, and no
        interval with fewer than ten clusters.
    """
    every = [np.asarray(column, dtype=float) for column in columns]
    used = [column for column in every if column.any()]
    last = len(used) + 1

    def coefficients(sums: Floats) -> Floats:
        return _solved(sums[..., 1:last, 1:last], sums[..., 1:last, last])

    effects = iter(_jackknife([*used, np.asarray(y, dtype=float)], cluster, coefficients) if used else [])
    return [next(effects) if column.any() else UNKNOWN for column in every]


def _solved(matrix: Floats, vector: Floats) -> Floats:
    """Solutions of normal equations. NaN without a unique one."""
    singular = np.linalg.matrix_rank(matrix, hermitian=True) < matrix.shape[-1]
    regular = np.where(singular[..., None, None], np.eye(matrix.shape[-1]), matrix)
    return np.where(singular[..., None], np.nan, np.linalg.solve(regular, vector[..., None])[..., 0])


def _jackknife(
    columns: Sequence[Floats], cluster: Sequence[Hashable], figures: Callable[[Floats], Floats]
) -> list[Estimate]:
    """Figures of sums of products (of a constant and the columns) with intervals by leaving out each cluster."""
    codes = cluster_codes(cluster)
    clusters = int(codes.max()) + 1
    rows = np.stack([np.ones(codes.size), *columns], axis=1)
    sums = np.zeros((clusters, rows.shape[1], rows.shape[1]))
    np.add.at(sums, codes, rows[:, :, None] * rows[:, None, :])
    whole = sums.sum(axis=0)
    estimates, without = figures(whole), figures(whole - sums)
    errors = np.sqrt((clusters - 1) / clusters * np.square(without - without.mean(axis=0)).sum(axis=0))
    errors = errors if clusters >= MIN_CLUSTERS_REGRESSED else np.full(estimates.shape, np.nan)
    return [
        replace(
            t_estimate(float(one), float(error), clusters - 1, codes.size),
            clusters=clusters,
            effective_clusters=clusters,
        )
        for one, error in zip(estimates, errors, strict=True)
    ]
