"""Confidence filtering: keep the labelled pairs that reward models agree with which never saw them.

A margin is r(chosen) - r(rejected), with its sign: a pair that a model would label the other way has a low margin, and
its absolute value would keep the pairs that are most surely mislabelled. A model agrees with the pairs that it was
trained on, so each pair is scored by a model that saw no pair of its event (cross-fitting).
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from truthgym.evallog.errors import bad_input

Indices = NDArray[np.intp]
Margins = NDArray[np.float64]
Mask = NDArray[np.bool_]
Score = Callable[[Indices], Margins]
"""From pairs, by index, to their signed margins."""
Fit = Callable[[Indices], Score]
"""Trains a reward model on pairs, by index."""
MANY_PAIRS = 12
"""Pairs from which on all of one stratum are no chance."""


def cross_fitted_margins(events: Sequence[Hashable], fit: Fit, folds: int = 5, seed: int = 0) -> Margins:
    """The signed margin of each pair by a model that saw no pair of its event."""
    names = list(dict.fromkeys(events))
    if len(names) < 2 or folds < 2:
        raise bad_input(
            f"Cross-fitting needs two folds and pairs of two events, got {folds} folds and {len(events)} pairs of "
            f"{len(names)}; add pairs"
        )
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[event]: place % folds for place, event in enumerate(order)}
    fold = np.array([fold_of[event] for event in events])
    margins = np.full(len(fold), np.nan)
    for k in range(min(folds, len(names))):
        train = np.flatnonzero(fold != k)
        if not train.size:
            raise bad_input(f"Fold {k} leaves no pair to train on; use fewer folds, or a larger share")
        score = np.flatnonzero(fold == k)
        margins[score] = fit(train)(score)
    return margins


def keep_top(margins: Margins, share: float, strata: Sequence[Hashable]) -> Mask:
    """The pairs with the highest signed margins, the same share of each stratum, at least one."""
    ranked = np.argsort(-np.where(np.isnan(margins), -np.inf, margins), kind="stable")
    return _share_of_each(ranked, share, strata)


def keep_random(n: int, share: float, strata: Sequence[Hashable], rng: np.random.Generator) -> Mask:
    """As many pairs of each stratum as `keep_top`, at random: its control."""
    return _share_of_each(rng.permutation(n), share, strata)


def length_strata(chosen: Sequence[str], rejected: Sequence[str]) -> list[str]:
    """For each pair whether the chosen reply is the longer one, in words: the strata by default."""
    strata = []
    for place, (better, worse) in enumerate(zip(chosen, rejected, strict=True)):
        if not better.strip() or not worse.strip() or better == worse:
            raise bad_input(f"Pair {place} has no winner: {better[:40]!r} and {worse[:40]!r}; leave it out")
        difference = len(better.split()) - len(worse.split())
        strata.append("longer" if difference > 0 else "shorter" if difference < 0 else "as long")
    if len(strata) >= MANY_PAIRS and set(strata) in ({"longer"}, {"shorter"}):
        raise bad_input(
            f"In all {len(strata)} pairs the chosen reply is the {strata[0]} one, so the labels are of one side: "
            "length explains every one of them; label pairs of more equal length"
        )
    return strata


def _share_of_each(ranked: Indices, share: float, strata: Sequence[Hashable]) -> Mask:
    if not 0 < share <= 1:
        raise bad_input(f"share={share} cannot be used; give a number above 0 and at most 1")
    kept = np.zeros(len(strata), dtype=bool)
    for stratum in set(strata):
        members = [i for i in ranked if strata[i] == stratum]
        kept[members[: max(1, round(share * len(members)))]] = True
    return kept
