from fractions import Fraction

import numpy as np
import pytest

from truthgym.datasets.loading.generated import logit, probability
from truthgym.datasets.urns import SURFACES, UrnQuestion, log_likelihood_ratio, urns


def exact_posterior(base: int, first: int, second: int, marks: list[bool]) -> Fraction:
    """Bayes' rule in exact arithmetic, from the numbers in the text."""
    yes, no = Fraction(base, 100), Fraction(100 - base, 100)
    for marked in marks:
        yes *= Fraction(first if marked else 100 - first, 100)
        no *= Fraction(second if marked else 100 - second, 100)
    return yes / (yes + no)


def test_the_posterior_is_exact_after_every_piece() -> None:
    for item in urns(n=50, draws=6):
        known = item.metadata_as(UrnQuestion)
        surface = next(s for s in SURFACES if s.name == known.surface)
        case = known.evidence[0]
        marks = [
            any(piece == surface.marked.format(case=number, k=k) for number in _numbers(case))
            for k, piece in enumerate(known.evidence, start=1)
        ]
        base = round(100 * (known.base_rate or 0))
        for k, stated in enumerate(known.posterior):
            assert stated == pytest.approx(
                float(exact_posterior(base, known.first, known.second, marks[:k])), abs=1e-12
            )


def _numbers(text: str) -> list[int]:
    return [int(word.strip(",.:")) for word in text.split() if word.strip(",.:").isdigit()]


def test_bayes_rule_known_value() -> None:
    # a prior of 1/2 and a likelihood ratio of 3 give 3/4
    assert probability(logit(0.5) + log_likelihood_ratio(75, 25, marked=True)) == pytest.approx(0.75)
    assert probability(logit(0.5) + log_likelihood_ratio(75, 25, marked=False)) == pytest.approx(0.25)


def test_probability_at_the_ends_and_back() -> None:
    assert (probability(800), probability(-800), probability(0)) == (1, 0, 0.5)
    assert probability(logit(0.37)) == pytest.approx(0.37)
    assert probability(-3.1) == pytest.approx(1 - probability(3.1))


def test_much_evidence_stays_within_0_and_1() -> None:
    made = list(urns(n=200, draws=100, likelihood_ratio=15))
    assert all(0 <= p <= 1 for item in made for p in item.metadata_as(UrnQuestion).posterior)


def test_several_surfaces_and_both_directions() -> None:
    known = [s.metadata_as(UrnQuestion) for s in urns(n=200)]
    assert {q.surface for q in known} == {s.name for s in SURFACES}
    assert {q.first > q.second for q in known} == {True, False}


def test_difficulty() -> None:
    easy = list(urns(n=300, likelihood_ratio=8, draws=8, base_rate=0.5))
    hard = list(urns(n=300, likelihood_ratio=1.5, draws=1, base_rate=(0.5,)))
    spread = [np.mean([q.metadata_as(UrnQuestion).posterior[-1] * (1 - q.metadata_as(UrnQuestion).posterior[-1])
                       for q in made]) for made in (easy, hard)]  # fmt: skip
    assert spread[0] < 0.1 < spread[1]
    assert {q.metadata_as(UrnQuestion).base_rate for q in easy} == {0.5}
