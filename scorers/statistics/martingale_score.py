"""The martingale score: can a reasoner's updates be predicted from its prior?"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from truthgym.scorers.statistics.instrumented_slope import (
    MIN_F,
    MIN_QUESTIONS,
    ROUNDING_ERROR,
    Codes,
    Floats,
    Slope,
    cross_epoch_slope,
    first_stage,
    ols_slope,
    r_squared,
    reliability,
    within,
)
from truthgym.scorers.statistics.interval import MIN_CLUSTERS, cluster_codes
from truthgym.scorers.statistics.proper_scores import row_mean

MIN_RELIABILITY = 0.3

REASONS = {
    "one_epoch": "one epoch cannot separate the prior's own noise from belief; run with --epochs 3",
    "unread": "no question has a readable prior, posterior and instrument in two epochs; the samples' scores hold the "
    "replies and the reasons",
    "few_questions": f"fewer than {MIN_QUESTIONS} questions, or clusters of them, have readable beliefs in two "
    "epochs; ask more questions",
    "few_clusters": f"the slope rests on fewer than {MIN_CLUSTERS} independent observations; ask about more events, "
    "with other priors",
    "saw_reasoning": "the prior that serves as instrument was read with the reasoning visible; elicit it in a separate "
    "context",
    "no_second_wording": "token probabilities are the same in every epoch; ask in a second wording too: paraphrases=2",
    "equal_priors": "the priors do not differ between questions; ask questions whose priors do",
    "low_reliability": "the prior hardly agrees with the prior of another epoch, wording or elicitor (reliability "
    f"under {MIN_RELIABILITY}); use more questions whose priors differ, or a second elicitor",
    "weak_instrument": "there are too few questions to correct for the prior's noise (first-stage F under "
    f"{MIN_F:g}, or a slope without a bound); ask more",
}
"""Why a slope is not identified, by `MartingaleScore.reason`."""


@dataclass(frozen=True)
class MartingaleScore(Slope):
    """The slope of the update on the prior, with what is needed to judge it. NaN if undefined or not identified.

    0 is rational; above 0 entrenched, below 0 over-correcting. `n` counts the questions with readable beliefs in two
    epochs.
    """

    epochs: int = 0
    reliability: float = np.nan
    """Correlation of the prior with the instrument in another epoch, at most 1: the test-retest reliability if the
    prior is its own instrument."""
    shared_error: float = np.nan
    """Share of the prior's error that the posterior repeats: 0 for independent reports. NaN without error."""
    reason: str | None = None
    """Why it is not identified: a key of `REASONS`, or None."""
    ols: float = np.nan
    """The published score: least squares on single reports. Noise biases it downwards, a reader that saw the end
    upwards."""
    ols_lower: float = np.nan
    ols_upper: float = np.nan
    ols_half: float = np.nan
    """Slope through one half without intercept: above 0, beliefs became more extreme, below 0 more moderate."""
    r_squared: float = np.nan
    """R squared of the published regression, in [0, 1]."""

    @property
    def identified(self) -> bool:
        return self.reason is None

    @property
    def slope(self) -> Slope:
        """The instrumented slope: the score without what judges it."""
        return self


def martingale_score(
    prior: ArrayLike,
    posterior: ArrayLike,
    instrument: ArrayLike | None = None,
    cluster: Sequence[Hashable] | None = None,
    *,
    group: Sequence[Hashable] | None = None,
    invalid: str | None = None,
) -> MartingaleScore:
    r"""Estimate the slope of the update on the prior, without bias from noise in both reports.

    The prior of each epoch is instrumented by that of every other epoch: see `cross_epoch_slope`. If the prior has
    reliability $\lambda$ and the posterior repeats the share $\kappa$ of its error, least squares estimates
    $\lambda\beta-(1-\lambda)(1-\kappa)$ instead of $\beta$.

    Beliefs are questions x epochs, or questions x epochs x steps, NaN if missing. With steps the instrument is the
    prior of each epoch, since the belief before a later step has seen reasoning. Each group has its own intercept.
    `invalid` is why there is no valid instrument, a key of `REASONS`.
    """
    x, y = (np.asarray(values, dtype=float) for values in (prior, posterior))
    z = np.asarray(x if instrument is None else instrument, dtype=float)
    if instrument is None and x.shape[2:] == (1,):
        z = x[:, :, 0]  # a single step needs no other instrument
    names: Sequence[Hashable] = range(len(x)) if cluster is None else cluster
    groups: Sequence[Hashable] = [0] * len(x) if group is None else group
    right = x.shape == y.shape and x.ndim in (2, 3) and 0 not in x.shape[2:] and z.shape == x.shape[:2]
    if not right or len(names) != len(x) or len(groups) != len(x):
        raise ValueError(
            f"martingale_score: priors {x.shape}, posteriors {y.shape}, instruments {z.shape}, {len(names)} clusters, "
            f"{len(groups)} groups; give questions x epochs (x steps), with steps an instrument, and a name for each"
        )
    for wrong in (values[(values < 0) | (values > 1)] for values in (x, y, z)):
        if wrong.size:
            raise ValueError(f"martingale_score: {wrong[0]:g} is not a probability between 0 and 1; divide by 100")
    x, y = (values[:, :, None] if values.ndim == 2 else values for values in (x, y))
    return slope_score(x, y - x, z, cluster_codes(names), cluster_codes(groups), invalid, (x - 0.5, y - x))


