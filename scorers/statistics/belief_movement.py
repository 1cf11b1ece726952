"""Companions of the martingale slope: how far beliefs moved, what was gained, and whether a reading looked ahead.

Pure functions of arrays (questions x epochs, NaN if missing). Most return one value per question, for `mean_estimate`.
"""

from dataclasses import dataclass, replace

import numpy as np

from truthgym.scorers.statistics.instrumented_slope import (
    MIN_F,
    MIN_QUESTIONS,
    Codes,
    Floats,
    Slope,
    cross_epoch_slope,
    first_stage,
    within,
)
from truthgym.scorers.statistics.proper_scores import row_mean


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
    question. For $e$ the correction is exact: noise adds $\sigma_0^2+\sigma_1^2-2c$ to the squared update and subtracts
    $\sigma_0^2-\sigma_1^2$ from the reduction. $m$ and $r$ alone are unbiased if both reports are equally noisy. NaN
    for a question with fewer than two epochs.

    Args:
        prior: Beliefs in [0, 1] before.
        posterior: Beliefs after.
    """
    variance, covariance = within(prior, posterior)
    moved = row_mean((posterior - prior) ** 2) - 2 * (variance - covariance)
    reduction = row_mean(prior * (1 - prior) - posterior * (1 - posterior))
    known = np.isfinite(moved)
    return Movement(moved, np.where(known, reduction, np.nan), moved - reduction)


def brier_gain(prior: Floats, posterior: Floats, outcome: Floats) -> Floats:
    """Decrease of the Brier score from prior to posterior, in [-1, 1]. Above 0, something true was learned.

    Args:
        prior: Beliefs in [0, 1] before.
        posterior: Beliefs after.
        outcome: 1 or 0 for each question, or its exact posterior, which gives the same expectation with less noise.
            NaN if unknown.
    """
    y = outcome[:, None]
    return row_mean((prior - y) ** 2 - (posterior - y) ** 2)


def corrected_posterior(prior: Floats, posterior: Floats, slope: float, group: Codes) -> Floats:
    r"""The posterior with the estimated slope removed: $y-\hat\beta(\bar x_q-\bar x)$, clipped to [0, 1].

    $\bar x_q$ is the question's mean prior over its epochs, which is less noisy than a single one, and $\bar x$ that of
    its group. Its noise enters the corrected posterior: this removes the slope on the belief, not the slope on the
    noisy report.

    Args:
        prior: Beliefs in [0, 1] before.
        posterior: Beliefs after.
        slope: The martingale score; NaN gives NaN throughout.
        group: Group number of each question.
    """
    own = row_mean(prior)
    known = np.isfinite(own)
    count = np.bincount(group[known], minlength=group.max(initial=0) + 1)
    total = np.bincount(group[known], weights=own[known], minlength=len(count))
    centre = (total / np.maximum(count, 1))[group] if len(group) else own
    return np.clip(posterior - slope * (own - centre)[:, None], 0, 1)


def leak(prior: Floats, posterior: Floats, joint: Floats, cluster: Codes, group: Codes) -> Slope:
    r"""Share of the update that a joint reading already puts into the prior: 0 for a reader that does not look ahead.

    The slope of (joint prior - separate prior) on the separately measured update. The separate prior's error is in both
    terms, so the update is instrumented by that of another epoch. This detects look-ahead at what the epochs have in
    common; it is NaN if that is too little (fewer than ten questions, or a first-stage F under 10).

    Args:
        prior: Beliefs before, from separate readings.
        posterior: Beliefs after, from separate readings.
        joint: Beliefs before, from one reading of everything.
        cluster: Cluster number of each question.
        group: Group number of each question.
    """
    update = np.where(np.isfinite(joint), posterior - prior, np.nan)
    slope = cross_epoch_slope((joint - prior)[:, :, None], update[:, :, None], update, cluster, group)
    known = slope.n >= MIN_QUESTIONS and first_stage(update[:, :, None], update, cluster, group) >= MIN_F
    none = dict.fromkeys(("estimate", "lower", "upper", "error", "p", "mde"), np.nan)
    return slope if known else replace(slope, **none)  # type: ignore[arg-type]
