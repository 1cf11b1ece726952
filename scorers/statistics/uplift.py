"""Uplift: how much likelier observations are with a text than without it. Pure functions of arrays."""

import re
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from truthgym.scorers.statistics.interval import UNKNOWN, Estimate, mean_estimate

COPIED_WORDS = 4
"""Words in a row that count as copied."""
WORD = re.compile(r"\w+")


def ratio_estimate(
    values: ArrayLike,
    sizes: ArrayLike,
    cluster: Sequence[Hashable] | None = None,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    r"""The ratio of two sums, such as uplift per token, with a cluster-robust 95 % interval (linearised).

    $$R=\frac{\sum_i u_i}{\sum_i b_i},\qquad z_i=R+\frac{u_i-Rb_i}{\bar b}$$

    and the interval is that of the mean of z. A ratio of sums does not reward short texts as a mean of ratios does.

    Args:
        values: One number for each text. One with NaN, or without a size above 0, is left out.
        sizes: Its size, such as its number of tokens.
        cluster: As in `mean_estimate`.
        bounds: The range of the ratio, for the interval where all ratios are equal. None: unknown.

    Returns:
        NaN for everything where no text is left.
    """
    u, b = np.asarray(values, dtype=float).ravel(), np.asarray(sizes, dtype=float).ravel()
    usable = np.isfinite(u) & np.isfinite(b) & (b > 0)
    if not usable.any():
        return UNKNOWN
    mean = b[usable].mean()
    ratio = u[usable].mean() / mean
    return mean_estimate(np.where(usable, ratio + (u - ratio * b) / mean, np.nan), cluster, bounds)


def copied_share(text: str, observation: str, context: str) -> float:
    """Share of an observation's runs of four words that stand in a text and not in the context, which it could know.

    A text with a large share saw the observation, or repeats a phrase that it could not know. Case and punctuation do
    not count.

    Returns:
        In [0, 1]; NaN where the observation has no run of four words that is new.

    >>> copied_share("He says the turnout was 84.6 percent.", "The turnout was 84.6 percent.", "")
    1.0
    """
    new = _runs(observation) - _runs(context)
    return len(new & _runs(text)) / len(new) if new else np.nan


def _runs(text: str) -> set[tuple[str, ...]]:
    words = [word.casefold() for word in WORD.findall(text)]
    return {tuple(words[i : i + COPIED_WORDS]) for i in range(len(words) - COPIED_WORDS + 1)}
