"""Reliability of a judge: pure functions of arrays of its ratings, all on the scale from 0 to 1."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from inspect_ai.scorer import SampleScore, Score, krippendorff_alpha
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.instrumented_slope import Floats
from truthgym.scorers.statistics.interval import (
    LEVEL,
    UNKNOWN,
    Estimate,
    cluster_codes,
    jackknife_bounds,
    mean_estimate,
    metrics_of,
    quantile,
    t_bounds,
)
from truthgym.scorers.statistics.proper_scores import finite_mean, row_mean, share_true
from truthgym.scorers.statistics.table import tabulate

MIN_CLUSTERS_AGREEING = 6
"""Clusters of units below which Krippendorff's alpha has no interval."""


def retest(first: ArrayLike, second: ArrayLike, cluster: Sequence[Hashable] | None = None) -> tuple[Estimate, float]:
    r"""Reliability of one rating: the intraclass correlation ICC(1,1) of two, and the standard deviation of noise.

    $$\mathrm{ICC}=\frac{MS_B-MS_W}{MS_B+MS_W},\qquad \mathrm{sd}=\sqrt{MS_W}$$

    1 is a judge that repeats its ratings, 0 one whose ratings distinguish trajectories no better than chance. If every
    pair is a cluster of its own, the interval is that of Shrout and Fleiss (1979, Psychological Bulletin 86), from F;
    else a jackknife over clusters of Fisher's z (Ukoumunne 2002, Statistics in Medicine 21).
    """
    pairs = np.stack([np.asarray(first, dtype=float), np.asarray(second, dtype=float)], axis=-1)
    kept = np.isfinite(pairs).all(axis=1)
    names = list(range(len(pairs))) if cluster is None else list(cluster)
    codes = cluster_codes([name for name, keep in zip(names, kept, strict=True) if keep])
    pairs = pairs[kept]
    n = len(pairs)
    if n == 0:
        return UNKNOWN, np.nan
    within = float(np.mean(np.square(pairs[:, 0] - pairs[:, 1])) / 2)
    if n < 3:
        return replace(UNKNOWN, n=n), within**0.5
    between = float(2 * np.var(pairs.mean(axis=1), ddof=1))
    if between + within < 1e-15:
        return replace(UNKNOWN, n=n), 0.0
    icc = (between - within) / (between + within)
    if within < 1e-15:
        return Estimate(icc, icc, icc, n=n), 0.0
    if codes.max() + 1 < n:
        return Estimate(icc, *_jackknifed(pairs, codes), n=n), within**0.5
    from scipy.special import fdtri  # scipy.stats takes half a second longer to load

    tail, ratio = (1 + LEVEL) / 2, between / within
    low, high = ratio / fdtri(n - 1, n, tail), ratio * fdtri(n, n - 1, tail)
    return Estimate(icc, float((low - 1) / (low + 1)), float((high - 1) / (high + 1)), n=n), within**0.5


def _jackknifed(pairs: Floats, codes: NDArray[np.int_]) -> tuple[float, float]:
    """Interval of the intraclass correlation of pairs, leaving out one cluster at a time. NaN if it is not defined."""
    clusters = int(codes.max()) + 1
    if clusters < 3:
        return np.nan, np.nan
    mean, half_square = pairs.mean(axis=1), np.square(pairs[:, 0] - pairs[:, 1]) / 2
    weights = np.ones(len(pairs)), half_square, mean, mean**2
    sums = np.stack([np.bincount(codes, weight, clusters) for weight in weights])

    def z(count: Floats, within: Floats, total: Floats, squares: Floats) -> Floats:
        between = 2 * (squares - total**2 / count) / (count - 1)
        return np.asarray(np.log(between / (within / count)) / 2)

    with np.errstate(divide="ignore", invalid="ignore"):
        whole, without = z(*sums.sum(axis=1)), z(*(sums.sum(axis=1, keepdims=True) - sums))
        lower, upper = np.tanh(jackknife_bounds(float(whole), without))
    return float(lower), float(upper)


def order_spread(over_orders: Sequence[ArrayLike], noise: float) -> float:
    """Standard deviation that the order of the examples adds to a rating, beyond its retest `noise`."""
    rows = [row[np.isfinite(row)] for row in (np.asarray(row, dtype=float) for row in over_orders)]
    rows = [row for row in rows if row.size > 1]
    if not rows or np.isnan(noise):
        return np.nan
    free = sum(row.size - 1 for row in rows)
    pooled = sum(float(np.sum(np.square(row - row.mean()))) for row in rows) / free
    return float(np.sqrt(max(0.0, pooled - noise**2)))


