"""Least squares and two-stage least squares by statsmodels, with errors that are correlated inside clusters."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from truthgym.scorers.statistics.instrumented_slope import MIN_F, ROUNDING_ERROR, Codes, Floats
from truthgym.scorers.statistics.interval import (
    LEVEL,
    UNKNOWN,
    Estimate,
    cluster_codes,
    jackknife_variance,
    t_bounds,
    t_estimate,
    two_sided_p,
)

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


def clustered_fit(y: ArrayLike, design: ArrayLike, cluster: Sequence[Hashable]) -> Fit:
    """Least squares with jackknife errors by cluster (CRV3) and Student's t of the clusters minus 1.

    CRV3 is the one of the usual estimators that is not too small with few or unequal clusters. Where the design without
    one cluster is not of full rank, CRV1 takes its place. Intervals are NaN with fewer than ten clusters, and for a
    column that is identified by one cluster alone. MacKinnon, Nielsen and Webb (2023). J. Applied Econometrics 38.
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
    lower, upper, p = (np.where(alone, np.nan, figure) for figure in (lower, upper, robust.pvalues))
    return Fit(plain.params, lower, upper, p, *facts)


def two_stage(
    y: ArrayLike, x: ArrayLike, instruments: ArrayLike, controls: ArrayLike, cluster: Sequence[Hashable]
) -> Instrumented:
    """The effect of x on y, from the part of x that instruments move (indicators; `controls` hold the constant).

    It is the effect if the instruments were assigned independently of everything else that moves y, and move y through
    x alone. Angrist and Pischke (2009). Mostly Harmless Econometrics, chapter 4. Andrews, Stock and Sun (2019). Annual
    Review of Economics 11.
    """
    from statsmodels.api import OLS
    from statsmodels.sandbox.regression.gmm import IV2SLS

    outcome, cause = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
    moved, fixed = np.asarray(instruments, dtype=float), np.asarray(controls, dtype=float)
    codes = cluster_codes(cluster)
    clusters, n = int(codes.max()) + 1, outcome.size
    both, whole = np.column_stack([moved, fixed]), np.column_stack([cause, fixed])
    of_moved = np.eye(moved.shape[1], both.shape[1])
    enough = clusters >= MIN_CLUSTERS_REGRESSED
    first = _robust(OLS(cause, both), codes).f_test(of_moved) if enough else None
    strength = float(np.squeeze(first.fvalue)) if first else np.nan
    p = float(_robust(OLS(outcome, both), codes).f_test(of_moved).pvalue) if enough else np.nan
    nothing = Estimate(np.nan, np.nan, np.nan, n=n, clusters=clusters)
    if not strength >= MIN_F:
        return Instrumented(nothing, p, strength)
    second = IV2SLS(outcome, whole, both).fit()
    projected = second.exog_hat
    bread = np.linalg.inv(projected.T @ projected)
    scores = np.zeros((clusters, whole.shape[1]))
    np.add.at(scores, codes, projected * (outcome - whole @ second.params)[:, None])
    covariance = bread @ scores.T @ scores @ bread * clusters / (clusters - 1)
    error, slope = float(np.sqrt(covariance[0, 0])), float(second.params[0])
    bounded = Estimate(slope, *t_bounds(slope, error, clusters - 1), n=n, stderr=error, clusters=clusters)
    return Instrumented(bounded, p, strength)


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

    `mediated` is the product of two coefficients; both effects are by linear models without interaction, with intervals
    by a jackknife over clusters. Imai, Keele and Tingley (2010). Psychological Methods 15.
    """
    columns = [np.asarray(values, dtype=float) for values in (treatment, mediator, outcome)]

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
    """Least-squares coefficients of y on columns without a constant, with intervals by a jackknife over clusters."""
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


def _sums(columns: Sequence[Floats], codes: Codes) -> Floats:
    """The sums of products of a constant and the columns in each cluster."""
    rows = np.stack([np.ones(codes.size), *columns], axis=1)
    sums = np.zeros((int(codes.max(initial=-1)) + 1, rows.shape[1], rows.shape[1]))
    np.add.at(sums, codes, rows[:, :, None] * rows[:, None, :])
    return sums


def _jackknife(
    columns: Sequence[Floats], cluster: Sequence[Hashable], figures: Callable[[Floats], Floats]
) -> list[Estimate]:
    """Figures of sums of products (of a constant and the columns) with intervals by leaving out each cluster."""
    codes = cluster_codes(cluster)
    clusters = int(codes.max()) + 1
    sums = _sums(columns, codes)
    whole = sums.sum(axis=0)
    estimates, without = figures(whole), figures(whole - sums)
    errors = np.sqrt(jackknife_variance(without))
    errors = errors if clusters >= MIN_CLUSTERS_REGRESSED else np.full(estimates.shape, np.nan)
    return [
        replace(
            t_estimate(float(estimate), float(error), clusters - 1, codes.size),
            clusters=clusters,
            effective_clusters=clusters,
        )
        for estimate, error in zip(estimates, errors, strict=True)
    ]


MIN_CLUSTERS_CORRELATED = 6
"""Clusters below which a correlation has no interval: with five, one that is 0 looks like 0.8 in one of ten runs."""
MIN_RELIABILITY = 0.3
"""Reliability of a measure below which its correlations are not corrected: the correction would be mostly noise."""


@dataclass(frozen=True)
class Correlated:
    """How strongly two measures move together."""

    plain: Estimate
    """Of the measures as they are, in [-1, 1]."""
    p: float
    """Two-sided p value of no correlation."""
    corrected: Estimate
    """Of what they measure, without their errors. NaN if an error is not known or a reliability is below 0.3."""
    reliability: tuple[float, float]
    """Share of each measure's variance that is not error, given the controls. NaN if its error is not known."""


