import re
from fractions import Fraction

import pytest

from truthgym.datasets.loading.generated import logit, probability
from truthgym.datasets.urns import SURFACES, UrnQuestion, log_likelihood_ratio, urns


def test_the_posterior_is_exact_after_every_piece() -> None:
    """By Bayes' rule in exact arithmetic, from the numbers in the text and the marks that it shows."""
    for item in urns(n=50, draws=6):
        known = item.metadata_as(UrnQuestion)
        surface = next(s for s in SURFACES if s.name == known.surface)
        numbers = [int(digits) for digits in re.findall(r"\d+", known.evidence[0])]
        base = round(100 * (known.base_rate or 0))
        yes, no = Fraction(base, 100), Fraction(100 - base, 100)
        owed = [yes / (yes + no)]
        for k, piece in enumerate(known.evidence, start=1):
            marked = any(piece == surface.marked.format(case=number, k=k) for number in numbers)
            yes *= Fraction(known.first if marked else 100 - known.first, 100)
            no *= Fraction(known.second if marked else 100 - known.second, 100)
            owed.append(yes / (yes + no))
        assert known.posterior == pytest.approx([float(p) for p in owed], abs=1e-12)


def test_bayes_rule_at_known_values_and_with_much_evidence() -> None:
    assert (probability(800), probability(-800), probability(0)) == (1, 0, 0.5)
    # a prior of 1/2 and a likelihood ratio of 3 give 3/4
    assert probability(logit(0.5) + log_likelihood_ratio(75, 25, marked=True)) == pytest.approx(0.75)
    assert probability(logit(0.5) + log_likelihood_ratio(75, 25, marked=False)) == pytest.approx(0.25)
    made = list(urns(n=200, draws=100, likelihood_ratio=15))
    assert all(0 <= p <= 1 for item in made for p in item.metadata_as(UrnQuestion).posterior)


def test_several_surfaces_and_both_directions() -> None:
    known = [s.metadata_as(UrnQuestion) for s in urns(n=200)]
    assert {q.surface for q in known} == {s.name for s in SURFACES}
    assert {q.first > q.second for q in known} == {True, False}
