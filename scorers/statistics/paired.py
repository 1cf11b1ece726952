"""The difference between two models that answered the same questions."""

import json
import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truthgym.scorers.statistics.direction import Best, direction, fault_of, numbers, span
from truthgym.scorers.statistics.instrumented_slope import Slope
from truthgym.scorers.statistics.interval import (
    MIN_CLUSTERS,
    ROUNDING_ERROR,
    Estimate,
    cluster_codes,
    mean_estimate,
    t_estimate,
    turned,
)
from truthgym.scorers.statistics.proper_scores import OTHER

if TYPE_CHECKING:
    from truthgym.evallog.schema import LoggedScore, Outcome

FEW_EVENTS = "fewer than three independent events"
LEAST_SHARE_READ = 0.9
"""The least share of answers with a score, without repairs, at which a run is compared with others."""
MOST_APART = 0.05
"""The largest difference of these shares between two runs that are compared."""
FORECASTS = ("brier", "sycophantic_reasoning")
"""Scorers whose proper scores are of a belief about an outcome that is the same for every model."""
ROUNDED = 1e-4
"""How far the rounding of a score may carry it beyond its bounds."""
ONE_SEED = "one trained model cannot tell its recipe from its seed"
Question = TypeVar("Question", bound=Hashable)
Seeds = Mapping[Question, Sequence[float]] | Sequence[Mapping[Question, Sequence[float]]]
"""One model's numbers by question, or those of several models, which a recipe trained with different seeds."""


@dataclass(frozen=True)
class Comparison:
    """A figure of two models, and its difference."""

    before: float
    after: float
    difference: Estimate
    reason: str = ""
    """Why the difference has no interval. "" if it has one."""
    n_before: int = 0
    """The questions that the first model has a number for."""
    n_after: int = 0
    reach: float = math.inf
    """The greatest possible difference."""

    def row(self, read: bool = True) -> dict[str, float]:
        """The columns of a table. `lower`, `upper` and `mde` are NaN unless enough answers could be `read`."""
        difference = self.difference
        bounds = {"lower": difference.lower, "upper": difference.upper, "mde": difference.mde}
        values = {"before": self.before, "after": self.after, "difference": difference.estimate}
        numbers = {"n_before": self.n_before, "n_after": self.n_after, "n": difference.n}
        return values | (bounds if read else dict.fromkeys(bounds, math.nan)) | numbers


@dataclass
class RunValues:
    """The numbers of one run by question, so that two runs can be compared on the questions of both."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By SCORER/KEY and by question, one number per epoch. NaN: an answer that could not be parsed."""
    events: dict[str, str] = field(default_factory=dict)
    """What resolves together with each question: its cluster."""
    splits: dict[str, str] = field(default_factory=dict)
    """The split of each question; "?" if it has none."""
    best: dict[str, Best | None] = field(default_factory=dict)
    """Which end of a number is better; None if nothing declares it."""
    spans: dict[str, tuple[float, float] | None] = field(default_factory=dict)
    """The least and the greatest possible number; None if it has no ends."""
    asked: dict[str, str] = field(default_factory=dict)
    """The digest of each question's input, see `Outcome.asked`; numbers of other questions are not compared."""
    repaired: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By scorer and question, the epochs whose belief could be read only after the model was asked again."""

    @classmethod
    def of_samples(cls, samples: "Iterable[Outcome]") -> "RunValues":
        """Collect all numbers of a log's samples, see `LogReader.outcomes`. A sample that failed has NaN for each."""
        run, failed = cls(), list[str]()
        for sample in samples:
            values: dict[str, float] = {}
            question, facts = str(sample.id), sample.facts
            for scorer, score in (sample.scores or {}).items():
                for key, number in _with_unread(scorer, score).items():
                    name = f"{scorer}/{key}"
                    values[name] = number
                    if name not in run.best:
                        run.best[name] = direction(scorer, key, score.details)
                        run.spans[name] = span(scorer, key, score.details)
                run.repaired[scorer, question] += score.repaired
            run.asked[question] = sample.asked
            failed += [question] * bool(sample.error and not sample.scores)
            split = facts.split if facts else json.loads(bytes(sample.metadata)).get("split", "?")
            run.add(question, values, facts.event if facts else question, str(split))
        for name, question in product(run.best, failed):
            run.values[name].setdefault(question, []).append(math.nan)
        return run

    def add(self, question: str, values: Mapping[str, float], event: str, split: str = "?") -> None:
        """Add the numbers of one epoch of a question."""
        self.events[question], self.splits[question] = event, split
        for name, value in values.items():
            self.values.setdefault(name, {}).setdefault(question, []).append(value)

    def among(self, questions: Collection[str]) -> "RunValues":
        """The part about some questions. What has no number there is left out."""
        parts = {name: {q: values[q] for q in values if q in questions} for name, values in self.values.items()}
        return replace(self, values={name: part for name, part in parts.items() if part})

    def mean(self, name: str) -> Estimate:
        """The mean of a number over questions, clustered by event; its `n` is 0 if there is none."""
        means = {question: mean(values) for question, values in self.values.get(name, {}).items()}
        return mean_estimate(list(means.values()), [self.events[question] for question in means])

    def change(self, before: "RunValues", name: str) -> Comparison:
        """Compare a number with that of an earlier run, see `compare_means`."""
        scorer, _, key = name.rpartition("/")
        bounds = self.spans.get(name, span(scorer, key, {}))
        second, first = (run.values.get(name, {}) for run in (self, before))
        both = {q for q in second.keys() & first.keys() if self.asked.get(q) == before.asked.get(q)}
        second = {question: values for question, values in second.items() if question in both}
        read = self.share_read(name, both), before.share_read(name, both)
        return compare_means(second, first, self.events, bounds, name, read)

    def share_read(self, name: str, questions: Collection[str]) -> float:
        """The share of the answers to some questions that have a number without a repair. NaN without answers."""
        asked = {question: values for question, values in self.values.get(name, {}).items() if question in questions}
        repaired = sum(self.repaired[name.rpartition("/")[0], question] for question in asked)
        number = sum(map(len, asked.values()))
        return (number * share_of(asked.values()) - repaired) / number if number else math.nan