def correlate(
    x: ArrayLike,
    y: ArrayLike,
    cluster: Sequence[Hashable] | None = None,
    controls: ArrayLike | None = None,
    errors: tuple[ArrayLike, ArrayLike] | None = None,
) -> Correlated:
    r"""Pearson's correlation; with controls the partial one, and with errors also the disattenuated one.

    $$\rho=\frac{r}{\sqrt{\lambda_x\lambda_y}},\qquad \lambda_x=1-\frac{\overline{\mathrm{SE}_x^2}}{s_x^2}$$

    with the variance $s_x^2$ of what the controls leave of x. The interval of r is a jackknife of Fisher's z over
    clusters, with Student's t; its bounds, corrected as r is, are those of $\rho$. The correction assumes that the
    errors of x and y are independent. Spearman (1904). American Journal of Psychology 15. Charles (2005). Psychological
    Methods 10.
    """
    first, second = (np.asarray(values, dtype=float).ravel() for values in (x, y))
    names: Sequence[Hashable] = range(first.size) if cluster is None else cluster
    design = (
        np.zeros((first.size, 0)) if controls is None else np.asarray(controls, dtype=float).reshape(first.size, -1)
    )
    unknown = np.full(first.size, np.nan)
    noise = [np.asarray(measure, dtype=float).ravel() for measure in errors] if errors else [unknown, unknown]
    kept = np.isfinite(first + second)
    codes = cluster_codes([name for name, keep in zip(names, kept, strict=True) if keep])
    n, clusters = codes.size, int(codes.max()) + 1 if codes.size else 0
    columns = [column[kept] - column[kept].sum() / max(n, 1) for column in (*design.T, first, second)]
    sums = _sums([*(column / (np.abs(column).max(initial=0) or 1) for column in columns[:-2]), *columns[-2:]], codes)
    moments = _left(np.stack([sums.sum(axis=0), *(sums.sum(axis=0) - sums)]))
    (xx, xy), (_, yy) = moments[0]
    r = float(xy / np.sqrt(xx * yy))
    of_x, of_y = (
        float(1 - np.mean(measure[kept] ** 2) / s) if n else np.nan for measure, s in zip(noise, (xx, yy), strict=True)
    )
    reliability = (of_x, of_y)
    nothing = replace(UNKNOWN, n=n, clusters=clusters)
    factor = 1 / np.sqrt(np.prod(reliability)) if min(reliability) >= MIN_RELIABILITY else np.nan
    plain, corrected = (replace(nothing, estimate=float(np.clip(measure, -1, 1))) for measure in (r, r * factor))
    if clusters < MIN_CLUSTERS_CORRELATED or np.isnan(r):
        return Correlated(plain, np.nan, corrected, reliability)
    rs = moments[:, 0, 1] / np.sqrt(moments[:, 0, 0] * moments[:, 1, 1])
    z, *zs = np.arctanh(np.clip(rs, ROUNDING_ERROR - 1, 1 - ROUNDING_ERROR))
    error = float(np.sqrt(jackknife_variance(np.array(zs))))
    bounds = np.tanh(t_bounds(float(z), error, clusters - 1))
    plain, corrected = (
        replace(measure, lower=float(lower), upper=float(upper))
        for measure, (lower, upper) in ((plain, bounds), (corrected, np.clip(bounds * factor, -1, 1)))
    )
    p = two_sided_p(float(z) / error, clusters - 1) if error > 0 else 0.0 if error == 0 else np.nan
    return Correlated(plain, p, corrected, reliability)


