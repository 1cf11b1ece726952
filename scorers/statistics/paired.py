"""The mean difference between two models that answered the same questions."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from truthgym.scorers.statistics.interval import Headline, mean_headline


def paired_difference(after: ArrayLike, before: ArrayLike, cluster: Sequence[Hashable] | None = None) -> Headline:
    """Mean of `after` minus `before` over questions, with a cluster-robust 95 % interval.

    Pairing by question removes the variance between questions, which two separate intervals would include.

    Args:
        after: One number per question: with several epochs, their mean.
        before: The same of the other model, in the same order of questions.
        cluster: For each question the name of its cluster: questions that resolve together. None: each its own.

    Returns:
        See `mean_headline`. A question with NaN in either argument is left out.

    Raises:
        ValueError: The arguments differ in length.

    >>> round(paired_difference([0.1, 0.2, float("nan")], [0.2, 0.1, 0.3]).estimate, 6)
    0.0
    """
    first, second = (np.asarray(values, dtype=float).ravel() for values in (after, before))
    if first.size != second.size:
        raise ValueError(f"paired_difference: {first.size} values after and {second.size} before; give pairs")
    return mean_headline(first - second, cluster)
