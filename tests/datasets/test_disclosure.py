import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from truthgym.datasets.disclosure import DisclosureQuestion, disclosure, show


def stories(trials: int, shown: int, ahead: int) -> Iterator[tuple[str, tuple[bool, ...], list[bool]]]:
    """Every sequence of trials, with what is shown of it by each rule."""
    for results in product((True, False), repeat=trials):
        good, bad = [result for result in results if result], [result for result in results if not result]
        made: list[bool] = []
        for one in results:
            made.append(one)
            if made.count(True) - made.count(False) == ahead:
                break
        yield "all", results, list(results)
        yield "first", results, list(results)[:shown]
        yield "best", results, (good + bad)[:shown]
        yield "stop", results, made


def by_hand(known: DisclosureQuestion, trials: int, shown: int, ahead: int) -> list[Fraction]:
    """Bayes' rule in exact arithmetic over rules and all sequences of trials."""
    weights = dict(zip(("all", "first", "best", "stop"), known.weights, strict=True))
    if known.known:
        weights = {known.rule: 100}
    base = Fraction(round(100 * (known.base_rate or 0)), 100)
    total = [[Fraction(0), Fraction(0)] for _ in range(len(known.exhibits) + 2)]
    for rule, results, seen in stories(trials, shown, ahead):
        for truth, rate in ((1, Fraction(known.hit, 100)), (0, Fraction(known.false_alarm, 100))):
            weight = Fraction(weights.get(rule, 0), 100) * (base if truth else 1 - base)
            weight *= math.prod(rate if result else 1 - rate for result in results)
            for k in range(len(known.exhibits) + 1):
                total[k][truth] += weight * (len(seen) >= k and seen[:k] == known.exhibits[:k])
            total[-1][truth] += weight * (seen == known.exhibits)
    return [yes / (no + yes) for no, yes in total]


@pytest.mark.parametrize("counts", [(5, 2, 2), (4, 3, 1), (3, 1, 4)])
@pytest.mark.parametrize("known", [0.0, 1.0])
def test_the_posterior_is_exact_after_every_piece(counts: tuple[int, int, int], known: float) -> None:
    rules = set()
    for item in disclosure(n=25, trials=counts[0], shown=counts[1], ahead=counts[2], known=known):
        question = item.metadata_as(DisclosureQuestion)
        assert question.posterior == pytest.approx([float(p) for p in by_hand(question, *counts)], abs=1e-12)
        rules.add(question.rule)
    assert len(rules) > 2


def test_senders_show_what_their_rule_says() -> None:
    for counts in ((7, 2, 2), (4, 3, 1)):
        for rule, results, seen in stories(*counts):
            assert show(rule, results, *counts[1:]) == seen


def test_what_a_rule_changes() -> None:
    def known(rule: str, **arguments: Any) -> list[DisclosureQuestion]:
        made = [item.metadata_as(DisclosureQuestion) for item in disclosure(n=200, **arguments)]
        return [question for question in made if question.rule == rule]

    # Where all trials are shown, it does not matter why there are no more of them.
    for rule in ("all", "first", "stop"):
        for question in known(rule, known=1.0):
            assert question.posterior == pytest.approx(question.naive)
    three_good = [q for q in known("best", known=1.0) if q.exhibits == [True] * 3]
    assert len(three_good) > 20
    assert all(q.posterior[-1] < q.naive[-1] for q in three_good)
    # A fourth result rules out who shows three; that there is none speaks for one who does.
    for question in known("all", known=0.0, trials=12):
        assert question.posterior[-1] == pytest.approx(question.naive[-1])


def test_pairs_show_the_same_results_by_another_rule() -> None:
    made = list(disclosure(n=1200, pairs=True))
    owed, found = np.zeros(2), np.zeros(2)
    for one, other in zip(made[::2], made[1::2], strict=True):
        first, second = (item.metadata_as(DisclosureQuestion) for item in (one, other))
        assert first.event == second.event
        assert {first.rule, second.rule} == {"best", "first"}
        assert first.exhibits == second.exhibits
        assert first.known
        assert first.contrast
        assert one.input != other.input
        for item, question in ((one, first), (other, second)):
            place = int(question.rule == "first")
            owed[place] += question.posterior[-1]
            found[place] += item.target == "yes"
    assert found == pytest.approx(owed, abs=4 * math.sqrt(600 * 0.15))
    assert abs(owed[0] - owed[1]) > 40, "the rule matters"
    assert not any(item.metadata_as(DisclosureQuestion).contrast for item in disclosure(n=20))
