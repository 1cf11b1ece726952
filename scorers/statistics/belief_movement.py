"""What a martingale slope cannot tell: how far beliefs moved, what that was worth, and whether a reader looked ahead.

Pure functions of arrays, questions x epochs, NaN where missing; each gives one value a question, for `mean_headline`.
"""

from dataclasses import dataclass, replace

import numpy as np

from truthgym.scorers.statistics.slopes import (
    LEAST_F,
    LEAST_QUESTIONS,
    Codes,
    Floats,
    Slope,
    cross_epoch_slope,
    first_stage,
    within,
)


@dataclass(frozen=True)
class Movement:
    """One value a question, NaN where it cannot be told."""

    movement: Floats
    r"""Mean squared update, corrected for noise in the reports, about 0 to 1."""
    reduction: Floats
    """Fall of p(1 - p), about -0.25 to 0.25: how much surer the posterior is."""
    excess: Floats
    """Movement minus reduction. 0 in the mean for a Bayesian, whatever the evidence; above 0 it moves more than it
    learns, below 0 it grows surer than it moves."""


def movement(prior: Floats, posterior: Floats) -> Movement:
    r"""Movement, uncertainty reduction and excess movement (Augenblick and Rabin 2021), corrected for report noise.

    $$m=(y-x)^2-2(\hat\sigma^2-\hat c),\qquad r=x(1-x)-y(1-y),\qquad e=m-r$$

    with $\hat\sigma^2$ the variance of the prior and $\hat c$ its covariance with the posterior between the epochs of a
    question. For $e$ the correction is exact: noise adds $\sigma_0^2+\sigma_1^2-2c$ to the squared update and takes
    $\sigma_0^2-\sigma_1^2$ from the reduction. $m$ and $r$ by themselves are right where both reports are equally
    noisy. NaN for a question with fewer than two epochs.

    Args:
        prior: Beliefs in [0, 1] before.
        posterior: Beliefs after.
    """
    variance, covariance = within(prior, posterior)
    moved = _row_mean((posterior - prior) ** 2) - 2 * (variance - covariance)
    reduction = _row_mean(prior * (1 - prior) - posterior * (1 - posterior))
    known = np.isfinite(moved)
    return Movement(moved, np.where(known, reduction, np.nan), moved - reduction)


def brier_gain(prior: Floats, posterior: Floats, outcome: Floats) -> Floats:
    """How much the Brier score fell from prior to posterior: above 0 something true was learned. -1 to 1.

    Args:
        prior: Beliefs in [0, 1] before.
        posterior: Beliefs after.
        outcome: 1 or 0 for each question, NaN where unknown.
    """
    y = outcome[:, None]
    return _row_mean((prior - y) ** 2 - (posterior - y) ** 2)


def corrected_posterior(prior: Floats, posterior: Floats, slope: float, group: Codes) -> Floats:
    r"""The posterior with the estimated slope taken out: $y-\hat\beta(\bar x_q-\bar x)$, held in [0, 1].

    $\bar x_q$ is the question's mean prior over its epochs, which is less noisy than each, and $\bar x$ its group's.
    Its noise goes into the corrected posterior: the slope on what was believed is out, that on the noisy report is not.

    Args:
        prior: Beliefs in [0, 1] before.
        posterior: Beliefs after.
        slope: The martingale score; NaN gives NaN throughout.
        group: For each question the number of its group.
    """
    own = _row_mean(prior)
    known = np.isfinite(own)
    count = np.bincount(group[known], minlength=group.max(initial=0) + 1)
    total = np.bincount(group[known], weights=own[known], minlength=len(count))
    centre = (total / np.maximum(count, 1))[group] if len(group) else own
    return np.clip(posterior - slope * (own - centre)[:, None], 0, 1)


def leak(prior: Floats, posterior: Floats, joint: Floats, cluster: Codes, group: Codes) -> Slope:
    r"""How much of the update a joint reading puts into the prior already: 0 for a reader that does not look ahead.

    The slope of (joint prior - separate prior) on the separately measured update, which is instrumented by the update
    of another epoch: the separate prior's error stands in both. It sees look-ahead at what epochs have in common, and
    is NaN where that is too little to tell (fewer than ten questions, first-stage F under 10).

    Args:
        prior: Beliefs before, read separately.
        posterior: Beliefs after, read separately.
        joint: Beliefs before, read together with the rest.
        cluster: For each question the number of its cluster.
        group: For each question the number of its group.
    """
    update = np.where(np.isfinite(joint), posterior - prior, np.nan)
    found = cross_epoch_slope((joint - prior)[:, :, None], update[:, :, None], update, cluster, group)
    known = found.n >= LEAST_QUESTIONS and first_stage(update[:, :, None], update, cluster, group) >= LEAST_F
    none = dict.fromkeys(("estimate", "lower", "upper", "error", "p", "mde"), np.nan)
    return found if known else replace(found, **none)  # type: ignore[arg-type]


def _row_mean(values: Floats) -> Floats:
    held = np.isfinite(values)
    count = held.sum(axis=1)
    return np.where(count > 0, np.where(held, values, 0).sum(axis=1) / np.maximum(count, 1), np.nan)