def _left(sums: Floats) -> Floats:
    """Variances and covariance of what columns leave of the last two, from sums of products. NaN if that is nothing."""
    given, between, own = sums[..., :-2, :-2], sums[..., :-2, -2:], sums[..., -2:, -2:]
    sizes, directions = np.linalg.eigh(given)
    used = sizes > ROUNDING_ERROR * sizes[..., -1:]
    shadows = np.swapaxes(directions, -1, -2) @ between
    weights = np.where(used, 1 / np.where(used, sizes, 1), 0)[..., None]
    free = np.maximum(sums[..., 0, 0] - used.sum(axis=-1), 0)[..., None, None]
    rest = own - np.swapaxes(shadows, -1, -2) @ (shadows * weights)
    least = np.maximum(ROUNDING_ERROR * own, free * ROUNDING_ERROR**2)
    varies = np.asarray(np.diagonal(rest > least, axis1=-2, axis2=-1).all(axis=-1))[..., None, None] & (free > 1)
    return np.where(varies, rest / np.maximum(free, 1), np.nan)


def cross_epoch_correlation(
    x: ArrayLike, y: ArrayLike, cluster: Sequence[Hashable], group: Sequence[Hashable]
) -> Correlated:
    r"""Correlation of two measures (questions x epochs), with what varies between epochs taken out.

    $$\rho=\frac{S_{xy}}{\sqrt{S_{xx}S_{yy}}},\qquad S_{ab}=\sum_q\sum_{i\ne j}a_{qi}b_{qj}$$

    of numbers from which the mean of their group is taken. An answer's x never meets the same answer's y, so that an
    error that both share does no harm. The interval is a jackknife over clusters. `plain` is of the means over epochs.
    """
    first, second = (np.array(values, dtype=float) for values in (x, y))
    both = np.isfinite(first) & np.isfinite(second)
    of_group = cluster_codes(group)
    for values in (first, second):
        values[~both] = 0
        count = np.bincount(of_group, both.sum(axis=1))
        values -= (np.bincount(of_group, values.sum(axis=1)) / np.maximum(count, 1))[of_group][:, None] * both
    epochs = both.sum(axis=1)
    used = epochs > 1
    codes = cluster_codes([name for name, keep in zip(cluster, used, strict=True) if keep])
    first, second, epochs = first[used], second[used], epochs[used].astype(float)
    means = correlate(first.sum(axis=1) / epochs, second.sum(axis=1) / epochs, codes.tolist())
    clusters = means.plain.clusters
    products = [(first, second), (first, first), (second, second)]
    same = np.stack([np.bincount(codes, (a * b).sum(axis=1), clusters) for a, b in products])
    cross = np.stack([np.bincount(codes, a.sum(axis=1) * b.sum(axis=1), clusters) for a, b in products]) - same
    pairs, answers = (np.bincount(codes, weights, clusters).sum() for weights in (epochs * (epochs - 1), epochs))
    with np.errstate(divide="ignore", invalid="ignore"):
        xx, yy = (float(cross[i].sum() / pairs / (same[i].sum() / answers)) for i in (1, 2))
        whole, without = (
            np.asarray(a / np.sqrt(b * c)) for a, b, c in (cross.sum(axis=1), cross.sum(axis=1, keepdims=True) - cross)
        )
    if not min(xx, yy) >= MIN_RELIABILITY or clusters < MIN_CLUSTERS_CORRELATED or not np.isfinite(without).all():
        return replace(means, reliability=(xx, yy))
    error = float(np.sqrt(jackknife_variance(without)))
    bounds = t_bounds(float(whole), error, clusters - 1)
    estimate, lower, upper = (float(np.clip(value, -1, 1)) for value in (whole, *bounds))
    corrected = Estimate(estimate, lower, upper, np.nan, means.plain.n, error, clusters, float(clusters))
    return replace(means, corrected=corrected, reliability=(xx, yy))
