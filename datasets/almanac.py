"""Almanac: will it be above X on day D? Generated forecasting questions with dated news, each with the exact answer."""

import random
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from math import comb
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from inspect_ai.dataset import Sample
from numpy.typing import NDArray
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.datasets.loading import generated
from truthgym.datasets.loading.selection import Questions

Floats = NDArray[np.float64]
Numbers = Mapping[str, int]
"""The numbers that a question states, by field of its wording."""
Reading = tuple[int, ...]
"""What one news item says, in the order of `Kind.fields`."""
State = tuple[int, ...]
SURE = 0.02
"""The naive reader states no probability below this or above its complement."""


class Kind(Protocol):
    """A kind of world. A state is a tuple for the story, and a place in the arrays."""

    name: ClassVar[str]
    ranges: ClassVar[Mapping[str, tuple[int, int]]]
    """Each number of the wording, and the ends of the range from which it is drawn evenly."""
    fields: ClassVar[tuple[str, ...]]

    def begin(self, rng: random.Random, p: Numbers) -> State:
        """Draw the state of week 1."""

    def move(self, rng: random.Random, p: Numbers, state: State) -> State:
        """Draw the state of the next week."""

    def ends(self, rng: random.Random, p: Numbers, state: State) -> bool:
        """Whether the answer is yes, from the state of the last week."""

    def read(self, rng: random.Random, p: Numbers, states: Sequence[State]) -> list[Reading]:
        """Draw the news of the first weeks, one reading for each of these states."""

    def start(self, p: Numbers) -> Floats:
        """Chances of the states in week 1 (..., states), where leading axes are what never changes."""

    def step(self, p: Numbers) -> Floats:
        """Chances of next week's state, the columns, given this week's, the rows."""

    def target(self, p: Numbers) -> Floats:
        """Probability of yes given each state of the last week."""

    def seen(self, p: Numbers, reading: Reading) -> Floats:
        """Likelihood of a week's reading given each state of the week, in a shape that fits `start`."""

    def face(self, p: Numbers, readings: Sequence[Reading]) -> Floats:
        """Chances of the states for a reader who takes the last reading for the truth and forgets the others."""

    def late(self, p: Numbers, before: Reading, reading: Reading) -> Floats | float:
        """Likelihood of what a reading says of the week before, given each state of that week and its own reading."""
        return 1.0


def paths(kind: Kind, p: Numbers, readings: Sequence[Reading], weeks: int) -> tuple[list[float], list[float]]:
    r"""The exact probability of yes before any reading and after each, and the naive one after each.

    The exact one is a forward filter: $b_k(s')\propto P(r_k|s')\sum_s b_{k-1}(s)P(s'|s)$, and the probability is
    $\sum_s b_k(s)v_{n-k}(s)$, where $v_j(s)$ is the probability of yes j weeks after state s. The naive one puts the
    face value of the last reading in the place of $b_k$.
    """
    step = kind.step(p)
    value = [kind.target(p)]
    for _ in range(weeks - 1):
        value.append(step @ value[-1])
    belief = kind.start(p)
    exact, naive = [float(np.sum(belief @ value[weeks - 1]))], []
    for k, reading in enumerate(readings, start=1):
        if k > 1:
            belief = (belief * kind.late(p, readings[k - 2], reading)) @ step
        belief = belief * kind.seen(p, reading)
        if not belief.any():
            break
        belief = belief / belief.sum()
        exact.append(float(np.sum(belief @ value[weeks - k])))
        naive.append(float(np.clip(kind.face(p, readings[:k]) @ value[weeks - k], SURE, 1 - SURE)))
    return exact, naive


