import math
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from truthgym.datasets.interventions import (
    ALIKE,
    UNLIKE,
    Candidates,
    InterventionsQuestion,
    Kinds,
    Query,
    interventions,
    learned_paths,
)

Values = tuple[bool, ...]


def expected(rule: str, inputs: list[bool]) -> bool:
    if rule == "same":
        return inputs[0]
    if rule == "opposite":
        return not inputs[0]
    return (inputs[0] and inputs[1]) if rule == "both" else (inputs[0] or inputs[1])


def stated_by_hand(known: InterventionsQuestion, kind: str) -> list[Fraction]:
    """Sums the joint distribution over all values of the parts, with the factor of a part that was set left out."""
    parts = len(known.rules)
    error = Fraction(known.error, 100)
    total = [[Fraction(0)] * 2 for _ in range(len(known.readings) + 1)]
    for values in product((False, True), repeat=parts):
        weight, failed = Fraction(1), []
        for i, rule in enumerate(known.rules):
            chance = Fraction(known.chances[i], 100)
            on = True if rule == "root" else expected(rule, [values[j] for j in known.parents[i]])
            likely = chance if rule == "root" else 1 - chance
            failed.append(values[i] != on)
            if not (kind == "set" and i == known.x):
                weight *= likely if values[i] == on else 1 - likely
        if values[known.x] != (known.value if kind != "counterfactual" else not known.value):
            continue
        outcome = values[known.target]
        if kind == "counterfactual":  # the same failures, with another value of x
            other: list[bool] = []
            for i, rule in enumerate(known.rules):
                on = True if rule == "root" else expected(rule, [other[j] for j in known.parents[i]])
                other.append(known.value if i == known.x else on != failed[i])
            outcome = other[known.target]
        total[0][outcome] += weight
        for k, (part, shown) in enumerate(known.readings):
            weight *= 1 - error if values[part] == shown else error
            total[k + 1][outcome] += weight
    return [yes / (no + yes) for no, yes in total]


def learned_by_hand(known: InterventionsQuestion, kind: str) -> list[Fraction]:
    """Predicts run after run, each chance by the imagined and real runs before it; no integral and no Beta function."""
    strength, shares = Fraction(known.strength), [Fraction(share, 100) for share in known.shares]
    every = list(product((False, True), repeat=4))
    yes, no = ([Fraction(0)] * (len(known.batches) + 1) for _ in range(2))
    for weight, diagram in zip(known.weights, known.diagrams, strict=True):
        imagined = {
            values: strength * math.prod(s if on else 1 - s for s, on in zip(shares, values, strict=True))
            for values in every
        }

        def chance(i: int, values: Values, counts: dict[Values, Fraction], diagram: Any = diagram) -> Fraction:
            alike = [run for run in every if all(run[j] == values[j] for j in diagram[i])]
            return sum((counts[run] for run in alike if run[i] == values[i]), Fraction(0)) / sum(
                (counts[run] for run in alike), Fraction(0)
            )

        likelihood = Fraction(weight, 100)
        for k, batch in enumerate([{}, *known.batches]):
            for name, number in batch.items():
                values = tuple(digit == "1" for digit in name)
                for _ in range(number):
                    likelihood *= math.prod(chance(i, values, imagined) for i in range(4))
                    imagined[values] += 1
            for values in every:
                if values[known.x] == known.value:
                    free = [i for i in range(4) if kind != "set" or i != known.x]
                    part = likelihood * math.prod(chance(i, values, imagined) for i in free)
                    if values[known.target]:
                        yes[k] += part
                    else:
                        no[k] += part
    return [a / (a + b) for a, b in zip(yes, no, strict=True)]


@pytest.mark.parametrize("kind", ["set", "see", "counterfactual"])
@pytest.mark.parametrize(("parts", "readings"), [(4, 2), (6, 4)])
def test_the_posterior_of_a_stated_device_is_exact(kind: Kinds, parts: int, readings: int) -> None:
    for item in interventions(n=4, kind=kind, parts=parts, readings=readings, learned=0):
        known = item.metadata_as(InterventionsQuestion)
        assert known.posterior == pytest.approx([float(p) for p in stated_by_hand(known, kind)], abs=1e-12)
        taken_for = "set" if kind == "counterfactual" else "see"
        assert known.naive == pytest.approx([float(p) for p in stated_by_hand(known, taken_for)], abs=1e-12)


def test_the_part_is_one_where_the_error_can_show() -> None:
    for item in interventions(n=60, learned=0):
        known = item.metadata_as(InterventionsQuestion)
        acting = {*known.parents[-1]}
        if known.kind == "counterfactual":
            for i in reversed(range(known.target)):
                acting |= {*known.parents[i]} if i in acting else set()
            assert known.x in acting
        else:
            assert acting & {*known.parents[known.x]}


def test_in_which_diagrams_to_set_is_to_see() -> None:
    batch = (((False, False, True), 9), ((False, True, False), 2), ((True, False, False), 1), ((True, True, True), 6))
    for same, diagrams in ((True, ALIKE), (False, UNLIKE)):
        for diagram in diagrams:
            acts = tuple(tuple(sorted("xyz".index(part) for part in diagram.get(role, ""))) for role in "xyz")
            candidates = Candidates((acts,), (1.0,), (0.5, 0.5, 0.5), 2.0)
            as_set, as_seen = learned_paths(candidates, Query("set", 0, True, 1), (batch,))
            assert (abs(as_set[-1] - as_seen[-1]) < 1e-12) == same, diagram


@pytest.mark.parametrize("kind", ["set", "see"])
def test_the_posterior_of_a_learned_device_is_exact(kind: Kinds) -> None:
    for item in interventions(n=3, kind=kind, learned=1, cases=10):
        known = item.metadata_as(InterventionsQuestion)
        assert sum(sum(batch.values()) for batch in known.batches) == 10
        assert known.posterior == pytest.approx([float(p) for p in learned_by_hand(known, kind)], abs=1e-12)
        assert known.naive == pytest.approx([float(p) for p in learned_by_hand(known, "see")], abs=1e-12)


def test_who_only_sees_is_not_wrong_where_nothing_was_set() -> None:
    known = [item.metadata_as(InterventionsQuestion) for item in interventions(n=100)]
    assert {(q.learned, q.kind) for q in known} == {
        (False, "set"), (False, "see"), (False, "counterfactual"), (True, "set"), (True, "see")}  # fmt: skip
    assert all((q.posterior == pytest.approx(q.naive)) for q in known if q.kind == "see")
    assert any(abs(q.posterior[0] - q.naive[0]) > 0.02 for q in known if q.kind == "set")