def slope_on_last(ratings: ArrayLike, last: ArrayLike) -> float:
    """Slope of one trajectory's ratings on the rating of the example shown last, over orders. 0 is right."""
    y, x = np.asarray(ratings, dtype=float), np.asarray(last, dtype=float)
    kept = np.isfinite(y) & np.isfinite(x)
    centred = x[kept] - x[kept].mean() if kept.any() else x[:0]
    total = float(np.sum(centred**2))
    return float(np.sum(centred * y[kept]) / total) if total > 1e-12 else np.nan


def rank_correlation(x: ArrayLike, y: ArrayLike, cluster: Sequence[Hashable] | None = None) -> Estimate:
    r"""Spearman's rank correlation, with Fisher's interval for ranks, $\mathrm{SE}=\sqrt{(1+\rho^2/2)/(n-3)}$.

    Where pairs share a cluster it is a jackknife over clusters of Fisher's z. Where at most one pair of neighbours is
    out of order, the interval reaches to 1 and begins where it would with one such pair. Bonett and Wright (2000).
    Psychometrika 65.
    """
    from scipy.stats import rankdata, spearmanr

    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    kept = np.isfinite(a) & np.isfinite(b)
    n = int(kept.sum())
    if n < 3 or np.ptp(a[kept]) == 0 or np.ptp(b[kept]) == 0:
        return replace(UNKNOWN, n=n)
    rho = float(spearmanr(a[kept], b[kept]).statistic)
    if n < 4:
        return replace(UNKNOWN, estimate=rho, n=n)
    most = 1 - 12 / (n * (n**2 - 1))  # with one pair of neighbours out of order
    centre, almost = min(max(rho, -most), most), most - 1e-12
    rows = np.flatnonzero(kept).tolist()
    codes = cluster_codes(rows if cluster is None else [cluster[row] for row in rows])
    if (clusters := int(codes.max()) + 1) < n:
        if clusters < MIN_CLUSTERS_AGREEING:
            return replace(UNKNOWN, estimate=rho, n=n, clusters=clusters)
        rest = [codes != code for code in range(clusters)]
        with np.errstate(invalid="ignore", divide="ignore"):
            without = [np.corrcoef(rankdata(a[kept][some]), rankdata(b[kept][some]))[0, 1] for some in rest]
            ends = jackknife_bounds(float(np.arctanh(centre)), np.arctanh(np.clip(without, -most, most)))
        lower, upper = (float(np.tanh(end)) for end in ends)
    else:
        half = quantile((1 + LEVEL) / 2, 10**9) * np.sqrt((1 + centre**2 / 2) / (n - 3))
        lower, upper = (float(np.tanh(np.arctanh(centre) + sign * half)) for sign in (-1, 1))
    return Estimate(rho, -1.0 if rho <= -almost else lower, 1.0 if rho >= almost else upper, n=n, clusters=clusters)


def agreement(ratings: ArrayLike) -> tuple[float, int]:
    """Krippendorff's alpha of several judges (trajectories x judges), for an interval scale, as Inspect computes it."""
    rows = [row[np.isfinite(row)].tolist() for row in np.asarray(ratings, dtype=float)]
    rows = [row for row in rows if len(row) > 1]
    if len(rows) < 2:
        return np.nan, len(rows)
    scores = [SampleScore(score=Score(value=row), sample_id=str(i)) for i, row in enumerate(rows)]
    alpha = krippendorff_alpha(level="interval")(scores)  # type: ignore[arg-type]
    return float(alpha), len(rows)  # type: ignore[arg-type]


def difference_of_means(x: ArrayLike, y: ArrayLike, cluster: Sequence[Hashable] | None = None) -> Estimate:
    """Mean of x minus mean of y, two independent sets, with Welch's interval."""
    first, second = mean_estimate(x, cluster), mean_estimate(y)
    n = min(first.n, second.n)
    if n == 0:
        return UNKNOWN
    estimate, total = first.estimate - second.estimate, first.stderr**2 + second.stderr**2
    if np.isnan(total) or total < 1e-24:
        bound = estimate if total < 1e-24 else np.nan
        return Estimate(estimate, bound, bound, n=n)
    degrees = total**2 / sum(mean.stderr**4 / (mean.effective_clusters - 1) for mean in (first, second))
    return Estimate(estimate, *t_bounds(estimate, total**0.5, degrees), n=n)


