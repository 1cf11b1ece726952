"""The martingale reward: for updates that cannot be foretold from the prior, and that bring something.

The slope alone teaches not to move: who never updates has the slope 0. So it comes with what was learned, or not.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from truthgym.evallog.errors import bad_input
from truthgym.scorers.statistics.interval import cluster_codes
from truthgym.scorers.statistics.martingale_score import LEAST_RELIABILITY
from truthgym.scorers.statistics.slopes import LEAST_QUESTIONS, MADE_EQUAL, Codes, Floats
from truthgym.training.reward_functions.formulas import Rewards, as_the_others

WEIGHT = 1.0
INFORMATION_WEIGHT = 1.0
MOST = 1.0
"""The martingale part is held within this distance of 0: a batch whose priors hardly differ says little, loudly."""


@dataclass(frozen=True)
class MartingaleRewards:
    """Rewards of a batch, with what they are made of."""

    rewards: Rewards
    """Higher is better. None where nothing can be said of a question: one rollout alone, or no prior that was read."""
    slope: float
    """Of the update on the prior in this batch, each prior instrumented by the question's other rollouts. NaN where not
    identified."""
    information: float
    """Mean of the information term, without its weight; NaN of nothing."""
    identified: float
    """Share of the rollouts whose reward has a martingale part. That of the others is 0."""


def martingale_rewards(
    question: Sequence[Hashable],
    prior: Sequence[float | None],
    posterior: Sequence[float | None],
    outcome: Sequence[float | None],
    *,
    weight: float = WEIGHT,
    information_weight: float = INFORMATION_WEIGHT,
) -> MartingaleRewards:
    r"""Reward each rollout j of a question q for what it adds to an honest slope, and for what it learned.

    $$r_{qj}=-w\,\hat\beta_{-q}\,\frac{\bar x_{q,-j}-\bar x_{-q}}{\hat v_{-q}}\,(y_{qj}-x_{qj})+w_I\,I_{qj}$$

    with priors x, posteriors y, and $\hat\beta_{-q}$, $\bar x_{-q}$ and $\hat v_{-q}$ the slope of the update on the
    prior, the mean and the variance of priors, all of the other questions. The first term is the policy gradient of
    $-\frac w2\beta^2$, and its mean is about $-w\beta^2$. No error of a prior meets
    itself: the update is held against the prior of the question's other rollouts, whose covariance is the variance.

    Where truth is known, $I=\overline{(x-o)^2}_{-j}-(y_{qj}-o)^2$, the fall of the Brier score: a proper score of the
    posterior. Where it is not, the lesser, over all other questions, of movement and of uncertainty reduction, both of
    what the question's rollouts have in common. Nobody can tell knowledge from confidence there: who goes to 0
    or 1 at random has the most of both. Use it beside questions whose truth is known.

    Args:
        question: For each rollout its question.
        prior: Beliefs before, in [0, 1]. None where unread: the mean of the question's others stands in.
        posterior: Beliefs after. None where unread: the rollout gets the least of the range.
        outcome: 1 or 0; None where unknown.
        weight: Of the slope, at least 0. Its term is held in [-weight, weight].
        information_weight: Of the information, above 0. Its term is held in [-information_weight, information_weight].

    Raises:
        BadInput: An information weight of 0 or below, or a weight that is no number from 0 up.
        ValueError: A belief outside [0, 1].
    """
    check_weights(weight, information_weight)
    codes = cluster_codes(question)
    before, after, truth = (_floats(held) for held in (prior, posterior, outcome))
    for name, values in (("prior", before), ("posterior", after)):
        if np.any((values < 0) | (values > 1)):
            raise ValueError(f"martingale_rewards: the {name} {values[(values < 0) | (values > 1)][0]:g} is no belief")
    x_others, y_others = _others(before, codes), _others(after, codes)
    slope = _Slope.of(before, after, codes)  # of what was read: a mean of others would bring their errors twice
    before = np.where(np.isfinite(before), before, x_others.mean)
    without = slope.without(codes)
    push = -without.estimate * (x_others.mean - without.centre) / without.variance * (after - before)
    identified = np.isfinite(push)
    part = np.clip(np.where(identified, push, 0.0), -MOST, MOST)
    gain = np.where(
        np.isnan(truth), _lesser(after, x_others, y_others, codes), _brier_gain(before, after, truth, codes)
    )
    total = weight * part + information_weight * np.clip(gain, -1, 1)
    known = np.isfinite(x_others.mean)
    rewards = np.where(np.isfinite(after), total, -(weight * MOST + information_weight))
    held = gain[np.isfinite(gain) & known]
    return MartingaleRewards(
        rewards=as_the_others(rewards.tolist(), (~known).tolist(), question),
        slope=float(slope.all().estimate[0]) if len(codes) else np.nan,
        information=float(held.mean()) if held.size else np.nan,
        identified=float(identified[known].mean()) if known.any() else 0.0,
    )


def check_weights(weight: object, information_weight: object) -> None:
    """Refuse weights with which the reward would teach something else.

    Raises:
        BadInput: An information weight that is not above 0, or a weight that is not 0 or above.
    """
    for name, value, least in (("weight", weight, "0 or above"), ("information_weight", information_weight, "above 0")):
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else np.nan
        if not np.isfinite(number) or number < 0 or (number == 0 and name != "weight"):
            why = "; with 0 the best that a model can do is never to change its mind" if number == 0 else ""
            raise bad_input(f"martingale: {name}={value!r} cannot be used; give a number {least}{why}")


@dataclass(frozen=True)
class _Others:
    """Of each rollout, what its question's other rollouts hold: NaN where there are none."""

    mean: Floats
    product: Floats
    """Mean product of two different ones; the square of a single one. The square of their mean, without its noise."""


