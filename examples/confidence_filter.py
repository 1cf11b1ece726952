"""Does it help to keep only the labelled pairs that a reward model is sure of? A study with planted label noise.

    python examples/confidence_filter.py
    python examples/confidence_filter.py --dataset data/pairs --base trained/tiny --share 0.5 --out data/kept

The first prints tables over seeds: pairs of generated replies whose better one is known, labels of which a planted share
is wrong, and for each arm the share of wrong labels, the precision of the filter, and the accuracy on held-out pairs of a
reward model trained on what is kept. Its reward model is a Bradley-Terry regression on counts of words (`features`),
not a language model. The second filters the rows of `truthgym convert --to preference` by real reward models, trained
with `truthgym train reward` from a base model, one for each fold.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from truthgym.evallog.errors import bad_input
from truthgym.models.agents.lengths import MORE
from truthgym.models.agents.quality_markers import MARKERS
from truthgym.scorers.statistics.bradley_terry import fit_bradley_terry
from truthgym.scorers.statistics.interval import mean_headline
from truthgym.scorers.statistics.paired import paired_difference
from truthgym.training.conversion.confidence import (
    Fit,
    Indices,
    Mask,
    cross_fitted_margins,
    flywheel,
    keep_random,
    keep_top,
    length_strata,
)
from truthgym.training.conversion.writer import DatasetFolder, card_text

BUCKETS = 64
PENALTY = 1.0
HELD_OUT = 2000
"""Fresh pairs with true labels on which each arm's reward model is scored."""
Noise = Literal["none", "random", "sure"]
NOISES: dict[Noise, str] = {
    "none": "no label is wrong",
    "random": "a quarter of the labels are wrong, whichever",
    "sure": "a quarter of the labels are wrong, those of the pairs that differ most",
}
WRONG = 0.25
ARMS = ("full", "random half", "top half", "top quarter", "top half of |margin|", "random half, cycle 2", "top half, cycle 2")


class Pairs(NamedTuple):
    """Labelled pairs."""

    chosen: list[str]
    rejected: list[str]
    wrong: Mask
    """Whether the label is wrong."""

    @property
    def differences(self) -> NDArray[np.float64]:
        """Features of the chosen reply minus those of the rejected one."""
        return features(self.chosen) - features(self.rejected)


def features(texts: Sequence[str]) -> NDArray[np.float64]:
    """Counts of words by hash in 64 buckets, and the logarithm of the number of words."""
    found = np.zeros((len(texts), BUCKETS + 1))
    for row, text in zip(found, texts, strict=True):
        words = text.split()
        for word in words:
            row[crc32(word.encode()) % BUCKETS] += 1
        row[-1] = np.log(1 + len(words))
    return found


def made(n: int, noise: Noise, rng: np.random.Generator) -> Pairs:
    """Pairs of replies, each with some of eight sentences that are worth 1 to 8 and filler that is worth nothing."""
    worth = np.arange(1, len(MARKERS) + 1)
    has = rng.random((n, 2, len(MARKERS))) < 0.5
    value = has @ worth
    value[:, 1] += value[:, 0] == value[:, 1]  # a tie, of which no label is wrong, goes to the second
    texts = [
        [
            " ".join([*(MARKERS[k] for k in np.flatnonzero(one)), *rng.choice(MORE, rng.integers(1, 12))])
            for one in pair
        ]
        for pair in has
    ]
    wrong = np.zeros(n, dtype=bool)
    if noise == "random":
        wrong = rng.random(n) < WRONG
    elif noise == "sure":
        wrong[np.argsort(-np.abs(value[:, 0] - value[:, 1]), kind="stable")[: round(WRONG * n)]] = True
        wrong &= rng.random(n) < 1.0
    first = (value[:, 0] > value[:, 1]) != wrong
    chosen = [pair[0] if one else pair[1] for pair, one in zip(texts, first, strict=True)]
    rejected = [pair[1] if one else pair[0] for pair, one in zip(texts, first, strict=True)]
    return Pairs(chosen, rejected, wrong)
