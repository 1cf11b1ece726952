"""The difference between two models that answered the same questions."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from truthgym.scorers.statistics.instrumented_slope import Slope
from truthgym.scorers.statistics.interval import MIN_CLUSTERS, Estimate, mean_estimate, t_estimate

Question = TypeVar("Question", bound=Hashable)


@dataclass(frozen=True)
class Comparison:
    """A figure of two models, and its difference."""

    before: float
    after: float
    difference: Estimate
    """After minus before."""


def paired_difference(
    after: ArrayLike,
    before: ArrayLike,
    cluster: Sequence[Hashable] | None = None,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """Mean of `after` minus `before` over questions, with a cluster-robust 95 % interval.

    Pairing by question removes the variance between questions, which two separate intervals would include.

    Args:
        after: One number per question: with several epochs, their mean.
        before: The same of the other model, in the same order of questions.
        cluster: For each question the name of its cluster: questions that resolve together. None: each its own.
        bounds: The range of a difference, such as (-1, 1), for the interval of equal differences. None: unknown.

    Returns:
        See `mean_estimate`. A question with NaN in either argument is left out.

    Raises:
        ValueError: The arguments differ in length.

    >>> round(paired_difference([0.1, 0.2, float("nan")], [0.2, 0.1, 0.3]).estimate, 6)
    0.0
    """
    first, second = (np.asarray(values, dtype=float).ravel() for values in (after, before))
    if first.size != second.size:
        raise ValueError(f"paired_difference: {first.size} values after and {second.size} before; give pairs")
    return mean_estimate(first - second, cluster, bounds)


def compare_means(
    after: Mapping[Question, Sequence[float]],
    before: Mapping[Question, Sequence[float]],
    cluster: Mapping[Question, Hashable],
) -> Comparison:
    """Compare two models by a mean over the questions that both have a number for.

    Args:
        after: For each question one number per epoch. NaN, an answer that could not be parsed, is left out.
        before: The same of the other model.
        cluster: The cluster of each question.
    """
    values = {question: (mean(after[question]), mean(before[question])) for question in after if question in before}
    used = [question for question, (second, first) in values.items() if not math.isnan(second - first)]
    second, first = ([values[question][i] for question in used] for i in (0, 1))
    return Comparison(mean(first), mean(second), paired_difference(second, first, [cluster[q] for q in used]))


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

    Args:
        after: For each question one number per epoch, $a$. NaN, an answer that could not be parsed, is left out.
        before: The same before the treatment, $b$.
        control_after: The same of the control, $c$.
        control_before: The same of the control, $d$. With `before` here too, the difference is after minus control.
        cluster: The cluster of each question.

    Returns:
        `before` is the mean change of the control and `after` that of the model.
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
