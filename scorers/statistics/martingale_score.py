"""The martingale score: can a reader's updates be predicted from where it stood before?"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from truthgym.scorers.statistics.interval import cluster_codes
from truthgym.scorers.statistics.slopes import (
    LEAST_F,
    LEAST_QUESTIONS,
    MADE_EQUAL,
    Codes,
    Floats,
    cross_epoch_slope,
    first_stage,
    ols_slope,
    r_squared,
    reliability,
    within,
)

LEAST_RELIABILITY = 0.3

REASONS = {
    "one_epoch": "with one epoch the prior's own noise cannot be told from belief; run with --epochs 3",
    "unread": "no question has a readable prior, posterior and instrument in two epochs; the samples' scores hold the "
    "replies and the reasons",
    "few_questions": f"fewer than {LEAST_QUESTIONS} questions, or clusters of them, have readable beliefs in two "
    "epochs; ask more questions",
    "saw_reasoning": "the prior that serves as instrument was read where the reasoning could be seen; elicit it in a "
    "context of its own",
    "equal_priors": "the priors do not differ between questions; ask questions whose priors do",
    "low_reliability": f"the instrument hardly tells the prior (reliability under {LEAST_RELIABILITY}); use more "
    "questions whose priors differ, or a second elicitor",
    "weak_instrument": f"too few questions to be sure that the instrument tells the prior (first-stage F under "
    f"{LEAST_F:g}); ask more",
}
"""Why a slope is not identified."""
NOISELESS = (
    "every question got the very same prior in all epochs (reliability exactly 1): either the model answers without "
    "noise, as at temperature 0, or replies were shared between epochs and not drawn anew. The interval then counts "
    "the sampling of questions only"
)


@dataclass(frozen=True)
class MartingaleScore:
    """The slope of the update on the prior, with all that is needed to believe it or not. NaN where undefined."""

    estimate: float
    """0 for a rational reader; above 0 entrenched, below 0 over-correcting. NaN where not identified."""
    lower: float
    upper: float
    p: float
    """Anderson-Rubin p value of a slope of 0."""
    mde: float
    """Smallest true slope that this run finds at 5 % with probability 0.8."""
    n: int
    """Questions that entered."""
    epochs: int
    """Epochs asked."""
    reliability: float
    """Correlation of the prior with the instrument of another epoch, at most 1: test-retest reliability where the
    prior is its own instrument."""
    shared_error: float
    """Share of the prior's error that the posterior carries: 0 for separate reports. NaN without error."""
    identified: bool
    reason: str | None
    """Why not: a key of `REASONS`."""
    noiseless: bool
    """Whether each question got one and the same prior in all its epochs. See `NOISELESS`."""
    ols: float
    """The published score: least squares on single reports. Pulled down by noise, up by a reader that saw the end."""
    ols_lower: float
    ols_upper: float
    ols_half: float
    """Slope through one half without intercept: above 0 more extreme, below 0 more moderate."""
    r_squared: float
    """Of the published regression, in [0, 1]."""


def martingale_score(
    prior: ArrayLike,
    posterior: ArrayLike,
    instrument: ArrayLike | None = None,
    cluster: Sequence[Hashable] | None = None,
    *,
    group: Sequence[Hashable] | None = None,
    saw_reasoning: bool = False,
) -> MartingaleScore:
    r"""Estimate the slope of the update on the prior, right under noise in both reports.

    The prior of each epoch is instrumented by that of every other epoch: see `slopes.cross_epoch_slope`. With
    reliability $\lambda$ of the prior and share $\kappa$ of its error carried into the posterior, least squares gives
    $\lambda\beta-(1-\lambda)(1-\kappa)$ instead of $\beta$.

    Args:
        prior: Beliefs in [0, 1] before, questions x epochs, or questions x epochs x steps. NaN where missing.
        posterior: Beliefs after, in the same shape.
        instrument: What stands for the prior in another epoch, questions x epochs: another elicitor's prior. By default
            the prior itself, which steps do not allow: the belief before a later step has seen reasoning.
        cluster: For each question the name of its cluster. Default: each is its own.
        group: For each question the name of its group, such as its domain; each has an intercept of its own.
        saw_reasoning: Whether the instrument was read where the reasoning could be seen. Then nothing is identified.

    Raises:
        ValueError: A belief outside [0, 1], shapes that differ, or names that are not one for each question.
    """
    x, y = _checked(prior, posterior)
    z = _instrument(x, instrument)
    names: Sequence[Hashable] = range(len(x)) if cluster is None else cluster
    clusters, groups = (
        _codes("cluster", names, len(x)),
        _codes("group", [0] * len(x) if group is None else group, len(x)),
    )
    return slope_score(x, y - x, z, clusters, groups, saw_reasoning, (x - 0.5, y - x))


