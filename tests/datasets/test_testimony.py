import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from truthgym.datasets.testimony import TestimonyQuestion, testimony


def by_hand(known: TestimonyQuestion, witnesses: int, pieces: int) -> Fraction:
    """Bayes' rule in exact arithmetic, over what the witnesses said and over who is behind each report."""
    said = known.content[:pieces]
    sources = [
        [at] if 0 < k <= pieces else range(witnesses) for at, k in zip(known.source, known.named_at, strict=True)
    ]
    hit, alarm, garble = (Fraction(rate, 100) for rate in (known.hit, known.false_alarm, known.garble))
    base = Fraction(round(100 * (known.base_rate or 0)), 100)
    total = {True: Fraction(0), False: Fraction(0)}
    for event, statements in product((True, False), product((True, False), repeat=witnesses)):
        yes = hit if event else alarm
        weight = base if event else 1 - base
        weight *= math.prod(yes if statement else 1 - yes for statement in statements)
        for behind in product(*sources[: len(said)]):
            right = (statements[witness] == report for witness, report in zip(behind, said, strict=True))
            total[event] += weight * math.prod(1 - garble if is_right else garble for is_right in right)
    return total[True] / (total[True] + total[False])


def test_the_posterior_is_exact_after_every_piece() -> None:
    for item in testimony(n=25, reports=4, witnesses=2):
        known = item.metadata_as(TestimonyQuestion)
        # each unknown source is drawn with equal chances: a factor that all its values have in common
        assert known.posterior == pytest.approx([float(by_hand(known, 2, k)) for k in range(6)], abs=1e-12)


def test_who_is_named_when() -> None:
    for item in testimony(n=60, witnesses=3, reports=8, named=0.4, late=0.6):
        known = item.metadata_as(TestimonyQuestion)
        assert len(known.evidence) == 9 == len(known.posterior) - 1 == len(known.naive) - 1
        assert set(known.named_at) <= {*range(10)}
        assert all(k in (0, j, 9) for j, k in enumerate(known.named_at, start=1))
    shares = np.array([[0 < k < 9, k == 9] for q in testimony(n=300, witnesses=3, reports=8, named=0.4, late=0.6)
                       for k in q.metadata_as(TestimonyQuestion).named_at])  # fmt: skip
    assert shares.mean(axis=0) == pytest.approx([0.4, 0.36], abs=0.03)
