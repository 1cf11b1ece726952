"""The martingale reward: for updates that the prior does not predict, and that are informative.

Penalising the slope alone rewards never updating (slope 0), so an information term is always added.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from truthgym.scorers.statistics.instrumented_slope import MIN_QUESTIONS, ROUNDING_ERROR, Codes, Floats
from truthgym.scorers.statistics.interval import cluster_codes
from truthgym.scorers.statistics.martingale_score import MIN_RELIABILITY
from truthgym.training.reward_functions.formulas import Rewards, impute_group_mean

WEIGHT = 1.0
INFORMATION_WEIGHT = 1.0
MAX_SLOPE_TERM = 1.0
"""The slope term is clipped to this distance from 0: with nearly equal priors the estimate is noisy and large."""


@dataclass(frozen=True)
class MartingaleRewards:
    """Rewards of a batch, and the estimates behind them."""

    rewards: Rewards
    """Higher is better. None if nothing is known of the prior: a single rollout of a question, or no parsed prior."""
    slope: float
    """Slope of the update on the prior in this batch, each prior instrumented by the question's other rollouts. NaN if
    it is not identified."""
    information: float
    """Mean of the information term, before its weight; NaN for an empty batch."""


def martingale_rewards(
    question: Sequence[Hashable],
    prior: Sequence[float | None],
    posterior: Sequence[float | None],
    outcome: Sequence[float | None],
    *,
    weight: float = WEIGHT,
    information_weight: float = INFORMATION_WEIGHT,
) -> MartingaleRewards:
    r"""Reward each rollout j of a question q for its contribution to a slope of 0, and for what it learned.

    $$r_{qj}=-w\,\hat\beta_{-q}\,\frac{\bar x_{q,-j}-\bar x_{-q}}{\hat v_{-q}}\,(y_{qj}-x_{qj})+w_I\,I_{qj}$$

    with priors x, posteriors y, and $\hat\beta_{-q}$, $\bar x_{-q}$ and $\hat v_{-q}$ the slope of the update on the
    prior, the mean and the variance of priors, each computed from the other questions. The first term is the policy
    gradient of $-\frac w2\beta^2$, and its mean is about $-w\beta^2$. No error of a prior is multiplied by itself: the
    update is compared with the priors of the question's other rollouts, whose covariance is the variance.

    If the truth is known, $I=\overline{(x-o)^2}_{-j}-(y_{qj}-o)^2$, the fall of the Brier score: a proper score of the
    posterior. If it is not, I is the smaller one, over all other questions, of movement and uncertainty reduction, both
    computed from what the question's rollouts have in common. Without truth, knowledge and confidence cannot be told
    apart: going to 0 or 1 at random maximises both. Combine it with questions whose truth is known.
    """
    codes = cluster_codes(question)
    before, after, truth = (np.array(values, dtype=float) for values in (prior, posterior, outcome))
    others_before, others_after = _leave_one_out(before, codes), _leave_one_out(after, codes)
    # The slope uses parsed priors only: an imputed mean of the others would contain their errors a second time.
    terms = _question_terms(before, after, codes)
    total = terms.sum(axis=1, keepdims=True)
    before = np.where(np.isfinite(before), before, others_before.mean)
    slope, mean_prior, variance = _slope((total - terms)[:, codes])  # of the other questions
    gradient = -slope * (others_before.mean - mean_prior) / variance * (after - before)
    slope_term = np.clip(np.nan_to_num(gradient), -MAX_SLOPE_TERM, MAX_SLOPE_TERM)
    information = np.where(
        np.isnan(truth),
        _information_without_truth(after, others_before, others_after, codes),
        _brier_gain(before, after, truth, codes),
    )
    sums = weight * slope_term + information_weight * np.clip(information, -1, 1)
    has_prior = np.isfinite(others_before.mean)
    rewards = np.where(np.isfinite(after), sums, -(weight * MAX_SLOPE_TERM + information_weight))
    finite = information[np.isfinite(information) & has_prior]
    return MartingaleRewards(
        rewards=impute_group_mean(rewards.tolist(), (~has_prior).tolist(), question),
        slope=float(_slope(total)[0][0]) if len(codes) else np.nan,
        information=float(finite.mean()) if finite.size else np.nan,
    )


class _LeaveOneOut(NamedTuple):
    """Leave-one-out statistics: for each rollout, of its question's other rollouts. NaN if there are none."""

    mean: Floats
    product: Floats
    """Mean product of two different values, or the square of a single one: the squared mean without its noise."""