def _others(values: Floats, codes: Codes) -> _Others:
    there = np.isfinite(values)
    held = np.where(there, values, 0.0)
    n, total, squares = (np.bincount(codes, weights=w)[codes] - w for w in (there.astype(float), held, held**2))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(n > 0, total / n, np.nan)
        return _Others(mean, np.where(n > 1, (total**2 - squares) / (n * (n - 1)), mean**2))


def _brier_gain(before: Floats, after: Floats, truth: Floats, codes: Codes) -> Floats:
    """Brier score of the prior in the question's other rollouts, less that of the posterior."""
    gain: Floats = _others((before - truth) ** 2, codes).mean - (after - truth) ** 2
    return gain


def _lesser(after: Floats, x: _Others, y: _Others, codes: Codes) -> Floats:
    """Movement or uncertainty reduction, whichever is less over the other questions.

    Each has the mean, and as a rollout's reward the gradient, of what it stands for: (E y - E x)², and the fall of
    m(1 - m) of the means m. Noise in a report would be paid for otherwise, since it adds to both.
    """
    mean = np.where(np.isfinite(y.mean), y.mean, after)
    product = np.where(np.isfinite(y.product), y.product, after**2)
    moved = 2 * after * (mean - x.mean) - product + x.product
    reduced = x.mean - x.product - after * (1 - 2 * mean) - product
    lesser: Floats = np.where(_others_sum(moved - reduced, codes) <= 0, moved, reduced)
    return lesser


def _others_sum(values: Floats, codes: Codes) -> Floats:
    """Sum over the rollouts of other questions."""
    held = np.where(np.isfinite(values), values, 0.0)
    rest: Floats = held.sum() - np.bincount(codes, weights=held)[codes]
    return rest


@dataclass(frozen=True)
class _Estimate:
    """A slope, and the prior's mean and variance between questions; NaN where not identified. One for each rollout."""

    estimate: Floats
    centre: Floats
    variance: Floats


@dataclass(frozen=True)
class _Slope:
    r"""Sums over questions, from which a slope is had with and without each of them.

    With a question's mean products of different rollouts, $c_q=\overline{x_{qi}d_{qj}}$ and
    $u_q=\overline{x_{qi}x_{qj}}$ with $i\ne j$, and its means, the covariance between questions is
    $\overline{c_q}-\overline{\bar x_q\bar d_{q'}}$ with $q\ne q'$, and the variance alike: free of the reports'
    noise. The same population value as `slopes.cross_epoch_slope`.
    """

    sums: Floats
    """Seven by questions: 1, mean prior, mean update, products x d and x x of means, c, u and mean square of x."""

    @classmethod
    def of(cls, before: Floats, after: Floats, codes: Codes) -> "_Slope":
        there = np.isfinite(before) & np.isfinite(after)
        q, x, d = codes[there], before[there], (after - before)[there]
        count = codes.max(initial=-1) + 1
        n, sx, sd, sxd, sxx = (
            np.bincount(q, weights=w, minlength=count) for w in (np.ones(q.size), x, d, x * d, x * x)
        )
        enough = n > 1
        n = np.where(enough, n, 2.0)
        pairs = n * (n - 1)
        mx, md = sx / n, sd / n
        rows = [np.ones(count), mx, md, mx * md, mx * mx, (sx * sd - sxd) / pairs, (sx * sx - sxx) / pairs, sxx / n]
        return cls(np.where(enough, np.stack(rows), 0.0))

    def all(self) -> _Estimate:
        return self._estimate(self.sums.sum(axis=1, keepdims=True))

    def without(self, codes: Codes) -> _Estimate:
        return self._estimate((self.sums.sum(axis=1, keepdims=True) - self.sums)[:, codes])

    def _estimate(self, sums: Floats) -> _Estimate:
        n, x, d, xd, xx, c, u, square = sums
        pairs = np.maximum(n * (n - 1), 1)
        n = np.maximum(n, 1)
        covariance = c / n - (x * d - xd) / pairs
        apart = (x * x - xx) / pairs
        variance, single = u / n - apart, square / n - apart
        held = (n + 1e-9 >= LEAST_QUESTIONS - 1) & (variance > np.maximum(LEAST_RELIABILITY * single, MADE_EQUAL))
        safe = np.where(held, variance, 1.0)
        return _Estimate(*(np.where(held, value, np.nan) for value in (covariance / safe, x / n, safe)))


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=float)
