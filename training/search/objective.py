"""What a search maximises: how well a rubric orders the best answers, with its interval over prompts.

Pure functions of arrays. The tail is chosen by the preference labels and never by the rubric's own scores, so that a
rubric cannot choose on which answers it is measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truthgym.scorers.statistics.interval import Estimate, mean_estimate

Array = NDArray[np.float64]
TIE = 1e-8
"""Scores that are closer than this are tied."""


@dataclass(frozen=True)
class Weights:
    """The constants of the objective."""

    tail_fraction: float = 0.25
    lambda_var: float = 0.2
    mu_diverse: float = 0.25
    prior: float = 8.0
    """Pairs that agree by chance, added to the pairs of each accuracy; 0 adds none."""


@dataclass(frozen=True)
class PromptScores:
    """A rubric's scores of the candidates of one prompt, with the labels."""

    scores: Array
    """One for each candidate; NaN if it has none."""
    variance: Array
    """Variance (n - 1) of a single vote's score; NaN with fewer than two votes."""
    preferred: Array
    """Candidates x candidates: 1 if the first is better, 0 if the second is, 0.5 for a tie, NaN if unknown."""
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Objective:
    """The objective of a rubric on some prompts, with its parts."""

    total: Estimate
    """With a 95 % interval over prompts; it is NaN with fewer than three prompts."""
    by_prompt: Array
    """The total of each prompt by itself; their mean is `total.estimate`."""
    tail_acc: float
    """Share of the pairs with an answer of the tail that are in the right order, 0 to 1, before the prior."""
    tail_var: float
    """Share of the variance of scores in the tail that is noise between votes, 0 to 1."""
    diverse_tail_acc: float
    recall: float
    """Share of the tail that is also the tail by the rubric's scores."""
    pairs: int
    diverse_pairs: int
    worth_of_a_pair: float
    """By how much the total rises if one pair more is in the right order. With a single prompt, which has no standard
    error, an improvement counts if it is larger."""


def win_shares(preferred: Array) -> Array:
    """Share of the comparisons that each candidate wins, ties counting half: the order of the labels."""
    others = np.where(np.eye(len(preferred), dtype=bool), np.nan, preferred)
    counts = np.isfinite(others).sum(axis=1)
    shares: Array = np.divide(np.nansum(others, axis=1), counts, out=np.full(len(others), 0.5), where=counts > 0)
    return shares


def tail_size(candidates: int, fraction: float) -> int:
    """Number of answers in the tail: the fraction of them, rounded up, but at least two."""
    return min(candidates, max(2, math.ceil(fraction * candidates - 1e-9)))


def true_tail(preferred: Array, fraction: float) -> NDArray[np.bool_]:
    """The best answers by the labels. All that tie with the last of them belong to the tail."""
    wins = win_shares(preferred)
    tail: NDArray[np.bool_] = wins >= np.sort(wins)[-tail_size(len(wins), fraction)] - TIE
    return tail


