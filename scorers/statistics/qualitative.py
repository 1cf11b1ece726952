"""From the scores of `qualitative` to its figures: the quality, and how far the judge can be relied on."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from inspect_ai.scorer import SampleScore
from numpy.typing import NDArray

from truthgym.scorers.statistics.interval import Headline, mean_headline
from truthgym.scorers.statistics.judge_reliability import (
    NOTHING,
    Figure,
    agreement,
    difference_of_means,
    order_spread,
    rank_correlation,
    retest,
    slope_on_last,
)
from truthgym.scorers.statistics.proper_scores import finite_mean, row_mean
from truthgym.scorers.statistics.table import tabulate

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reading:
    """What one judge said of one sample, on the scale from 0 to 1. NaN where it could not be read."""

    sample: int
    """Place of the sample's score: all judges of one question in one epoch share it."""
    question: Hashable
    event: str
    policy_family: str
    judge: int
    """Its place among the judges."""
    family: str
    ratings: Floats
    """Rounds x orders."""
    last: Floats
    """Mean rating of the example shown last, by order."""
    probes: dict[str, float]
    held_out: dict[str, Any]

    @property
    def mean(self) -> float:
        """Its rating: the mean over orders and rounds."""
        return finite_mean(self.ratings.ravel())

    @property
    def first(self) -> float:
        """The rating in the first order, which the probes share."""
        return float(self.ratings[0, 0]) if self.ratings.size else np.nan


def readings(scores: Sequence[SampleScore]) -> list[Reading]:
    """All that judges said, one reading a sample and judge. What is not in shape is passed over."""
    found = []
    for sample, item in enumerate(scores):
        metadata = item.score.metadata or {}
        for place, said in enumerate(metadata.get("judges") or []):
            rows = [[_rating(numbers) for numbers in row] for row in said.get("ratings") or []]
            width = max((len(row) for row in rows), default=0)
            ratings = np.full((len(rows), width), np.nan)
            for i, row in enumerate(rows):
                ratings[i, : len(row)] = row
            found.append(
                Reading(
                    sample=sample,
                    question=item.sample_id,
                    event=str(metadata.get("event", item.sample_id)),
                    policy_family=str(metadata.get("policy_family")),
                    judge=place,
                    family=str(said.get("family")),
                    ratings=ratings,
                    last=np.array(said.get("last") or [], dtype=float),
                    probes={name: _rating(numbers) for name, numbers in (said.get("probes") or {}).items()},
                    held_out=said.get("held_out") or {},
                )
            )
    return found


def _rating(numbers: object) -> float:
    return float(np.mean(numbers)) / 100 if isinstance(numbers, list) and numbers else np.nan


def summarise(scores: list[SampleScore]) -> dict[str, float]:
    """Compute the paradigm's figures from scores. NaN where too few are there."""
    table = tabulate(scores, "quality")
    quality = row_mean(table.values)
    headline = mean_headline(quality, table.cluster)
    named = list(dict.fromkeys(name for item in scores for name in (item.score.metadata or {}).get("qualities") or []))
    each: dict[str, float] = {}
    for name in named:
        held = tabulate(scores, name)
        each |= mean_headline(row_mean(held.values), held.cluster).metrics(name)
    read = readings(scores)
    asked = [rating for one in read for rating in [*one.ratings.ravel().tolist(), *one.probes.values()]]
    return {
        **headline.metrics("quality"),
        "mde": headline.mde,
        "n": headline.n,
        "epochs": table.values.shape[1],
        "share_scored": table.share_scored,
        "share_read": float(np.mean(np.isfinite(asked))) if asked else np.nan,
        **each,
        **_reliability(read),
        **_biases(read, table.question, quality, _words(scores)),
        **_held_out(read),
    }


def _reliability(read: Sequence[Reading]) -> dict[str, float]:
    judges = sorted({one.judge for one in read})
    pairs = np.array([[one.first, one.probes.get("retest", np.nan)] for one in read]).reshape(-1, 2)
    for judge in judges:
        # Each judge's ratings about its own mean: that judges differ in leniency is no reliability.
        its = np.array([one.judge == judge for one in read])
        pairs[its] -= finite_mean(pairs[its][np.isfinite(pairs[its]).all(axis=1)].ravel())
    icc, noise = retest(pairs[:, 0], pairs[:, 1], [one.event for one in read])
    recency = _over_questions(read, lambda one: slope_on_last(_over_rounds(one), one.last) if one.last.size else np.nan)
    samples: dict[int, list[float]] = {}
    for one in read:
        samples.setdefault(one.sample, [np.nan] * len(judges))[one.judge] = one.mean
    alpha, rated = agreement(np.array(list(samples.values())).reshape(-1, max(len(judges), 1)))
    return {
        **icc.metrics("retest_icc"),
        "retest_sd": noise,
        "n_retest": icc.n,
        "order_sd": order_spread([one.ratings[0] for one in read if one.ratings.size], noise),
        **recency.metrics("recency"),
        "agreement": alpha,
        "n_agreement": rated,
    }


def _over_rounds(one: Reading) -> Floats:
    return row_mean(one.ratings.T)