def paired_difference(
    after: ArrayLike,
    before: ArrayLike,
    cluster: Sequence[Hashable] | None = None,
    bounds: tuple[float, float] | None = None,
    others: tuple[ArrayLike, ArrayLike] | None = None,
) -> Estimate:
    """Mean of `after` minus `before` over questions, with a cluster-robust 95 % interval.

    Pairing by question removes the variance between questions. Where few questions ended against the forecasts, the
    interval allows for one more that does (see `mean_estimate`). `bounds` is the range of a difference; without it,
    pairs that are all equal have no interval. `others` are both values if each question had ended otherwise.

    >>> round(paired_difference([0.1, 0.2, float("nan")], [0.2, 0.1, 0.3]).estimate, 6)
    0.0
    """
    first, second = (np.asarray(values, dtype=float).ravel() for values in (after, before))
    if first.size != second.size:
        raise ValueError(f"paired_difference: {first.size} values after and {second.size} before; give pairs")
    both = np.concatenate([first, second])
    read = np.isfinite(both)
    if others is None and bounds and read.any() and both[read].min() >= 0 and both[read].max() <= bounds[1] < np.inf:
        both[read] = turned(both[read], (0.0, bounds[1]))
        others = both[: first.size], both[first.size :]
    if others is None:
        difference = mean_estimate(first - second, cluster, bounds)
    else:
        one, two = (np.asarray(values, dtype=float).ravel() for values in others)
        difference = mean_estimate(first - second, cluster, bounds, one - two, first + second > one + two)
    if difference.stderr == difference.estimate == 0 and not bounds:
        return replace(difference, lower=np.nan, upper=np.nan, mde=np.nan, stderr=np.nan)
    return difference


def compare_means(
    after: Mapping[Question, Sequence[float]],
    before: Mapping[Question, Sequence[float]],
    cluster: Mapping[Question, Hashable],
    bounds: tuple[float, float] | None = None,
    name: str = "",
    read: Sequence[float] = (),
) -> Comparison:
    """Compare two models by a mean over the questions that both have a number for (one per epoch).

    Silence does not win: where the shares of the answers that could be `read` do not allow it (`unequally_read`), there
    is no interval. `bounds` is the range of a value, and `name` the SCORER/KEY of the values, if they are a proper
    score.
    """
    both = [question for question in after if question in before]
    shares = read or tuple(share_of(run[question] for question in both) for run in (after, before))
    reason = unequally_read(*shares)
    values = {question: (mean(after[question]), mean(before[question])) for question in after if question in before}
    used = [question for question, (second, first) in values.items() if not math.isnan(second - first)]
    second, first = ([values[question][i] for question in used] for i in (0, 1))
    inside = bounds and all(bounds[0] - ROUNDED <= value <= bounds[1] + ROUNDED for value in (*first, *second))
    reach = (bounds[0] - bounds[1], bounds[1] - bounds[0]) if bounds and inside else None
    second_other, first_other = (_if_otherwise(run, used, name) for run in (after, before))
    others = (second_other, first_other) if inside and second_other and first_other else None
    difference = paired_difference(second, first, [cluster[q] for q in used], reach, others)
    if reason:
        difference = without_interval(difference)
    n_before, n_after = (sum(not math.isnan(mean(values)) for values in run.values()) for run in (before, after))
    reason = reason or _why_none(difference)
    return Comparison(mean(first), mean(second), difference, reason, n_before, n_after, reach[1] if reach else math.inf)