class Polls(Kind):
    """Support drifts by points. Two polling houses, each with a lean of its own, report it with an error."""

    name = "polls"
    ranges: ClassVar = {
        "up": (15, 35), "down": (15, 35), "anew": (1, 3), "lean": (3, 5), "leaning": (25, 40), "one": (12, 20),
        "two": (5, 10), "threshold": (47, 53),
    }  # fmt: skip
    fields = ("house", "value")
    grid = range(40, 61)

    def begin(self, rng: random.Random, p: Numbers) -> State:
        leans = [_pick(rng, {p["lean"]: p["leaning"], -p["lean"]: p["leaning"]}) for _ in range(2)]
        return (rng.randint(44, 56), *leans)

    def move(self, rng: random.Random, p: Numbers, state: State) -> State:
        if _happens(rng, p["anew"]):
            return (rng.choice(self.grid), *state[1:])
        return (_within(state[0] + _pick(rng, {1: p["up"], -1: p["down"]}), self.grid), *state[1:])

    def ends(self, rng: random.Random, p: Numbers, state: State) -> bool:
        return state[0] >= p["threshold"]

    def read(self, rng: random.Random, p: Numbers, states: Sequence[State]) -> list[Reading]:
        errors = {1: p["one"], -1: p["one"], 2: p["two"], -2: p["two"]}
        houses = [rng.randrange(2) for _ in states]
        return [(house, s[0] + s[1 + house] + _pick(rng, errors)) for house, s in zip(houses, states, strict=True)]

    def start(self, p: Numbers) -> Floats:
        lean = np.array([p["leaning"], p["leaning"], 100 - 2 * p["leaning"]]) / 100
        return lean[:, None, None] * lean[None, :, None] * _evenly(44, 56, self.grid)

    def step(self, p: Numbers) -> Floats:
        return _walk(len(self.grid), p["anew"], {1: p["up"], -1: p["down"]})

    def target(self, p: Numbers) -> Floats:
        return _at_least(p["threshold"], self.grid)

    def seen(self, p: Numbers, reading: Reading) -> Floats:
        house, value = reading
        off = value - np.array(self.grid) - np.array([p["lean"], -p["lean"], 0])[:, None]
        chances = np.array([100 - 2 * p["one"] - 2 * p["two"], p["one"], p["two"]]) / 100
        likelihood = np.where(np.abs(off) <= 2, chances[np.minimum(np.abs(off), 2)], 0)
        return likelihood[None] if house else likelihood[:, None]

    def face(self, p: Numbers, readings: Sequence[Reading]) -> Floats:
        return _only(readings[-1][1], self.grid)


class Phased(Kind):
    """A number on a grid that rises in one phase and sinks in the other."""

    grid: ClassVar[range]
    first: ClassVar[tuple[int, int]]
    """The ends of the range from which the number of week 1 is drawn evenly."""

    def begin(self, rng: random.Random, p: Numbers) -> State:
        return rng.randint(*self.first), rng.randrange(2)

    def move(self, rng: random.Random, p: Numbers, state: State) -> State:
        rises = state[1] ^ _happens(rng, p["swap"])
        if _happens(rng, p["anew"]):
            return rng.choice(self.grid), rises
        by = _pick(rng, {1: p["one"], 2: p["two"]})
        return _within(state[0] + (by if rises else -by), self.grid), rises

    def ends(self, rng: random.Random, p: Numbers, state: State) -> bool:
        return state[0] >= p["threshold"]

    def start(self, p: Numbers) -> Floats:
        return np.tile(_evenly(*self.first, self.grid), 2) / 2

    def step(self, p: Numbers) -> Floats:
        """As `_walk`, down in the first half of the states and up in the second; the half changes first."""
        moves = {1: p["one"], 2: p["two"]}
        down, up = (_walk(len(self.grid), p["anew"], {sign * by: c for by, c in moves.items()}) for sign in (-1, 1))
        swap = p["swap"] / 100
        return np.block([[(1 - swap) * down, swap * up], [swap * down, (1 - swap) * up]])

    def target(self, p: Numbers) -> Floats:
        return np.tile(_at_least(p["threshold"], self.grid), 2)

    def face(self, p: Numbers, readings: Sequence[Reading]) -> Floats:
        return np.tile(_only(readings[-1][0], self.grid), 2) / 2


class Reservoir(Phased):
    """Wet spells raise the level, dry ones lower it. The gauge may be misread."""

    name = "reservoir"
    ranges: ClassVar = {
        "swap": (5, 15), "one": (30, 45), "two": (25, 40), "anew": (1, 3), "misread": (10, 20), "threshold": (7, 13)
    }  # fmt: skip
    fields = ("value",)
    grid = range(21)
    first = (5, 15)

    def read(self, rng: random.Random, p: Numbers, states: Sequence[State]) -> list[Reading]:
        return [(_within(s[0] + _pick(rng, {1: p["misread"], -1: p["misread"]}), self.grid),) for s in states]

    def seen(self, p: Numbers, reading: Reading) -> Floats:
        read = _moves(len(self.grid), {1: p["misread"], -1: p["misread"]})
        return np.tile(read[:, reading[0]] if reading[0] in self.grid else np.zeros(len(self.grid)), 2)


