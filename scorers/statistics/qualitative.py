"""The metrics of `qualitative`, from its scores: the quality, and how reliable the judge is."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from inspect_ai.scorer import SampleScore

from truthgym.scorers.statistics.instrumented_slope import Floats
from truthgym.scorers.statistics.interval import UNKNOWN, Estimate, mean_estimate
from truthgym.scorers.statistics.judge_reliability import (
    agreement,
    difference_of_means,
    order_spread,
    rank_correlation,
    retest,
    slope_on_last,
)
from truthgym.scorers.statistics.proper_scores import finite_mean, row_mean
from truthgym.scorers.statistics.table import tabulate


@dataclass(frozen=True)
class JudgeRecord:
    """One judge's record of one sample, on the scale from 0 to 1. NaN if a rating could not be parsed."""

    sample: int
    """Index of the sample's score: all judges of one question in one epoch share it."""
    question: Hashable
    event: str
    policy_family: str
    judge: int
    """Index of the judge."""
    family: str
    ratings: Floats
    """Rounds x orders."""
    last: Floats
    """Mean rating of the example shown last, by order."""
    probes: dict[str, float]
    held_out: dict[str, Any]

    @property
    def mean(self) -> float:
        """Mean rating over orders and rounds."""
        return finite_mean(self.ratings.ravel())

    @property
    def first(self) -> float:
        """The rating in the first order, which the probes use too."""
        return float(self.ratings[0, 0]) if self.ratings.size else np.nan

    @property
    def baseline(self) -> float:
        """The rating that a probe is compared with: the mean of the first rating and its retest."""
        return finite_mean(np.array([self.first, self.probes.get("retest", np.nan)]))


def readings(scores: Sequence[SampleScore]) -> list[JudgeRecord]:
    """The records of all judges, one per sample and judge."""
    return [
        JudgeRecord(
            sample=sample,
            question=item.sample_id,
            event=str(metadata.get("event", item.sample_id)),
            policy_family=str(metadata.get("policy_family")),
            judge=judge,
            family=str(record.get("family")),
            ratings=_padded([[_rating(numbers) for numbers in row] for row in record.get("ratings") or []]),
            last=np.array(record.get("last") or [], dtype=float),
            probes={name: _rating(numbers) for name, numbers in (record.get("probes") or {}).items()},
            held_out=record.get("held_out") or {},
        )
        for sample, item in enumerate(scores)
        for metadata in [item.score.metadata or {}]
        for judge, record in enumerate(metadata.get("judges") or [])
    ]


def _rating(numbers: list[int] | None) -> float:
    return float(np.mean(numbers)) / 100 if numbers else np.nan


def _padded(rows: Sequence[Sequence[float]]) -> Floats:
    """Rows of different lengths as an array, filled with NaN."""
    return np.array(list(zip_longest(*rows, fillvalue=np.nan)), dtype=float).T.reshape(len(rows), -1)


def summarise(scores: list[SampleScore]) -> dict[str, float]:
    """Compute the paradigm's metrics from scores. NaN if there are too few."""
    table = tabulate(scores, "quality")
    quality = row_mean(table.values)
    headline = mean_estimate(quality, table.cluster)
    distinct = len(np.unique(np.round(quality[np.isfinite(quality)], 9)))
    alike = headline.n > 1 and distinct == 1
    if alike:  # their scatter is unknown, and not 0
        headline = replace(headline, lower=np.nan, upper=np.nan, mde=np.nan, stderr=np.nan)
    qualities: dict[str, float] = {}
    for name in dict.fromkeys(name for item in scores for name in (item.score.metadata or {}).get("qualities") or []):
        ratings = tabulate(scores, name)
        qualities |= mean_estimate(row_mean(ratings.values), ratings.cluster).metrics(name)
    read = readings(scores)
    requested = [rating for one in read for rating in [*one.ratings.ravel().tolist(), *one.probes.values()]]
    reliability, biases, held_out = _reliability(read), _biases(read), _held_out(read)
    return {
        **headline.headline("quality", table.share_scored),
        "anchor_rank": held_out["anchor_rank"],
        "anchor_rank_lower": held_out["anchor_rank_lower"],
        "parallel_icc": reliability["parallel_icc"],
        "discriminates": _discriminates(held_out, alike),
        "distinct_ratings": distinct,
        "share_read": float(np.mean(np.isfinite(requested))) if requested else np.nan,
        "epochs": table.values.shape[1],
        **qualities,
        **reliability,
        **biases,
        **rank_correlation(quality, _words(scores)).metrics("length_correlation"),
        **held_out,
        **headline.cluster_metrics(),
    }