def _leave_one_out(values: Floats, codes: Codes) -> _LeaveOneOut:
    finite = np.isfinite(values)
    filled = np.where(finite, values, 0.0)
    n, total, squares = (np.bincount(codes, weights=w)[codes] - w for w in (finite.astype(float), filled, filled**2))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(n > 0, total / n, np.nan)
        return _LeaveOneOut(mean, np.where(n > 1, (total**2 - squares) / (n * (n - 1)), mean**2))


def _brier_gain(before: Floats, after: Floats, truth: Floats, codes: Codes) -> Floats:
    """Brier score of the priors of the question's other rollouts, minus that of the posterior."""
    gain: Floats = _leave_one_out((before - truth) ** 2, codes).mean - (after - truth) ** 2
    return gain


def _information_without_truth(after: Floats, x: _LeaveOneOut, y: _LeaveOneOut, codes: Codes) -> Floats:
    """Movement or uncertainty reduction, whichever is smaller over the other questions.

    Each is the gradient of what it estimates: (E y - E x)², and the fall of m(1 - m) of the means m.
    """
    mean = np.where(np.isfinite(y.mean), y.mean, after)
    product = np.where(np.isfinite(y.product), y.product, after**2)
    movement = 2 * after * (mean - x.mean) - product + x.product
    reduction = x.mean - x.product - after * (1 - 2 * mean) - product
    smaller: Floats = np.where(_sum_of_other_questions(movement - reduction, codes) <= 0, movement, reduction)
    return smaller


def _sum_of_other_questions(values: Floats, codes: Codes) -> Floats:
    filled = np.where(np.isfinite(values), values, 0.0)
    rest: Floats = filled.sum() - np.bincount(codes, weights=filled)[codes]
    return rest


def _question_terms(before: Floats, after: Floats, codes: Codes) -> Floats:
    r"""Of each question (columns) the terms that `_slope` adds up, from rollouts with a prior and a posterior.

    The rows, with x the prior and d the update: 1; the means $\bar x_q$, $\bar d_q$; $\bar x_q\bar d_q$ and
    $\bar x_q^2$; the mean products over different rollouts $c_q=\overline{x_{qi}d_{qj}}$ and
    $u_q=\overline{x_{qi}x_{qj}}$, $i\ne j$; and the mean of $x_{qi}^2$. A question with one such rollout counts as 0.
    """
    parsed = np.isfinite(before) & np.isfinite(after)
    q, x, d = codes[parsed], before[parsed], (after - before)[parsed]
    count = codes.max(initial=-1) + 1
    n, sum_x, sum_d, sum_xd, sum_xx = (
        np.bincount(q, weights=w, minlength=count) for w in (np.ones(q.size), x, d, x * d, x * x)
    )
    enough = n > 1
    n = np.where(enough, n, 2.0)
    pairs = n * (n - 1)
    mean_x, mean_d = sum_x / n, sum_d / n
    terms = np.array([
        np.ones(count), mean_x, mean_d, mean_x * mean_d, mean_x * mean_x,
        (sum_x * sum_d - sum_xd) / pairs, (sum_x * sum_x - sum_xx) / pairs, sum_xx / n,
    ])  # fmt: skip
    return np.where(enough, terms, 0.0)


def _slope(sums: Floats) -> tuple[Floats, Floats, Floats]:
    r"""The slope between questions, from sums of their `_question_terms`, as `instrumented_slope.cross_epoch_slope`.

    With it the mean and the variance between questions of the prior; NaN where it is not identified.

    The covariance between questions is $\overline{c_q}-\overline{\bar x_q\bar d_{q'}}$, $q\ne q'$, the variance alike.
    """
    n, x, d, xd, xx, cross_update, cross_prior, mean_square = sums
    pairs = np.maximum(n * (n - 1), 1)
    n = np.maximum(n, 1)
    covariance = cross_update / n - (x * d - xd) / pairs
    squared_mean = (x * x - xx) / pairs
    variance, single_report = cross_prior / n - squared_mean, mean_square / n - squared_mean
    enough = n + 1e-9 >= MIN_QUESTIONS - 1
    identified = enough & (variance > np.maximum(MIN_RELIABILITY * single_report, ROUNDING_ERROR))
    safe = np.where(identified, variance, 1.0)
    slope, mean, variance = (np.where(identified, value, np.nan) for value in (covariance / safe, x / n, safe))
    return slope, mean, variance