def slope_score(
    x: Floats,
    change: Floats,
    z: Floats,
    clusters: Codes,
    groups: Codes,
    saw_reasoning: bool,
    half: tuple[Floats, Floats],
) -> MartingaleScore:
    """The score of any level and change, on whatever scale, without checks. `half` is the pair through the middle."""
    found = cross_epoch_slope(change, x, z, clusters, groups)
    published = ols_slope(change, x, clusters, groups)
    strength = reliability(x, z, groups)
    variance, covariance = (np.nansum(v) for v in within(x[:, :, 0], x[:, :, 0] + change[:, :, 0]))
    own, _ = within(x[:, :, 0], x[:, :, 0])
    noiseless = bool(np.isfinite(own).any() and np.nansum(own) < MADE_EQUAL)
    asked = np.isfinite(x[:, :, 0] + change[:, :, 0]), np.isfinite(z)
    twice = any(np.any(asked[0][:, i] & asked[1][:, j]) for i, j in permutations(range(x.shape[1]), 2))
    surely = first_stage(x, z, clusters, groups)
    reason = _unidentified(x.shape[1], twice, found.n, found.clusters, found.free, strength, surely, saw_reasoning)
    lost = np.nan
    d0, d1 = (values[np.isfinite(change)] for values in half)
    return MartingaleScore(
        estimate=lost if reason else found.estimate,
        lower=lost if reason else found.lower,
        upper=lost if reason else found.upper,
        p=lost if reason else found.p,
        mde=lost if reason else found.mde,
        n=found.n,
        epochs=x.shape[1],
        reliability=strength,
        shared_error=float(covariance / variance) if variance >= MADE_EQUAL else np.nan,
        identified=reason is None,
        reason=reason,
        noiseless=noiseless,
        ols=published.estimate,
        ols_lower=published.lower,
        ols_upper=published.upper,
        ols_half=float(np.sum(d0 * d1) / np.sum(d0**2)) if np.any(d0) else np.nan,
        r_squared=r_squared(change, x, groups),
    )


def _unidentified(
    epochs: int, twice: bool, n: int, clusters: int, free: int, strength: float, surely: float, saw_reasoning: bool
) -> str | None:
    if saw_reasoning:
        return "saw_reasoning"
    if n == 0:
        return "one_epoch" if epochs < 2 else "few_questions" if twice else "unread"
    if min(n, clusters, free + 1) < LEAST_QUESTIONS:
        return "few_questions"
    if np.isnan(strength):
        return "equal_priors"
    if strength < LEAST_RELIABILITY:
        return "low_reliability"
    return "weak_instrument" if surely < LEAST_F else None


def _checked(prior: ArrayLike, posterior: ArrayLike) -> tuple[Floats, Floats]:
    x, y = (np.asarray(values, dtype=float) for values in (prior, posterior))
    if x.shape != y.shape or x.ndim not in (2, 3) or x.shape[2:] == (0,):
        raise ValueError(
            f"martingale_score: prior has shape {x.shape} and posterior {y.shape}; give both as questions x epochs, or "
            "both as questions x epochs x steps"
        )
    for name, values in (("prior", x), ("posterior", y)):
        _refuse_outside(name, values)
    return (x[:, :, None], y[:, :, None]) if x.ndim == 2 else (x, y)


def _instrument(x: Floats, instrument: ArrayLike | None) -> Floats:
    if instrument is None:
        if x.shape[2] > 1:
            raise ValueError(
                "martingale_score: beliefs in steps need an instrument: the prior of each epoch, questions x epochs"
            )
        return x[:, :, 0]
    z = np.asarray(instrument, dtype=float)
    if z.shape != x.shape[:2]:
        raise ValueError(
            f"martingale_score: instrument has shape {z.shape}; give it as questions x epochs, {x.shape[:2]}"
        )
    _refuse_outside("instrument", z)
    return z


def _refuse_outside(name: str, values: Floats) -> None:
    outside = ~np.isnan(values) & ~((values >= 0) & (values <= 1))
    if outside.any():
        place = tuple(int(at) for at in np.argwhere(outside)[0])
        raise ValueError(
            f"martingale_score: the {name} {values[place]:g} at {place} is no probability between 0 and 1; divide "
            "percentages by 100, and write NaN where a belief is missing"
        )


def _codes(what: str, names: Sequence[Hashable], questions: int) -> Codes:
    if len(names) != questions:
        raise ValueError(f"martingale_score: {len(names)} {what} names for {questions} questions; give one for each")
    return cluster_codes(names)