def _discriminates(held_out: dict[str, float], alike: bool) -> float:
    """1 if the interval of `anchor_rank` is above 0, otherwise 0. Without held-out texts, NaN unless all is alike."""
    if held_out["n_anchors"]:
        return float(held_out["anchor_rank_lower"] > 0)
    return 0.0 if alike else np.nan


def _reliability(read: Sequence[JudgeRecord]) -> dict[str, float]:
    judges = sorted({one.judge for one in read})
    events = [one.event for one in read]
    repeated, padded = _centred(read, "retest", by_form=False), _centred(read, "padded", by_form=True)
    icc, noise = retest(repeated[:, 0], repeated[:, 1], events)
    parallel, _ = retest(padded[:, 0], padded[:, 1], events)
    recency = _over_questions(
        read, lambda one: slope_on_last(row_mean(one.ratings.T), one.last) if one.last.size else np.nan
    )
    samples: dict[int, list[float]] = {}
    for one in read:
        samples.setdefault(one.sample, [np.nan] * len(judges))[one.judge] = one.mean
    alpha, rated = agreement(np.array(list(samples.values())).reshape(-1, max(len(judges), 1)))
    return {
        **parallel.metrics("parallel_icc"),
        "n_parallel": parallel.n,
        **icc.metrics("retest_icc"),
        "retest_sd": noise,
        "n_retest": icc.n,
        "order_sd": order_spread([one.ratings[0] for one in read if one.ratings.size], noise),
        **recency.metrics("recency"),
        "agreement": alpha,
        "n_agreement": rated,
    }


def _centred(read: Sequence[JudgeRecord], probe: str, by_form: bool) -> Floats:
    """First rating and probe of each reading, centred on the judge's mean: leniency is not reliability.

    Args:
        read: The readings.
        probe: Name of the probe.
        by_form: Whether to centre both forms by themselves, so that a gain of all texts is not unreliability.
    """
    pairs = np.array([[one.first, one.probes.get(probe, np.nan)] for one in read]).reshape(-1, 2)
    for judge in {one.judge for one in read}:
        own = np.array([one.judge == judge for one in read])
        complete = pairs[own][np.isfinite(pairs[own]).all(axis=1)]
        if len(complete):
            pairs[own] -= complete.mean(axis=0) if by_form else complete.mean()
    return pairs


def _biases(read: Sequence[JudgeRecord]) -> dict[str, float]:
    def probe(one: JudgeRecord, name: str) -> float:
        return one.probes.get(name, np.nan)

    figures = {
        "position_shift": _over_questions(read, lambda one: one.baseline - probe(one, "swap")),
        "padded_gain": _over_questions(read, lambda one: probe(one, "padded") - one.baseline),
        # The text with the request is as long as the padded one, if that was rated: the difference is not length.
        "injection_gain": _over_questions(
            read, lambda one: probe(one, "injection") - one.probes.get("padded", one.baseline)
        ),
        "self_preference": self_preference(read),
    }
    counts = ("n_position", "n_padded", "n_injection", "n_self_preference")
    metrics: dict[str, float] = {}
    for (name, figure), count in zip(figures.items(), counts, strict=True):
        metrics |= figure.metrics(name) | {count: figure.n}
    return metrics


