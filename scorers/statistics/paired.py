"""The difference between two models that answered the same questions."""

import json
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from truthgym.scorers.statistics.direction import Best, direction, numbers, span
from truthgym.scorers.statistics.instrumented_slope import Slope
from truthgym.scorers.statistics.interval import MIN_CLUSTERS, Estimate, mean_estimate, t_estimate

if TYPE_CHECKING:
    from truthgym.evallog.schema import Outcome

Question = TypeVar("Question", bound=Hashable)


@dataclass(frozen=True)
class Comparison:
    """A figure of two models, and its difference."""

    before: float
    after: float
    difference: Estimate
    """After minus before."""

    def row(self, read: bool = True) -> dict[str, float]:
        """The columns of a table. `lower`, `upper` and `mde` are NaN unless enough answers could be `read`."""
        difference = self.difference
        bounds = {"lower": difference.lower, "upper": difference.upper, "mde": difference.mde}
        values = {"before": self.before, "after": self.after, "difference": difference.estimate}
        return values | (bounds if read else dict.fromkeys(bounds, math.nan)) | {"n": difference.n}


@dataclass
class RunValues:
    """The numbers of one run by question, so that two runs can be compared on the questions of both.

    `truthgym compare`, the cards of models and the report of a loop compare by it.
    """

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

    @classmethod
    def of_samples(cls, samples: "Iterable[Outcome]") -> "RunValues":
        """Collect all numbers of a log's samples, see `LogReader.outcomes`."""
        run = cls()
        for sample in samples:
            values: dict[str, float] = {}
            for scorer, score in (sample.scores or {}).items():
                for key, number in numbers(scorer, score.value).items():
                    name = f"{scorer}/{key}"
                    values[name] = number
                    if name not in run.best:
                        run.best[name] = direction(scorer, key, score.details)
                        run.spans[name] = span(scorer, key, score.details)
            question, facts = str(sample.id), sample.facts
            split = facts.split if facts else json.loads(bytes(sample.metadata)).get("split", "?")
            run.add(question, values, facts.event if facts else question, str(split))
        return run

    def add(self, question: str, values: Mapping[str, float], event: str, split: str = "?") -> None:
        """Add the numbers of one epoch of a question."""
        self.events[question], self.splits[question] = event, split
        for name, value in values.items():
            self.values.setdefault(name, {}).setdefault(question, []).append(value)

    def among(self, questions: Collection[str]) -> "RunValues":
        """The part about some questions. What has no number there is left out."""
        parts = {name: {q: values[q] for q in values if q in questions} for name, values in self.values.items()}
        return RunValues(
            {name: part for name, part in parts.items() if part}, self.events, self.splits, self.best, self.spans
        )

    def mean(self, name: str) -> Estimate:
        """The mean of a number over questions, clustered by event; its `n` is 0 if there is none."""
        means = {question: mean(values) for question, values in self.values.get(name, {}).items()}
        return mean_estimate(list(means.values()), [self.events[question] for question in means])

    def change(self, before: "RunValues", name: str) -> Comparison:
        """Compare a number with that of an earlier run, see `compare_means`."""
        scorer, _, key = name.rpartition("/")
        bounds = self.spans.get(name, span(scorer, key, {}))
        return compare_means(self.values.get(name, {}), before.values.get(name, {}), self.events, bounds, name)


def paired_difference(
    after: ArrayLike,
    before: ArrayLike,
    cluster: Sequence[Hashable] | None = None,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """Mean of `after` minus `before` over questions, with a cluster-robust 95 % interval.

    Pairing by question removes the variance between questions, which two separate intervals would include.

    `bounds` is the range of a difference, such as (-1, 1). A question with NaN in either argument is left out. Without
    bounds, pairs that are all equal have no interval: nothing limits the difference of the pairs that were not seen.

    >>> round(paired_difference([0.1, 0.2, float("nan")], [0.2, 0.1, 0.3]).estimate, 6)
    0.0
    """
    first, second = (np.asarray(values, dtype=float).ravel() for values in (after, before))
    if first.size != second.size:
        raise ValueError(f"paired_difference: {first.size} values after and {second.size} before; give pairs")
    difference = mean_estimate(first - second, cluster, bounds)
    if difference.stderr == 0 and not bounds:
        return replace(difference, lower=np.nan, upper=np.nan, mde=np.nan, stderr=np.nan)
    return difference


def compare_means(
    after: Mapping[Question, Sequence[float]],
    before: Mapping[Question, Sequence[float]],
    cluster: Mapping[Question, Hashable],
    bounds: tuple[float, float] | None = None,
    name: str = "",
) -> Comparison:
    """Compare two models by a mean over the questions that both have a number for.

    Values are one per epoch; NaN, an answer that could not be parsed, is left out. `bounds` is the range of a value
    (None, or a value beyond it: it has no ends), and `name` the SCORER/KEY of the values, if they are a proper score.
    """
    values = {question: (mean(after[question]), mean(before[question])) for question in after if question in before}
    used = [question for question, (second, first) in values.items() if not math.isnan(second - first)]
    second, first = ([values[question][i] for question in used] for i in (0, 1))
    inside = bounds and all(bounds[0] <= value <= bounds[1] for value in (*first, *second))
    reach = (bounds[0] - bounds[1], bounds[1] - bounds[0]) if bounds and inside else None
    return Comparison(mean(first), mean(second), paired_difference(second, first, [cluster[q] for q in used], reach))


def difference_in_differences(
    after: Mapping[Question, Sequence[float]],
    before: Mapping[Question, Sequence[float]],
    control_after: Mapping[Question, Sequence[float]],
    control_before: Mapping[Question, Sequence[float]],
    cluster: Mapping[Question, Hashable],
) -> Comparison:
    r"""The change of a model beyond that of a control, over the questions that all four have a number for.

    $$\frac1n\sum_q\big[(a_q-b_q)-(c_q-d_q)\big]$$

    It is the effect of the treatment if, without it, the model would have changed as the control did.

    a and b are the model after and before, c and d the control, one number per epoch. With `before` as `control_before`
    the difference is after minus control. The result's `before` is the mean change of the control.
    """
    change, control = (
        {question: [mean(last[question]) - mean(first[question])] for question in last if question in first}
        for last, first in ((after, before), (control_after, control_before))
    )
    return compare_means(change, control, cluster)


def compare_slopes(after: Slope, before: Slope) -> Comparison:
    r"""Compare two models by a slope, estimated on the same questions.

    $$\mathrm{SE}^2=\sum_g(\psi_{g}^{\mathrm{after}}-\psi_{g}^{\mathrm{before}})^2$$

    where $\psi_g$ is the influence of a cluster of questions on each estimate: what moves both slopes alike cancels.

    Both number the same clusters alike.
    """
    estimate = after.estimate - before.estimate
    degrees, n = min(after.effective_clusters, before.effective_clusters) - 1, min(after.n, before.n)
    if not degrees + 1 >= MIN_CLUSTERS or not after.influence.size or not before.influence.size:
        return Comparison(before.estimate, after.estimate, Estimate(estimate, np.nan, np.nan, np.nan, n))
    error = float(np.sqrt(np.sum((after.influence - before.influence) ** 2)))
    return Comparison(before.estimate, after.estimate, t_estimate(estimate, error, degrees, n))


def mean(numbers: Sequence[float]) -> float:
    """The mean of the numbers that are not NaN; NaN if there are none."""
    valid = [number for number in numbers if not math.isnan(number)]
    return sum(valid) / len(valid) if valid else math.nan