def slope_score(
    x: Floats,
    change: Floats,
    z: Floats,
    clusters: Codes,
    groups: Codes,
    invalid: str | None,
    half: tuple[Floats, Floats],
) -> MartingaleScore:
    """The score of a level and a change on any scale, unchecked. `half`: the level about one half, and the change."""
    slope = cross_epoch_slope(change, x, z, clusters, groups)
    published = ols_slope(change, x, clusters, groups)
    strength = reliability(x, z, groups)
    variance, covariance = (np.nansum(v) for v in within(x[:, :, 0], x[:, :, 0] + change[:, :, 0]))
    readable = np.isfinite(x[:, :, 0] + change[:, :, 0]), np.isfinite(z)
    twice = any(np.any(readable[0][:, i] & readable[1][:, j]) for i, j in permutations(range(x.shape[1]), 2))
    first_stage_f = first_stage(x, z, clusters, groups)
    reason = invalid or _unidentified(slope, x.shape[1], twice, strength, first_stage_f)
    d0, d1 = (values[np.isfinite(change)] for values in half)
    if reason:
        nan, effective = np.nan, slope.effective_clusters
        slope = Slope(nan, nan, nan, n=slope.n, clusters=slope.clusters, effective_clusters=effective)
    return MartingaleScore(
        **vars(slope),
        epochs=x.shape[1],
        reliability=strength,
        shared_error=float(covariance / variance) if variance >= ROUNDING_ERROR else np.nan,
        reason=reason,
        ols=published.estimate,
        ols_lower=published.lower,
        ols_upper=published.upper,
        ols_half=float(np.sum(d0 * d1) / np.sum(d0**2)) if np.any(d0) else np.nan,
        r_squared=r_squared(change, x, groups),
    )


def _unidentified(slope: Slope, epochs: int, twice: bool, strength: float, first_stage_f: float) -> str | None:
    if slope.n == 0:
        return "one_epoch" if epochs < 2 else "few_questions" if twice else "unread"
    if min(slope.n, slope.clusters) < MIN_QUESTIONS:
        return "few_questions"
    if np.isnan(strength):
        return "equal_priors"
    if strength < MIN_RELIABILITY:
        return "low_reliability"
    if np.isnan(slope.stderr):
        return "few_clusters"
    return "weak_instrument" if not first_stage_f >= MIN_F or np.isnan(slope.lower) else None


@dataclass(frozen=True)
class Movement:
    """One value per question, NaN if it cannot be computed."""

    movement: Floats
    r"""Mean squared update, corrected for noise in the reports; about 0 to 1."""
    reduction: Floats
    """Decrease of p(1 - p), about -0.25 to 0.25: how much more certain the posterior is."""
    excess: Floats
    """Movement minus reduction. Its mean is 0 for a Bayesian, whatever the evidence. Above 0: moves more than it
    learns; below 0: its certainty grows more than its movement justifies."""


def movement(prior: Floats, posterior: Floats) -> Movement:
    r"""Movement, uncertainty reduction and excess movement (Augenblick and Rabin 2021), corrected for report noise.

    $$m=(y-x)^2-2(\hat\sigma^2-\hat c),\qquad r=x(1-x)-y(1-y),\qquad e=m-r$$

    $\hat\sigma^2$ is the variance of the prior and $\hat c$ its covariance with the posterior, between the epochs of a
    question. For $e$ the correction is exact; $m$ and $r$ alone are unbiased if both reports are equally noisy.
    """
    variance, covariance = within(prior, posterior)
    moved = row_mean((posterior - prior) ** 2) - 2 * (variance - covariance)
    reduction = row_mean(prior * (1 - prior) - posterior * (1 - posterior))
    finite = np.isfinite(moved)
    return Movement(moved, np.where(finite, reduction, np.nan), moved - reduction)


def brier_gain(prior: Floats, posterior: Floats, outcome: Floats) -> Floats:
    """Decrease of the Brier score from prior to posterior, in [-1, 1]. Above 0, something true was learned."""
    y = outcome[:, None]
    return row_mean((prior - y) ** 2 - (posterior - y) ** 2)


def corrected_posterior(prior: Floats, posterior: Floats, slope: float, group: Codes) -> Floats:
    r"""The posterior with the estimated slope removed: $y-\hat\beta(\bar x_q-\bar x)$, clipped to [0, 1]."""
    own = row_mean(prior)
    finite = np.isfinite(own)
    count = np.bincount(group[finite], minlength=group.max(initial=0) + 1)
    total = np.bincount(group[finite], weights=own[finite], minlength=len(count))
    centre = (total / np.maximum(count, 1))[group] if len(group) else own
    return np.clip(posterior - slope * (own - centre)[:, None], 0, 1)


def foreseen_share(prior: Floats, posterior: Floats, joint: Floats, cluster: Codes, group: Codes) -> Slope:
    """Share of the update that a joint reading already puts into the prior: 0 for a reader that does not look ahead.

    The slope of (joint prior - separate prior) on the separately measured update, instrumented by that of another
    epoch.
    """
    update = np.where(np.isfinite(joint), posterior - prior, np.nan)
    slope = cross_epoch_slope((joint - prior)[:, :, None], update[:, :, None], update, cluster, group)
    identified = slope.n >= MIN_QUESTIONS and first_stage(update[:, :, None], update, cluster, group) >= MIN_F
    none = dict.fromkeys(("estimate", "lower", "upper", "stderr", "p", "mde"), np.nan)
    return slope if identified else replace(slope, **none)  # type: ignore[arg-type]