def _biases(
    read: Sequence[Reading], questions: Sequence[str], quality: Floats, words: dict[str, float]
) -> dict[str, float]:
    def gain(name: str, sign: float = 1.0) -> Headline:
        return _over_questions(read, lambda one: sign * (one.probes.get(name, np.nan) - _unprobed(one)))

    def asked_for(one: Reading) -> float:
        # The request stands in a text as long as the padded one, where there is one: what it gains is not length.
        return one.probes.get("injection", np.nan) - one.probes.get("padded", _unprobed(one))

    position, padded, injected = gain("swap", -1), gain("padded"), _over_questions(read, asked_for)
    length = rank_correlation(quality, [words.get(name, np.nan) for name in questions])
    own = self_preference(read)
    return {
        **position.metrics("position_shift"),
        "n_position": position.n,
        **padded.metrics("padded_gain"),
        "n_padded": padded.n,
        **injected.metrics("injection_gain"),
        "n_injection": injected.n,
        **own.metrics("self_preference"),
        "n_self_preference": own.n,
        **length.metrics("length_correlation"),
    }


def _unprobed(one: Reading) -> float:
    """The rating that a probe is compared with: in the first order, as often as it was asked for."""
    return finite_mean(np.array([one.first, one.probes.get("retest", np.nan)]))


def _over_questions(read: Sequence[Reading], value: Callable[[Reading], float]) -> Headline:
    """Mean over questions, each the mean over its epochs and judges."""
    held: dict[Hashable, list[float]] = {}
    events: dict[Hashable, str] = {}
    for one in read:
        held.setdefault(one.question, []).append(value(one))
        events[one.question] = one.event
    return mean_headline([finite_mean(np.array(values)) for values in held.values()], list(events.values()))


def self_preference(read: Sequence[Reading]) -> Figure:
    """How much more judges of the policy's family give its trajectories than other judges do, beyond leniency.

    The same difference on the held-out trajectories, which nobody's model wrote, is taken off: a judge that is lenient
    to all has none. Both are rated in the first order of the examples, so that what stands last does not count. NaN
    where all judges are of one family, or none is of the policy's.
    """
    own = [one for one in read if one.family == one.policy_family]
    others = [one for one in read if one.family != one.policy_family]
    if not own or not others:
        return NOTHING
    by_question: dict[Hashable, tuple[list[float], list[float]]] = {}
    events: dict[Hashable, str] = {}
    for one in read:
        by_question.setdefault(one.question, ([], []))[one.family != one.policy_family].append(_unprobed(one))
        events[one.question] = one.event
    liked = [finite_mean(np.array(mine)) - finite_mean(np.array(theirs)) for mine, theirs in by_question.values()]
    looks = [_last_looks(side) for side in (own, others)]
    means = [row_mean(np.array(look).T) for look in looks if look]
    if len(means) < 2 or means[0].shape != means[1].shape:
        return NOTHING
    return difference_of_means(liked, means[0] - means[1], list(events.values()))


def _last_looks(read: Sequence[Reading]) -> list[list[float]]:
    """Each judge's last ratings of what is held out: the same in all samples."""
    looks = {one.judge: one.held_out["rated"][-1] for one in read if one.held_out.get("rated")}
    return [[np.nan if value is None else value for value in look] for look in looks.values()]


def _held_out(read: Sequence[Reading]) -> dict[str, float]:
    judges = {one.judge: one.held_out for one in read if one.held_out.get("rated") and one.held_out.get("given")}
    names = ("anchor_error", "anchor_bias", "anchor_rank", "n_anchors")
    if not judges:
        return dict.fromkeys(names[:3], np.nan) | {"n_anchors": 0}
    looks: list[list[dict[str, float]]] = []
    for held in judges.values():
        given = np.array(held["given"], dtype=float)
        looks.append([_look(given, np.array(rated, dtype=float)) for rated in held["rated"]])
    last = [look[-1] for look in looks]
    found = {name: finite_mean(np.array([look[name] for look in last])) for name in names[:3]}
    found["n_anchors"] = sum(look["n_anchors"] for look in last)
    for number, rounds in enumerate(list(zip_longest(*looks))[1:], start=1):
        pairs = [(look[0], now) for look, now in zip(looks, rounds, strict=True) if now]
        for name, key in (("drift_round", "anchor_bias"), ("drift_error_round", "anchor_error")):
            found[f"{name}_{number}"] = finite_mean(np.array([now[key] - before[key] for before, now in pairs]))
    return found


def _look(given: Floats, rated: Floats) -> dict[str, float]:
    error = rated - given
    return {
        "anchor_error": finite_mean(np.abs(error)),
        "anchor_bias": finite_mean(error),
        "anchor_rank": rank_correlation(rated, given).estimate,
        "n_anchors": int(np.isfinite(error).sum()),
    }


def _words(scores: Sequence[SampleScore]) -> dict[str, float]:
    """Mean number of words of each question's trajectories."""
    held: dict[str, list[float]] = {}
    for item in scores:
        words = (item.score.metadata or {}).get("words")
        held.setdefault(str(item.sample_id), []).append(np.nan if words is None else float(words))
    return {name: finite_mean(np.array(values)) for name, values in held.items()}