class League(Kind):
    """A team of unknown strength plays two matches a week, and a tournament of five at the end."""

    name = "league"
    ranges: ClassVar = {"change": (2, 6), "threshold": (2, 4)}
    fields = ("won",)
    strengths: ClassVar = (20, 35, 50, 65, 80)
    """Percent of matches won."""
    chances: ClassVar = (10, 20, 40, 20, 10)
    """Percent of teams that have each strength."""

    def begin(self, rng: random.Random, p: Numbers) -> State:
        return (rng.choices(self.strengths, self.chances)[0],)

    def move(self, rng: random.Random, p: Numbers, state: State) -> State:
        return self.begin(rng, p) if _happens(rng, p["change"]) else state

    def ends(self, rng: random.Random, p: Numbers, state: State) -> bool:
        return sum(_happens(rng, state[0]) for _ in range(5)) >= p["threshold"]

    def read(self, rng: random.Random, p: Numbers, states: Sequence[State]) -> list[Reading]:
        return [(sum(_happens(rng, s[0]) for _ in range(2)),) for s in states]

    def start(self, p: Numbers) -> Floats:
        return np.array(self.chances) / 100

    def step(self, p: Numbers) -> Floats:
        change = p["change"] / 100
        return change * self.start(p) + (1 - change) * np.eye(len(self.strengths))

    def target(self, p: Numbers) -> Floats:
        return np.array([_binomial(5, s)[p["threshold"] :].sum() for s in self.strengths])

    def seen(self, p: Numbers, reading: Reading) -> Floats:
        return np.array([_binomial(2, s)[reading[0]] if reading[0] <= 2 else 0.0 for s in self.strengths])

    def face(self, p: Numbers, readings: Sequence[Reading]) -> Floats:
        share = 100 * sum(won for (won,) in readings) / (2 * len(readings))
        nearest = min(self.strengths, key=lambda strength: abs(strength - share))
        return np.array([strength == nearest for strength in self.strengths], float)


class Outbreak(Phased):
    """Cases grow while a disease spreads and shrink while it fades. Some are reported a week late."""

    name = "outbreak"
    ranges: ClassVar = {"swap": (8, 20), "one": (25, 40), "two": (25, 40), "anew": (1, 3), "prompt": (40, 70),
                        "threshold": (7, 17)}  # fmt: skip
    fields = ("now", "late")
    grid = range(31)
    first = (6, 18)

    def read(self, rng: random.Random, p: Numbers, states: Sequence[State]) -> list[Reading]:
        prompt = [sum(_happens(rng, p["prompt"]) for _ in range(s[0])) for s in states]
        late = [s[0] - now for s, now in zip(states, prompt, strict=True)]
        return list(zip(prompt, [0, *late[:-1]], strict=True))

    def seen(self, p: Numbers, reading: Reading) -> Floats:
        now = reading[0]
        return np.tile([_binomial(x, p["prompt"])[now] if now <= x else 0.0 for x in self.grid], 2)

    def late(self, p: Numbers, before: Reading, reading: Reading) -> Floats:
        # Who was not reported at once is reported a week later, so the week before is now known.
        return np.tile([float(x == before[0] + reading[1]) for x in self.grid], 2)