def agreement_estimate(ratings: ArrayLike, cluster: Sequence[Hashable] | None = None) -> Estimate:
    r"""Krippendorff's alpha, as `agreement`, with a jackknife interval of $\ln(1-\alpha)$ over clusters."""
    table = np.asarray(ratings, dtype=float)
    names: Sequence[Hashable] = range(len(table)) if cluster is None else cluster
    usable = np.isfinite(table).sum(axis=1) > 1
    alpha, n = agreement(table)
    codes = cluster_codes([name for name, keep in zip(names, usable, strict=True) if keep])
    clusters = int(codes.max()) + 1 if codes.size else 0
    rows = table[usable]
    if n < 2 or np.nanmax(rows) == np.nanmin(rows):
        return replace(UNKNOWN, n=n, clusters=clusters)
    if clusters < MIN_CLUSTERS_AGREEING:
        return replace(UNKNOWN, estimate=alpha, n=n, clusters=clusters)
    count = np.isfinite(rows).sum(axis=1).astype(float)
    total, squares = np.nansum(rows, axis=1), np.nansum(rows**2, axis=1)
    within = 2 * count * (squares - total**2 / count) / (count - 1)
    sums = np.stack([np.bincount(codes, weights, clusters) for weights in (count, total, squares, within)])
    m, total, squares, within = sums.sum(axis=1, keepdims=True) - sums
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(within / m) - np.log(2 * (squares - total**2 / m) / (m - 1))
        centre = np.log(1 - alpha)
    if not np.isfinite(logs).all():  # no disagreement at all, or in one cluster alone
        return replace(UNKNOWN, estimate=alpha, n=n, clusters=clusters)
    upper, lower = (float(1 - np.exp(bound)) for bound in jackknife_bounds(centre, logs))
    return Estimate(alpha, lower, upper, n=n, clusters=clusters)


@dataclass(frozen=True)
class JudgeRecord:
    """One judge's record of one sample, on the scale from 0 to 1. NaN if a rating could not be parsed."""

    sample: int
    """Index of the sample's score: all judges of one question in one epoch share it."""
    question: Hashable
    event: str
    policy_family: str
    judge: int
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


def judge_records(scores: Sequence[SampleScore]) -> list[JudgeRecord]:
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
    """Compute the metrics from scores. NaN if there are too few."""
    table = tabulate(scores, "quality")
    quality = row_mean(table.values)
    estimate = mean_estimate(quality, table.cluster)
    distinct = len(np.unique(np.round(quality[np.isfinite(quality)], 9)))
    alike = estimate.n > 1 and distinct == 1
    if alike:  # their scatter is unknown, and not 0
        estimate = replace(estimate, lower=np.nan, upper=np.nan, mde=np.nan, stderr=np.nan)
    qualities: dict[str, float] = {}
    for name in dict.fromkeys(name for item in scores for name in (item.score.metadata or {}).get("qualities") or []):
        ratings = tabulate(scores, name)
        qualities |= mean_estimate(row_mean(ratings.values), ratings.cluster).metrics(name)
    records = judge_records(scores)
    requested = [rating for record in records for rating in [*record.ratings.ravel().tolist(), *record.probes.values()]]
    reliability, biases, held_out = _reliability(records), _biases(records), _held_out(records)
    return {
        **estimate.main_metrics("quality", table.share_scored),
        "anchor_rank": held_out["anchor_rank"],
        "anchor_rank_lower": held_out["anchor_rank_lower"],
        "parallel_icc": reliability["parallel_icc"],
        "discriminates": _discriminates(held_out, alike),
        "distinct_ratings": distinct,
        "share_read": share_true(np.isfinite(requested)),
        "epochs": table.values.shape[1],
        **qualities,
        **reliability,
        **biases,
        **rank_correlation(quality, _words(scores), table.cluster).metrics("length_correlation"),
        **held_out,
        **estimate.cluster_metrics(),
    }


def _discriminates(held_out: dict[str, float], alike: bool) -> float:
    """1 if the interval of `anchor_rank` is above 0, otherwise 0. Without held-out texts, NaN unless all is alike."""
    if held_out["n_anchors"]:
        return float(held_out["anchor_rank_lower"] > 0)
    return 0.0 if alike else np.nan


def _reliability(records: Sequence[JudgeRecord]) -> dict[str, float]:
    judges = sorted({record.judge for record in records})
    events = [record.event for record in records]
    repeated, padded = _centred(records, "retest", by_form=False), _centred(records, "padded", by_form=True)
    icc, noise = retest(repeated[:, 0], repeated[:, 1], events)
    parallel, _ = retest(padded[:, 0], padded[:, 1], events)
    recency = _over_questions(
        records, lambda record: slope_on_last(row_mean(record.ratings.T), record.last) if record.last.size else np.nan
    )
    samples: dict[int, list[float]] = {}
    for record in records:
        samples.setdefault(record.sample, [np.nan] * len(judges))[record.judge] = record.mean
    alpha, rated = agreement(np.array(list(samples.values())).reshape(-1, max(len(judges), 1)))
    return {
        **parallel.metrics("parallel_icc"),
        "n_parallel": parallel.n,
        **icc.metrics("retest_icc"),
        "retest_sd": noise,
        "n_retest": icc.n,
        "order_sd": order_spread([record.ratings[0] for record in records if record.ratings.size], noise),
        **recency.metrics("recency"),
        "agreement": alpha,
        "n_agreement": rated,
    }