def _by_question(read: Sequence[JudgeRecord], value: Callable[[JudgeRecord], float]) -> dict[Hashable, float]:
    """Mean of a value over the epochs and judges of each question."""
    values: dict[Hashable, list[float]] = {}
    for one in read:
        values.setdefault(one.question, []).append(value(one))
    return {question: finite_mean(np.array(numbers)) for question, numbers in values.items()}


def _over_questions(read: Sequence[JudgeRecord], value: Callable[[JudgeRecord], float]) -> Estimate:
    """Mean over questions, each the mean over its epochs and judges."""
    events = {one.question: one.event for one in read}
    return mean_estimate(list(_by_question(read, value).values()), list(events.values()))


def self_preference(read: Sequence[JudgeRecord]) -> Estimate:
    """How much more judges of the policy's vendor give its trajectories than other judges do, beyond leniency.

    The same difference on the held-out trajectories, which no model wrote, is subtracted: a judge that is lenient to
    all has no self-preference. Both are rated in the first order of the examples, so that the example shown last has no
    influence. NaN if all judges are of one vendor, or none is of the policy's.
    """
    sides = [[one for one in read if (one.family == one.policy_family) == own] for own in (True, False)]
    means = [row_mean(np.array(rated).T) for rated in map(_final_held_out, sides) if rated]
    if len(means) < 2 or means[0].shape != means[1].shape:
        return UNKNOWN
    events = {one.question: one.event for one in read}
    own, others = (_by_question(side, lambda one: one.baseline) for side in sides)
    preference = [own.get(question, np.nan) - others.get(question, np.nan) for question in events]
    return difference_of_means(preference, means[0] - means[1], list(events.values()))


def _final_held_out(read: Sequence[JudgeRecord]) -> list[list[float]]:
    """Each judge's final ratings of the held-out trajectories, which are the same in all samples."""
    rated = {one.judge: one.held_out["rated"][-1] for one in read if one.held_out.get("rated")}
    return [[np.nan if rating is None else rating for rating in ratings] for ratings in rated.values()]


def _held_out(read: Sequence[JudgeRecord]) -> dict[str, float]:
    """Errors on the held-out trajectories after the last round, and their drift in each bootstrapping round."""
    judges = {one.judge: one.held_out for one in read if one.held_out.get("rated") and one.held_out.get("given")}
    rounds = [
        [_anchor_errors(np.array(record["given"]), np.array(rated, dtype=float)) for rated in record["rated"]]
        for record in judges.values()
    ]
    figures = {
        name: finite_mean(np.array([of_judge[-1][name] for of_judge in rounds]))
        for name in ("anchor_error", "anchor_bias", "anchor_rank", "anchor_rank_lower", "anchor_rank_upper")
    }
    figures["n_anchors"] = sum(of_judge[-1]["n_anchors"] for of_judge in rounds)
    first = [of_judge[0] for of_judge in rounds]
    for number, later in enumerate(list(zip_longest(*rounds))[1:], start=1):
        for name, key in (("drift_round", "anchor_bias"), ("drift_error_round", "anchor_error")):
            changes = [now[key] - before[key] for before, now in zip(first, later, strict=True) if now]
            figures[f"{name}_{number}"] = finite_mean(np.array(changes))
    return figures


def _anchor_errors(given: Floats, rated: Floats) -> dict[str, float]:
    """One judge's. Of several, all are averaged, bounds too: judges of the same texts err alike."""
    error = rated - given
    return {
        "anchor_error": finite_mean(np.abs(error)),
        "anchor_bias": finite_mean(error),
        **rank_correlation(rated, given).metrics("anchor_rank"),
        "n_anchors": int(np.isfinite(error).sum()),
    }


def _words(scores: Sequence[SampleScore]) -> list[float]:
    """Mean number of words of each question's trajectories."""
    words: dict[Hashable, list[float]] = {}
    for item in scores:
        count = (item.score.metadata or {}).get("words")
        words.setdefault(item.sample_id, []).append(np.nan if count is None else float(count))
    return [finite_mean(np.array(counts)) for counts in words.values()]