def mean_of_answers(
    answers: Mapping[Question, Sequence[float]],
    cluster: Mapping[Question, Hashable],
    bounds: tuple[float, float] | None = None,
    name: str = "",
) -> Estimate:
    """The mean of one model over questions, epochs first, with the arguments of `compare_means`."""
    means = {question: mean(values) for question, values in answers.items()}
    used = [question for question, value in means.items() if not math.isnan(value)]
    values = [means[question] for question in used]
    inside = bounds and all(bounds[0] - ROUNDED <= value <= bounds[1] + ROUNDED for value in values)
    others = _if_otherwise(answers, used, name) if inside else None
    return mean_estimate(values, [cluster[question] for question in used], bounds if inside else None, others)


def _if_otherwise(
    answers: Mapping[Question, Sequence[float]], questions: Sequence[Question], name: str
) -> list[float] | None:
    """What each question would score, had it ended otherwise, if SCORER/KEY is a proper score of a forecast."""
    scorer, _, key = name.rpartition("/")
    if key not in OTHER or scorer.rsplit("/", 1)[-1] not in FORECASTS:
        return None
    return [mean(OTHER[key](np.array(answers[question])).tolist()) for question in questions]


def without_interval(difference: Estimate) -> Estimate:
    """The same without an interval, as where silence may have made it."""
    return replace(difference, lower=math.nan, upper=math.nan, mde=math.nan, stderr=math.nan)


def _why_none(difference: Estimate) -> str:
    """Why a difference has no interval, if its answers could be read."""
    if not difference.n or not math.isnan(difference.lower):
        return ""
    if difference.effective_clusters < MIN_CLUSTERS:
        return FEW_EVENTS
    return _all_equal(difference)


def _all_equal(difference: Estimate) -> str:
    """The reason where no pair differs from another."""
    by = f"a difference of {difference.estimate:.3g}" if difference.estimate else "no difference"
    return f"{by} seen in {difference.n} pairs, which are all equal: nothing shows how much others differ"


def unequally_read(after: float, before: float, *others: float) -> str:
    """Why runs are not compared, with the shares of their answers that could be read. "" if they are.

    They are if each share is 90 % or more, and no two are more than 5 points apart. NaN is a run without answers.
    """
    shares = [share for share in (before, after, *others) if not math.isnan(share)]
    if not shares or (
        min(shares) >= LEAST_SHARE_READ - ROUNDING_ERROR and max(shares) - min(shares) <= MOST_APART + ROUNDING_ERROR
    ):
        return ""
    ends = (min(shares), max(shares)) if others else (before, after)
    first, second = (f"{100 * share:.3g} %" for share in ends)
    return f"{first} {'to' if others else 'and'} {second} of their answers could be read, and the others may be harder"


def share_of(answers: Iterable[Sequence[float]]) -> float:
    """The share of the numbers, one per epoch of each question, that are not NaN. NaN if there are none."""
    read = [not math.isnan(number) for epochs in answers for number in epochs]
    return sum(read) / len(read) if read else math.nan


def _with_unread(scorer: str, score: "LoggedScore") -> dict[str, float]:
    """The numbers of a score by key, NaN for an answer that could not be read. What has no outcome has none."""
    values = score.value if isinstance(score.value, Mapping) else {scorer: score.value}
    found = numbers(scorer, score.value)
    missing = [key for key, value in values.items() if value is None]
    reason = score.reason or score.details.get("reason") if missing else None
    if missing and (not reason or fault_of(score.details) != "setting"):
        unread = bool(reason) or not found
        return {key: found.get(key, math.nan) for key in values if key in found or (unread and key in missing)}
    return found