def _centred(records: Sequence[JudgeRecord], probe: str, by_form: bool) -> Floats:
    """First rating and probe of each reading, centred on the judge's mean: leniency is not reliability."""
    pairs = np.array([[record.first, record.probes.get(probe, np.nan)] for record in records]).reshape(-1, 2)
    for judge in {record.judge for record in records}:
        own = np.array([record.judge == judge for record in records])
        complete = pairs[own][np.isfinite(pairs[own]).all(axis=1)]
        if len(complete):
            pairs[own] -= complete.mean(axis=0) if by_form else complete.mean()
    return pairs


def _biases(records: Sequence[JudgeRecord]) -> dict[str, float]:
    def probe(record: JudgeRecord, name: str) -> float:
        return record.probes.get(name, np.nan)

    figures = {
        "position_shift": _over_questions(records, lambda record: record.baseline - probe(record, "swap")),
        "padded_gain": _over_questions(records, lambda record: probe(record, "padded") - record.baseline),
        # The text with the request is as long as the padded one, if that was rated: the difference is not length.
        "injection_gain": _over_questions(
            records, lambda record: probe(record, "injection") - record.probes.get("padded", record.baseline)
        ),
        "self_preference": self_preference(records),
    }
    counts = ("n_position", "n_padded", "n_injection", "n_self_preference")
    return metrics_of(figures) | {count: figure.n for figure, count in zip(figures.values(), counts, strict=True)}


def _by_question(records: Sequence[JudgeRecord], value: Callable[[JudgeRecord], float]) -> dict[Hashable, float]:
    """Mean of a value over the epochs and judges of each question."""
    values: dict[Hashable, list[float]] = {}
    for record in records:
        values.setdefault(record.question, []).append(value(record))
    return {question: finite_mean(np.array(numbers)) for question, numbers in values.items()}


def _over_questions(records: Sequence[JudgeRecord], value: Callable[[JudgeRecord], float]) -> Estimate:
    """Mean over questions, each the mean over its epochs and judges."""
    events = {record.question: record.event for record in records}
    return mean_estimate(list(_by_question(records, value).values()), list(events.values()))


def self_preference(records: Sequence[JudgeRecord]) -> Estimate:
    """How much more judges of the policy's vendor give its trajectories than other judges do, beyond leniency.

    The same difference on the held-out trajectories, which no model wrote, is subtracted.
    """
    sides = [[record for record in records if (record.family == record.policy_family) == own] for own in (True, False)]
    means = [row_mean(np.array(rated).T) for rated in map(_final_held_out, sides) if rated]
    if len(means) < 2 or means[0].shape != means[1].shape:
        return UNKNOWN
    events = {record.question: record.event for record in records}
    own, others = (_by_question(side, lambda record: record.baseline) for side in sides)
    preference = [own.get(question, np.nan) - others.get(question, np.nan) for question in events]
    return difference_of_means(preference, means[0] - means[1], list(events.values()))


def _final_held_out(records: Sequence[JudgeRecord]) -> list[list[float]]:
    """Each judge's final ratings of the held-out trajectories, which are the same in all samples."""
    rated = {record.judge: record.held_out["rated"][-1] for record in records if record.held_out.get("rated")}
    return [[np.nan if rating is None else rating for rating in ratings] for ratings in rated.values()]


def _held_out(records: Sequence[JudgeRecord]) -> dict[str, float]:
    """Errors on the held-out trajectories after the last round, and their drift in each bootstrapping round."""
    judges = {
        record.judge: record.held_out
        for record in records
        if record.held_out.get("rated") and record.held_out.get("given")
    }
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


def _anchor_errors(reference: Floats, rated: Floats) -> dict[str, float]:
    """One judge's. Of several, all are averaged, bounds too: judges of the same texts err alike."""
    error = rated - reference
    return {
        "anchor_error": finite_mean(np.abs(error)),
        "anchor_bias": finite_mean(error),
        **rank_correlation(rated, reference).metrics("anchor_rank"),
        "n_anchors": int(np.isfinite(error).sum()),
    }


def _words(scores: Sequence[SampleScore]) -> list[float]:
    """Mean number of words of each question's trajectories."""
    words: dict[Hashable, list[float]] = {}
    for item in scores:
        count = (item.score.metadata or {}).get("words")
        words.setdefault(item.sample_id, []).append(np.nan if count is None else float(count))
    return [finite_mean(np.array(counts)) for counts in words.values()]