def pair_credits(prompt: PromptScores, fraction: float) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Of each ordered pair with an answer of the tail: credit, both in the tail, different sources."""
    tail, sources = true_tail(prompt.preferred, fraction), np.array(prompt.sources)
    i, j = np.triu_indices(len(tail), 1)
    label, gap = prompt.preferred[i, j], prompt.scores[i] - prompt.scores[j]
    credit = np.where(np.abs(gap) > TIE, (gap > 0) == (label > 0.5), 0.5)  # a missing score is a tie
    kept = (tail[i] | tail[j]) & np.isfinite(label) & (label != 0.5)
    return credit[kept], (tail[i] & tail[j])[kept], (sources[i] != sources[j])[kept]


def objective(prompts: Sequence[PromptScores], weights: Weights) -> Objective:
    r"""The objective of a rubric.

    $$s(\mathrm{TailAcc})-\lambda\,\mathrm{TailVar}+\mu\,s(\mathrm{DiverseTailAcc}),\qquad
    s(x)=\tfrac12+\frac{n}{n+\mathrm{prior}}(x-\tfrac12)$$

    TailAcc is the mean of two accuracies that weigh the same: of pairs within the tail, and of pairs of an answer of
    the tail with another one. TailVar is the variance between votes divided by the variance of all scores, so that a
    rubric that squeezes its scores gains nothing; it is 0 with one vote, and 1 if all scores are equal. A rubric that
    says nothing has (1 + mu) / 2 - lambda; an accuracy without pairs counts as one half.
    """
    credits = [pair_credits(prompt, weights.tail_fraction) for prompt in prompts]
    tail_acc = np.array([_mean([_mean(credit[inside]), _mean(credit[~inside])]) for credit, inside, _ in credits])
    diverse = np.array([_mean(credit[different]) for credit, _, different in credits])
    pairs = sum(len(credit) for credit, _, _ in credits)
    diverse_pairs = sum(int(different.sum()) for _, _, different in credits)
    noise = _noise(prompts, weights.tail_fraction)
    by_prompt = (
        _shrunk(tail_acc, pairs, weights.prior)
        - weights.lambda_var * noise
        + weights.mu_diverse * _shrunk(diverse, diverse_pairs, weights.prior)
    )
    recalls = [_recall(prompt, weights.tail_fraction) for prompt in prompts]
    return Objective(
        mean_estimate(by_prompt),
        by_prompt,
        _mean(tail_acc),
        float(noise.mean()),
        _mean(diverse),
        _mean(recalls),
        pairs,
        diverse_pairs,
        (1 + weights.mu_diverse) / max(pairs + weights.prior, 1.0),
    )


def rounded(value: float) -> float | None:
    """A number for a file, to six decimals; None for NaN, which JSON does not have."""
    return None if math.isnan(value) else round(value, 6)


def behavioural_distance(scores: Sequence[Array], others: Sequence[Array]) -> float:
    """Share of pairs of candidates that two rubrics order differently, 0 to 1. A tie against an order counts half."""
    total, count = 0.0, 0
    for a, b in zip(scores, others, strict=True):
        i, j = np.triu_indices(len(a), 1)
        signs = [np.where(np.abs(gap) <= TIE, 0, np.sign(gap)) for gap in (a[i] - a[j], b[i] - b[j])]
        apart = np.abs(np.nan_to_num(signs[0]) - np.nan_to_num(signs[1])) / 2
        total, count = total + float(apart.sum()), count + len(apart)
    return total / count if count else 0.0


def distinguished(prompt: PromptScores, votes: int, least: float) -> bool:
    """Whether a rubric scores the best two answers in the right order, by more than `least` and than its own noise."""
    wins = win_shares(prompt.preferred)
    best, second = np.argsort(-wins, kind="stable")[:2]
    if wins[best] - wins[second] <= TIE:
        return False
    noise = float(np.nansum(prompt.variance[[best, second]])) / votes
    margin = float(prompt.scores[best] - prompt.scores[second])
    return margin > max(least, 1.96 * math.sqrt(noise))


def _mean(values: Array | Sequence[float]) -> float:
    """The mean of the values that are not NaN."""
    known = np.asarray(values)[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan


def _shrunk(values: Array, pairs: int, prior: float) -> Array:
    share = pairs / (pairs + prior) if pairs else 0.0
    return 0.5 + share * np.where(np.isfinite(values), values - 0.5, 0.0)


def _noise(prompts: Sequence[PromptScores], fraction: float) -> Array:
    """Of each prompt, the variance between votes in the tail over the variance of all scores."""
    means = [float(np.nanvar(prompt.scores)) for prompt in prompts if np.isfinite(prompt.scores).any()]
    spread = _mean(means)
    if not spread > TIE**2:
        return np.ones(len(prompts))
    within = [prompt.variance[true_tail(prompt.preferred, fraction)] for prompt in prompts]
    noise = np.array([float(np.nanmean(values)) if np.isfinite(values).any() else 0.0 for values in within])
    return np.minimum(noise / (noise + spread), 1.0)


def _recall(prompt: PromptScores, fraction: float) -> float:
    tail = true_tail(prompt.preferred, fraction)
    scores = np.nan_to_num(prompt.scores, nan=-1.0)  # a missing score comes last
    n = int(tail.sum())
    above = np.sort(scores)[-n]
    sure = scores > above + TIE
    level = np.abs(scores - above) <= TIE
    share = (n - sure.sum()) / max(int((level & ~sure).sum()), 1)  # ties at the end share the places that are left
    return float((tail & sure).sum() + share * (tail & level & ~sure).sum()) / n