def compare_recipes(
    after: Seeds[Question],
    before: Seeds[Question],
    cluster: Mapping[Question, Hashable],
    control: tuple[Seeds[Question], Seeds[Question]] | None = None,
    read: Sequence[float] = (),
) -> Comparison:
    r"""What a way of training changes, from models that it trained with several seeds.

    $$\mathrm{SE}^2=\max\Big(\sum_j\frac{s_j^2}{S_j}+\mathrm{SE}_q^2-\mathrm{SE}_{sq}^2,\;\sum_j\frac{s_j^2}{S_j},\;
    \mathrm{SE}_q^2\Big)$$

    where $s_j^2$ is the variance of the means of the $S_j$ models of a trained arm, $\mathrm{SE}_q$ that of the mean
    over the questions of the arms' means, clustered as in `mean_estimate`, and $\mathrm{SE}_{sq}$ that of what is left
    of each seed and cluster, which both contain (two-way clustering). Student's t has the degrees of freedom of Welch's
    test of the seeds' means, at most those of the questions: seeds are the units, and more questions do not take their
    place. With one model in a trained arm there is no interval.

    The change of a `control`, (after, before), is subtracted: difference in differences. `read` as in `compare_means`,
    of all models.

    References:
        Welch (1947). Biometrika 34. Cameron, Gelbach and Miller (2011). Multiway clustering. JBES 29.
    """
    arms = [[arm] if isinstance(arm, Mapping) else arm for arm in (after, before, *(control or ()))]
    models = [model for arm in arms for model in arm]
    asked = [question for question in models[0] if all(question in model for model in models)]
    shares = read or tuple(share_of(model[question] for question in asked) for model in models)
    values = [np.array([[mean(model[q]) for q in asked] for model in arm]).reshape(len(arm), -1) for arm in arms]
    used = np.flatnonzero(np.isfinite(np.vstack(values)).all(axis=0))
    names = cluster_codes([cluster[asked[i]] for i in used])
    arms_means = [arm[:, used].mean(axis=0) for arm in values]
    change, base = (a - b for a, b in zip(arms_means[::2], arms_means[1::2], strict=True)) if control else arms_means
    questions = mean_estimate(change - base, names.tolist())
    first, second = (float(side.mean()) if used.size else math.nan for side in (base, change))
    counts = [int(np.isfinite(arm).all(axis=0).sum()) for arm in values[:2]]
    trained = [arm[:, used] for arm in values[::2]]
    reason = ONE_SEED if min(map(len, trained)) < 2 else unequally_read(*shares) or _why_none(questions)
    if reason or not np.isfinite(questions.stderr):
        return Comparison(first, second, without_interval(questions), reason, counts[1], counts[0])
    degrees = np.array([len(arm) - 1 for arm in trained])
    seeds = np.array([arm.mean(axis=1).var(ddof=1) / len(arm) for arm in trained])
    both = sum(_seeds_and_clusters(arm, names) for arm in trained)
    if questions.stderr == 0 and not seeds.any():
        return Comparison(first, second, without_interval(questions), _all_equal(questions), counts[1], counts[0])
    variance = max(seeds.sum() + questions.stderr**2 - both, seeds.sum(), questions.stderr**2)
    welch = seeds.sum() ** 2 / np.sum(seeds**2 / degrees) if seeds.any() else degrees.sum()
    nu = min(float(welch), questions.effective_clusters - 1)
    difference = replace(
        t_estimate(questions.estimate, float(np.sqrt(variance)), nu, questions.n),
        clusters=questions.clusters,
        effective_clusters=nu + 1,
    )
    return Comparison(first, second, difference, "", counts[1], counts[0])


def _seeds_and_clusters(arm: NDArray[np.float64], cluster: NDArray[np.intp]) -> float:
    """The variance of an arm's mean by what a seed and a cluster of questions have together, models x questions."""
    rest = arm - arm.mean(axis=1, keepdims=True) - arm.mean(axis=0) + arm.mean()
    sums = np.array([np.bincount(cluster, weights=row) for row in rest])
    seeds, groups = sums.shape
    return float(np.sum(sums**2) / arm.shape[1] ** 2 * groups / (groups - 1) / seeds / (seeds - 1))


def compare_slopes(after: Slope, before: Slope) -> Comparison:
    r"""Compare two models by a slope, estimated on the same questions, whose clusters are numbered alike.

    $$\mathrm{SE}^2=\sum_g(\psi_{g}^{\mathrm{after}}-\psi_{g}^{\mathrm{before}})^2$$

    where $\psi_g$ is the influence of a cluster on each estimate: what moves both slopes alike cancels.
    """
    estimate = after.estimate - before.estimate
    degrees, n = min(after.effective_clusters, before.effective_clusters) - 1, min(after.n, before.n)
    if not degrees + 1 >= MIN_CLUSTERS or not after.influence.size or not before.influence.size:
        return Comparison(
            before.estimate, after.estimate, Estimate(estimate, np.nan, np.nan, np.nan, n), "", before.n, after.n
        )
    error = float(np.sqrt(np.sum((after.influence - before.influence) ** 2)))
    difference = replace(
        t_estimate(estimate, error, degrees, n), clusters=after.influence.size, effective_clusters=degrees + 1
    )
    return Comparison(before.estimate, after.estimate, difference, "", before.n, after.n)


def mean(numbers: Sequence[float]) -> float:
    """The mean of the numbers that are not NaN; NaN if there are none."""
    valid = [number for number in numbers if not math.isnan(number)]
    return sum(valid) / len(valid) if valid else math.nan