class Price(Kind):
    """A price is a lasting value plus a rumour that fades."""

    name = "price"
    ranges: ClassVar = {"up": (15, 30), "down": (15, 30), "anew": (1, 3), "rumour": (15, 30), "size": (4, 7),
                        "fade": (30, 60), "threshold": (36, 44)}  # fmt: skip
    fields = ("value",)
    grid = range(20, 61)

    def begin(self, rng: random.Random, p: Numbers) -> State:
        return rng.randint(35, 45), 0

    def move(self, rng: random.Random, p: Numbers, state: State) -> State:
        if _happens(rng, p["anew"]):
            value = rng.choice(self.grid)
        else:
            value = _within(state[0] + _pick(rng, {1: p["up"], -1: p["down"]}), self.grid)
        if state[1]:
            return value, 0 if _happens(rng, p["fade"]) else state[1]
        return value, rng.choice((-1, 1)) if _happens(rng, p["rumour"]) else 0

    def ends(self, rng: random.Random, p: Numbers, state: State) -> bool:
        return state[0] + p["size"] * state[1] >= p["threshold"]

    def read(self, rng: random.Random, p: Numbers, states: Sequence[State]) -> list[Reading]:
        return [(s[0] + p["size"] * s[1],) for s in states]

    def start(self, p: Numbers) -> Floats:
        none = _evenly(35, 45, self.grid)
        return np.concatenate([none, 0 * none, 0 * none])

    def step(self, p: Numbers) -> Floats:
        comes, fades = p["rumour"] / 100, p["fade"] / 100
        rumours = np.array([[1 - comes, comes / 2, comes / 2], [fades, 1 - fades, 0], [fades, 0, 1 - fades]])
        step: Floats = np.kron(rumours, _walk(len(self.grid), p["anew"], {1: p["up"], -1: p["down"]}))
        return step

    def _prices(self, p: Numbers) -> list[int]:
        return [value + p["size"] * rumour for rumour in (0, 1, -1) for value in self.grid]

    def target(self, p: Numbers) -> Floats:
        return np.array([price >= p["threshold"] for price in self._prices(p)], float)

    def seen(self, p: Numbers, reading: Reading) -> Floats:
        return np.array([price == reading[0] for price in self._prices(p)], float)

    def face(self, p: Numbers, readings: Sequence[Reading]) -> Floats:
        none = _only(readings[-1][0], self.grid)
        return np.concatenate([none, 0 * none, 0 * none])


KINDS: dict[str, Kind] = {kind.name: kind for kind in (Polls(), Reservoir(), League(), Outbreak(), Price())}


def _happens(rng: random.Random, percent: int) -> bool:
    return rng.random() < percent / 100


def _pick(rng: random.Random, percents: Mapping[int, int]) -> int:
    """One of the numbers, each with so many chances in 100, or 0 with the rest."""
    return rng.choices([*percents, 0], [*percents.values(), 100 - sum(percents.values())])[0]


def _within(x: int, grid: range) -> int:
    return min(max(x, grid[0]), grid[-1])


def _evenly(low: int, high: int, grid: range) -> Floats:
    return np.array([low <= x <= high for x in grid]) / (high - low + 1)


def _at_least(threshold: int, grid: range) -> Floats:
    return np.array([x >= threshold for x in grid], float)


def _only(x: int, grid: range) -> Floats:
    return np.array([place == _within(x, grid) for place in grid], float)


@cache
def _shift(size: int, by: int) -> Floats:
    """Chances of the next place, the columns, when every place moves by so many and no further than the ends."""
    return np.eye(size)[np.clip(np.arange(size) + by, 0, size - 1)]


def _moves(size: int, percents: Mapping[int, int]) -> Floats:
    """Chances of the next place, the columns, after a move as in `_pick`."""
    stay = 100 - sum(percents.values())
    return sum((percent * _shift(size, by) for by, percent in percents.items()), stay * np.eye(size)) / 100


def _walk(size: int, anew: int, percents: Mapping[int, int]) -> Floats:
    """Chances of the next place, the columns: in `anew` of 100 weeks any, evenly, else as `_moves`."""
    return anew / 100 / size + (1 - anew / 100) * _moves(size, percents)


@cache
def _binomial(n: int, percent: int) -> Floats:
    """Chances of 0 to n successes in n trials."""
    return np.array([comb(n, k) * percent**k * (100 - percent) ** (n - k) / 100**n for k in range(n + 1)])


class AlmanacWording(generated.Wording):
    """One wording of a kind of world: its `news` of week 1 may be worded as "first"."""

    @property
    def template(self) -> str:
        """The whole question. `{past}` is the news up to the day on which it is asked."""
        return (
            f"{self.asked}\n\nBackground: {self.rules} The news so far: {{past}}\n\nWhat counts: {self.counts}\n\n"
            "The question is asked on {opened}."
        )


