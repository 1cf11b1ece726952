import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from inspect_ai.dataset import Sample

from tests.datasets.reading_back import samples_of
from truthgym.datasets.almanac import KINDS, AlmanacQuestion, almanac
from truthgym.datasets.loading.generated import logit

State = tuple[Any, ...]
Chances = dict[State, Fraction]
"""Chance of each state."""


def of(item: Sample) -> AlmanacQuestion:
    return item.metadata_as(AlmanacQuestion)


def percent(**chances: int) -> dict[str, Fraction]:
    return {name: Fraction(chance, 100) for name, chance in chances.items()}


def walk(x: int, low: int, high: int, anew: Fraction, by: Mapping[int, Fraction]) -> Iterator[tuple[int, Fraction]]:
    """The text's rule for a number that moves by a step, stops at the ends, and is sometimes drawn afresh."""
    for place in range(low, high + 1):
        yield place, anew / (high - low + 1)
    for step, chance in [*by.items(), (0, 1 - sum(by.values()))]:
        yield min(max(x + step, low), high), (1 - anew) * chance


def summed(chances: Iterator[tuple[State, Fraction]]) -> Chances:
    total: Chances = {}
    for state, chance in chances:
        total[state] = total.get(state, Fraction(0)) + chance
    return total


class ByHand:
    """The stories of the texts once more, as chances in exact arithmetic."""

    def __init__(self, kind: str, numbers: Mapping[str, int]) -> None:
        self.kind, self.p = kind, percent(**numbers)
        self.size, self.threshold = numbers.get("size", 0), numbers["threshold"]
        self.lean = numbers.get("lean", 0)
        self.moves = cache(lambda state: summed(self.next(state)))
        self.after = cache(self.yes)

    def first(self) -> Chances:
        if self.kind == "polls":
            lean = {self.lean: self.p["leaning"], -self.lean: self.p["leaning"], 0: 1 - 2 * self.p["leaning"]}
            return {(x, a, b): lean[a] * lean[b] / 13 for x in range(44, 57) for a in lean for b in lean}
        if self.kind == "league":
            return {(s,): Fraction(c, 100) for s, c in {20: 10, 35: 20, 50: 40, 65: 20, 80: 10}.items()}
        if self.kind == "price":
            return {(x, 0): Fraction(1, 11) for x in range(35, 46)}
        low, high = {"reservoir": (5, 15), "outbreak": (6, 18)}[self.kind]
        return {(x, up): Fraction(1, 2 * (high - low + 1)) for x in range(low, high + 1) for up in (False, True)}

    def next(self, state: State) -> Iterator[tuple[State, Fraction]]:
        p = self.p
        if self.kind == "league":
            yield state, 1 - p["change"]
            for other, chance in self.first().items():
                yield other, p["change"] * chance
        elif self.kind == "polls":
            for x, chance in walk(state[0], 40, 60, p["anew"], {1: p["up"], -1: p["down"]}):
                yield (x, *state[1:]), chance
        elif self.kind == "price":
            rumours = {0: 1 - p["rumour"], self.size: p["rumour"] / 2, -self.size: p["rumour"] / 2}
            if state[1]:
                rumours = {0: p["fade"], state[1]: 1 - p["fade"]}
            for x, chance in walk(state[0], 20, 60, p["anew"], {1: p["up"], -1: p["down"]}):
                for rumour, likely in rumours.items():
                    yield (x, rumour), chance * likely
        else:
            for up in (False, True):
                turns = p["swap"] if up != state[1] else 1 - p["swap"]
                sign, most = 1 if up else -1, 20 if self.kind == "reservoir" else 30
                for x, chance in walk(state[0], 0, most, p["anew"], {sign: p["one"], 2 * sign: p["two"]}):
                    yield (x, up), turns * chance

    def says(self, state: State, reading: list[int], last: tuple[State, list[int]] | None) -> Fraction:
        """Chance of a week's figures, up to a factor that all states have in common."""
        p = self.p
        if self.kind == "polls":
            error = reading[1] - state[0] - state[1 + reading[0]]
            errors = {0: 1 - 2 * p["one"] - 2 * p["two"], 1: p["one"], 2: p["two"]}
            return errors.get(abs(error), Fraction(0))
        if self.kind == "reservoir":
            read = {1: p["misread"], -1: p["misread"], 0: 1 - 2 * p["misread"]}
            return sum((c for e, c in read.items() if min(max(state[0] + e, 0), 20) == reading[0]), Fraction(0))
        if self.kind == "league":
            wins = Fraction(state[0], 100)
            return Fraction(math.comb(2, reading[0]) * wins ** reading[0] * (1 - wins) ** (2 - reading[0]))
        if self.kind == "price":
            return Fraction(state[0] + state[1] == reading[0])
        if last and last[0][0] - last[1][0] != reading[1]:
            return Fraction(0)
        late = state[0] - reading[0]
        if late < 0:
            return Fraction(0)
        return Fraction(math.comb(state[0], late) * p["prompt"] ** reading[0] * (1 - p["prompt"]) ** late)

    def yes(self, state: State, left: int = 0) -> Fraction:
        """Probability of yes so many weeks after a state: the sum over all that may happen until then."""
        if left:
            return sum(
                (chance * self.after(state, left - 1) for state, chance in self.moves(state).items()), Fraction(0)
            )
        if self.kind == "league":
            won = Fraction(state[0], 100)
            wins = range(self.threshold, 6)
            return sum((math.comb(5, k) * won**k * (1 - won) ** (5 - k) for k in wins), Fraction(0))
        return Fraction((sum(state) if self.kind == "price" else state[0]) >= self.threshold)

    def posterior(self, readings: list[list[int]], weeks: int) -> Fraction:
        """The share of yes among all courses of the world that agree with the readings, each with its chance."""
        total = [Fraction(0), Fraction(0)]

        def go(week: int, state: State, weight: Fraction, last: State | None) -> None:
            if readings:
                weight *= self.says(state, readings[week], None if last is None else (last, readings[week - 1]))
            if not weight:
                return
            if week >= len(readings) - 1:
                total[0] += weight
                total[1] += weight * self.after(state, weeks - 1 - week)
                return
            for after, chance in self.moves(state).items():
                go(week + 1, after, weight * chance, state)

        for state, chance in self.first().items():
            go(0, state, chance, None)
        return total[1] / total[0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_posterior_is_exact_after_every_piece(kind: Any) -> None:
    known = of(next(iter(almanac(1, 0, "all", kind, history=2, news=1, ahead=2))))
    world = ByHand(kind, known.numbers)
    owed = [float(world.posterior(known.readings[:k], 5)) for k in (0, 2, 3)]
    assert [known.base_rate, *known.posterior] == pytest.approx(owed, abs=1e-12)


def test_the_naive_reader_takes_the_last_figure_for_the_truth() -> None:
    for item in almanac(n=12, news=2, ahead=1):
        known = of(item)
        figure = known.readings[-1][-1]
        share = 50 * sum(reading[0] for reading in known.readings) / len(known.readings)
        last = known.readings[-1][0]
        states: dict[str, list[State]] = {
            "polls": [(min(max(figure, 40), 60), 0, 0)],
            "league": [(min((20, 35, 50, 65, 80), key=lambda strength: abs(strength - share)),)],
            "price": [(min(max(last, 20), 60), 0)],
        }
        world = ByHand(known.kind, known.numbers)
        taken = states.get(known.kind, [(last, False), (last, True)])
        owed = float(sum(world.yes(state, 1) for state in taken)) / len(taken)
        assert known.naive[-1] == pytest.approx(min(max(owed, 0.02), 0.98))


def test_traders_stand_between_the_two_readers_of_the_background() -> None:
    known = [of(item) for item in samples_of("almanac")]
    exact, naive, crowd = np.array([[logit(p) for p in (q.posterior[0], q.naive[0], q.crowd or 0)] for q in known]).T
    off = crowd - (exact + naive) / 2
    # eight traders: a place drawn evenly between the readers, of variance d^2 / 12, and an error of variance 0.25
    spread = np.sqrt(((naive - exact) ** 2 / 12 + 0.25) / 8)
    assert np.mean(off / spread) == pytest.approx(0, abs=4 / math.sqrt(len(known)) + 0.02)
    assert np.std(off / spread) == pytest.approx(1, abs=0.12)
