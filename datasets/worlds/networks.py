"""Exact probabilities in networks of parts that are on or off, by enumeration: stated mechanisms, and learned diagrams.

A question is about a target part y, and a part x that has a value: because it was set by hand ("set"), because it is
seen to have it ("see"), or because it is supposed to have been set, in a run in which it is seen to have the other one
("counterfactual"). The naive reader takes doing for seeing: they answer "set" as "see". They also forget that in a
counterfactual the evidence is of the run as it was: they answer it as "set", with the gauges as those of that run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

SEE, SET, COUNTERFACTUAL = "see", "set", "counterfactual"
NAIVE = {SEE: SEE, SET: SEE, COUNTERFACTUAL: SET}
"""As what the naive reader answers each kind of question."""
ROOT = "root"
Values = tuple[bool, ...]
"""Whether each part is on."""


@dataclass(frozen=True)
class Part:
    """A part of a device."""

    rule: str
    """"root": it is on by chance. "same" as its parent, the "opposite", on if "both" parents are, or if "either" is."""
    parents: tuple[int, ...]
    """Numbers of the parts that act on it, all smaller than its own."""
    chance: float
    """Probability that a root is on; for another part, that it does the opposite of its rule. In (0, 1)."""

    def value(self, happens: bool, values: Sequence[bool]) -> bool:
        """Whether it is on."""
        if self.rule == ROOT:
            return happens
        own = [values[parent] for parent in self.parents]
        on = {"same": own[0], "opposite": not own[0], "both": all(own), "either": any(own)}[self.rule]
        return on != happens


Device = tuple[Part, ...]
"""Parts, each after those that act on it."""


@dataclass(frozen=True)
class Query:
    """Whether the target is on, if part x has a value."""

    kind: str
    x: int
    value: bool
    target: int


def run(device: Device, happens: Sequence[bool], fixed: Mapping[int, bool]) -> Values:
    """The values of all parts in one run."""
    values: list[bool] = []
    for i, (part, happening) in enumerate(zip(device, happens, strict=True)):
        values.append(fixed[i] if i in fixed else part.value(happening, values))
    return tuple(values)


def telling(device: Device, kind: str) -> list[int]:
    """The parts that can be x, but the first, if the last is the target, and the naive reader is to err often."""

    def causes(part: int) -> set[int]:
        return {cause for parent in device[part].parents for cause in (parent, *causes(parent))}

    target = len(device) - 1
    if kind == COUNTERFACTUAL:
        return sorted(causes(target) - {0})
    return [i for i in range(1, target) if set(device[i].parents) & set(device[target].parents)]


def stated_paths(
    device: Device, query: Query, readings: tuple[tuple[int, bool], ...], error: float
) -> tuple[list[float], list[float]]:
    r"""The probability that the target is on, before any gauge is read and after each reading.

    $$P(y\mid r)\propto\sum_u P(u)\,1[x(u)\text{ as seen}]\prod_j P(r_j\mid v(u))\,1[y_x(u)=y]$$

    over all that can happen by chance (u). $v(u)$ are the values that the gauges show, $y_x(u)$ the target with x set,
    or, where x is only seen, as it is.
    """
    fixed = {query.x: query.value}
    totals = [[[0.0, 0.0] for _ in range(len(readings) + 1)] for _ in range(2)]
    for happens in product((False, True), repeat=len(device)):
        weight = math.prod(part.chance if on else 1 - part.chance for part, on in zip(device, happens, strict=True))
        untouched, touched = run(device, happens, {}), run(device, happens, fixed)
        seen = untouched[query.x] == query.value
        worlds: dict[str, tuple[Values | None, Values]] = {
            SEE: (untouched if seen else None, untouched),
            SET: (touched, touched),
            COUNTERFACTUAL: (None if seen else untouched, touched),
        }
        for total, kind in zip(totals, (query.kind, NAIVE[query.kind]), strict=True):
            values, final = worlds[kind]
            if values is not None:
                on, chance = final[query.target], weight
                total[0][on] += chance
                for k, (part, position) in enumerate(readings, start=1):
                    chance *= 1 - error if values[part] == position else error
                    total[k][on] += chance
    exact, naive = ([yes / (no + yes) for no, yes in total] for total in totals)
    return exact, naive


Diagram = tuple[tuple[int, ...], ...]
"""For each part the numbers of the parts that act on it."""


@dataclass(frozen=True)
class Candidates:
    """Diagrams of which one is right, and what is known of the chances in it."""

    diagrams: tuple[Diagram, ...]
    weights: tuple[float, ...]
    """Prior probability of each diagram. They sum to 1."""
    shares: tuple[float, ...]
    """Prior mean of each part, in (0, 1)."""
    strength: float
    """Runs that the prior of the chances is worth, above 0."""

    def prior(self, diagram: Diagram, part: int, setting: Sequence[bool]) -> tuple[float, float]:
        """Parameters of the Beta distribution of a part's chance to be on, if the parts that act on it are so set.

        They are counts of `strength` imagined runs in which the parts are on independently in their shares. Diagrams
        that imply the same independences therefore explain runs equally well (Heckerman, Geiger and Chickering 1995).
        """
        share = self.shares[part]
        worth = self.strength * math.prod(
            self.shares[parent] if on else 1 - self.shares[parent]
            for parent, on in zip(diagram[part], setting, strict=True)
        )
        return worth * share, worth * (1 - share)


@lru_cache(maxsize=10_000)
def learned_paths(
    candidates: Candidates, query: Query, batches: tuple[tuple[tuple[Values, int], ...], ...]
) -> tuple[list[float], list[float]]:
    r"""The probability that the target is on in a new run, before any batch of runs and after each.

    $$P(y\mid D)\propto\sum_g P(g)\,P(D\mid g)\sum_{v:\,v_x=x,\,v_y=y}\prod_i E[\theta_{i,v}\mid D,g]$$

    The product leaves x out if it is set. The chances are independent given runs without gaps, and a new run needs each
    at most once, so the mean of the product is the product of the means.
    """
    counts: dict[Values, int] = {}
    paths: tuple[list[float], list[float]] = ([], [])
    news = [values for values in product((False, True), repeat=len(candidates.shares))
            if values[query.x] == query.value]  # fmt: skip
    for batch in ((), *batches):
        for values, number in batch:
            counts[values] = counts.get(values, 0) + number
        learned = [learn(candidates, diagram, counts) for diagram in candidates.diagrams]
        highest = max(log for log, _ in learned)
        totals = ([0.0, 0.0], [0.0, 0.0])
        for diagram, weight, (log, means) in zip(candidates.diagrams, candidates.weights, learned, strict=True):
            scale = weight * math.exp(log - highest)
            for values in news:
                chances = [means[i, tuple([values[part] for part in acting])][values[i]]
                           for i, acting in enumerate(diagram)]  # fmt: skip
                seen = scale * math.prod(chances)
                totals[0][values[query.target]] += seen / (chances[query.x] if query.kind == SET else 1)
                totals[1][values[query.target]] += seen
        for path, (no, yes) in zip(paths, totals, strict=True):
            path.append(yes / (no + yes))
    return paths


def learn(
    candidates: Candidates, diagram: Diagram, counts: Mapping[Values, int]
) -> tuple[float, dict[tuple[int, Values], tuple[float, float]]]:
    r"""What runs say of a diagram."""
    log, means = 0.0, {}
    for i, acting in enumerate(diagram):
        tallies = {setting: [0, 0] for setting in product((False, True), repeat=len(acting))}
        for values, number in counts.items():
            tallies[tuple([values[part] for part in acting])][values[i]] += number
        for setting, (off, on) in tallies.items():
            a, b = candidates.prior(diagram, i, setting)
            if on or off:
                log += _log_beta(a + on, b + off) - _log_beta(a, b)
            share = (a + on) / (a + b + on + off)
            means[i, setting] = (1 - share, share)
    return log, means


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