WORDINGS = generated.wordings("almanac", AlmanacWording)


OPENED = date(2025, 3, 3)
"""The day on which every question is asked."""
TRADERS = 8


class AlmanacQuestion(generated.GeneratedQuestion, frozen=True):
    """A question with what it was generated from."""

    kind: str
    numbers: dict[str, int]
    """What the background states, by field of its wording; chances in 100."""
    readings: list[list[int]]
    """The figures of each week's news, in the order of `Kind.fields`: those of the background, then the evidence."""
    weeks: int
    """The week on which the question resolves, counted from the first reading as week 1."""


@validate_call
def almanac(
    n: Annotated[int, Field(ge=1)] = 300,
    seed: int = 0,
    split: str = "all",
    kind: Literal["all", "polls", "reservoir", "league", "outbreak", "price"] = "all",
    history: Annotated[int, Field(ge=1, le=6)] = 2,
    news: Annotated[int, Field(ge=1, le=12)] = 4,
    ahead: Annotated[int, Field(ge=1, le=12)] = 3,
) -> Questions:
    """Generate forecasting questions about small worlds, with dated news as evidence.

    Args:
        kind: The kind of world, or "all": each question draws one.
        history: Weeks of news that the background tells, 1 to 6.
        news: Weeks of news that follow as evidence, 1 to 12.
        ahead: Weeks from the last news to the day on which the question resolves, 1 to 12. More weeks make the answer
            less certain.
    """
    worded = [wording for wording in WORDINGS if kind in ("all", wording.kind)]
    difficulty = f"{kind}-history{history}-news{news}-ahead{ahead}"

    def make(i: int) -> Sample:
        rng, identity = generated.seeded("almanac", seed, i, difficulty)
        wording = rng.choice(worded)
        world = KINDS[wording.kind]
        place, *houses = generated.names(rng, 3)
        numbers = {name: rng.randint(*ends) for name, ends in world.ranges.items()}
        weeks = history + news + ahead
        states = [world.begin(rng, numbers)]
        for _ in range(weeks - 1):
            states.append(world.move(rng, numbers, states[-1]))
        truth = world.ends(rng, numbers, states[-1])
        readings = world.read(rng, numbers, states[: history + news])

        exact, naive = paths(world, numbers, readings, weeks)
        case = 1000 + i
        days = [OPENED + timedelta(weeks=week - history) for week in range(1, weeks + 1)]
        reported = []
        for week, reading in enumerate(readings, start=1):
            figures = {name: houses[x] if name == "house" else x for name, x in zip(world.fields, reading, strict=True)}
            template = wording.news.get("first", wording.news["news"]) if week == 1 else wording.news["news"]
            reported.append(template.format(case=case, k=week, day=days[week - 1], **figures))
        slots: dict[str, object] = {"case": case, "place": place, "by": days[-1], **numbers}
        asked = wording.template.format(
            **slots, first=houses[0], second=houses[1], opened=OPENED, past=" ".join(reported[:history])
        )
        return generated.world_sample(
            AlmanacQuestion, identity, asked, truth,
            proposition=wording.proposition.format(**slots), evidence=reported[history:], opened_on=OPENED,
            base_rate=exact[0], crowd=crowd_of(rng, exact[history], naive[history - 1]), posterior=exact[history:],
            naive=naive[history - 1 :], surface=wording.name, kind=wording.kind, numbers=numbers,
            readings=[list(reading) for reading in readings], weeks=weeks,
        )  # fmt: skip

    return generated.generate("almanac", make, n, split)


def crowd_of(rng: random.Random, exact: float, naive: float) -> float:
    """What simulated traders give on the day of the question: the mean of their log-odds, as a probability.

    Each trader's log-odds lie somewhere between those of the exact and the naive reader of the background, evenly, with
    a normal error of standard deviation 0.5. So the crowd knows nothing that the background does not say.
    """
    bids = [
        generated.logit(exact) + rng.random() * (generated.logit(naive) - generated.logit(exact)) + rng.gauss(0, 0.5)
        for _ in range(TRADERS)
    ]
    return round(min(max(generated.probability(sum(bids) / TRADERS), 0.01), 0.99), 2)
