"""Interventions: what happens if a part is set by hand, is seen, or had been set? Generated questions about devices."""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Annotated, Any, Literal

from inspect_ai.dataset import Sample
from pydantic import Field

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading import generated
from truthgym.datasets.loading.selection import Questions

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


NONE = "none"


class Surface(generated.Wording):
    """One wording: `stated` asks about a device whose `{mechanism}` is given, `learned` where `{diagrams}` are."""

    def words(self, on: bool) -> str:
        """The word for a part that is on or off."""
        return str(self.on if on else self.off)

    def deed(self, query: Query, called: Sequence[str]) -> dict[str, str]:
        """What is done or seen, and what is asked, as the text of a question has it."""
        supposed = query.kind == COUNTERFACTUAL
        part, target = called[query.x], called[query.target]
        now, then = self.words(query.value != supposed), self.words(query.value)
        return {
            "deed": (self.set if query.kind == SET else self.see).format(part=part, value=now),
            "question": (self.supposed if supposed else self.question).format(part=part, target=target, value=then),
        }

    def statement(self, query: Query, called: Sequence[str], case: str) -> str:
        """The proposition."""
        words = self.supposition if query.kind == COUNTERFACTUAL else self.proposition
        value = self.words(query.value)
        return str(words.format(case=case, part=called[query.x], target=called[query.target], value=value))


SURFACES = generated.wordings("interventions", Surface)


ROOTS, MISHAPS, ERRORS = (20, 80), (3, 15), (15, 30)
"""Ranges of percents from which each question draws how often a root is on, a rule fails and a gauge is wrong."""
SHARES, STRENGTHS = (30, 70), (2, 4)
"""The same for the prior means of parts, and the runs that the prior is worth."""
RULES = ("same", "opposite", "both", "either")
LEARNED_PARTS, BATCHES = 4, 4
READERS = ("posterior", "naive")
ALIKE: tuple[dict[str, str], ...] = ({"y": "x"}, {"z": "x", "y": "z"}, {"x": "z", "y": "x"})
"""What may act on x, y and a third part z, if to set x has the same effect on y as to see it. A fourth part is acted on
by one of them, the same in all diagrams of a question."""
UNLIKE: tuple[dict[str, str], ...] = (
    {"x": "y"}, {"z": "y", "x": "z"}, {"y": "z", "x": "y"}, {"x": "z", "y": "z"}, {"x": "z", "y": "zx"},
)  # fmt: skip
"""The same, if it has another one."""


class InterventionsQuestion(generated.GeneratedQuestion, frozen=True):
    """A question with what it was generated from. Parts are numbered from 0, in causal order if it is stated."""

    kind: str
    learned: bool
    x: int
    value: bool
    """What x was set to, is seen to be, or is supposed to have been set to."""
    target: int
    rules: list[str] = []  # noqa: RUF012
    """Of a stated mechanism, as are the next four."""
    parents: list[list[int]] = []  # noqa: RUF012
    chances: list[int] = []  # noqa: RUF012
    readings: list[tuple[int, bool]] = []  # noqa: RUF012
    error: int = 0
    diagrams: list[list[list[int]]] = []  # noqa: RUF012
    """Of a device that is learned, as are the next four."""
    weights: list[int] = []  # noqa: RUF012
    shares: list[int] = []  # noqa: RUF012
    strength: int = 0
    batches: list[dict[str, int]] = []  # noqa: RUF012
    """Number of runs by values, such as "0110"."""


Kinds = Literal["all", "set", "see", "counterfactual"]


@validate_call
def interventions(
    n: Annotated[int, Field(ge=1)] = 300,
    seed: int = 0,
    split: str = "all",
    parts: Annotated[int, Field(ge=4, le=6)] = 5,
    readings: Annotated[int, Field(ge=1, le=4)] = 3,
    kind: Kinds = "all",
    learned: Annotated[float, Field(ge=0, le=1)] = 0.4,
    cases: Annotated[int, Field(ge=4, le=1000)] = 200,
) -> Questions:
    """Generate questions about a device of which one part is set, seen, or supposed to have been set.

    Args:
        parts: Parts of a device whose mechanism is stated, 4 to 6.
        readings: Gauges that are read there, 1 to 4 and at most `parts` - 2: a piece of evidence each.
        kind: "set", "see" or "counterfactual", or "all" of them.
        learned: Probability that a device has candidate diagrams and past runs in place of a mechanism, 0 to 1, rounded
            to a whole percent. It has four parts. Must be 0 with `kind="counterfactual"`.
        cases: Past runs, 4 to 1000, in four batches: a piece of evidence each.
    """
    if readings > parts - 2:
        raise BadInput(f"interventions: readings={readings} is more than parts - 2 = {parts - 2}; lower it")
    if kind == COUNTERFACTUAL and learned:
        raise BadInput(
            f"interventions: learned={learned:g} cannot be used with kind=counterfactual, which needs a stated "
            "mechanism; give learned=0"
        )
    share = round(100 * learned)
    difficulty = f"parts{parts}-readings{readings}-{kind}-learned{share}-cases{cases}"

    def make(i: int) -> Sample:
        rng, identity = generated.seeded("interventions", seed, i, difficulty)
        surface = rng.choice(SURFACES)
        if rng.random() < share / 100:
            asked, truth, fields = _draw_learned(rng, surface, 1000 + i, kind, cases)
        else:
            asked, truth, fields = _draw_stated(rng, surface, 1000 + i, kind, parts, readings)
        fields |= {"surface": surface.name, "base_rate": fields["posterior"][0]}
        return generated.world_sample(InterventionsQuestion, identity, asked, truth, **fields)

    return generated.generate("interventions", make, n, split)


def _draw_stated(
    rng: random.Random, surface: Surface, case: int, kind: str, parts: int, readings: int
) -> tuple[str, bool, dict[str, Any]]:
    """The question's text, its outcome, and fields of its metadata."""
    called = generated.names(rng, parts)
    kind = rng.choices((SET, SEE, COUNTERFACTUAL), (3, 1, 2))[0] if kind == "all" else kind
    target, device = parts - 1, [Part(ROOT, (), rng.randint(*ROOTS) / 100)]
    choices: list[int] = []
    while not choices:
        del device[1:]
        for i in range(1, parts):
            parents = tuple(sorted(rng.sample(range(i), min(i, rng.choice((1, 2, 2))))))
            rule = rng.choice(RULES[2:] if len(parents) == 2 else RULES[:2])
            device.append(Part(rule, parents, rng.randint(*MISHAPS) / 100))
        choices = telling(tuple(device), kind)
    x, value = rng.choice(choices), rng.random() < 0.5
    happens = [rng.random() < part.chance for part in device]
    values = run(tuple(device), happens, {x: value} if kind == SET else {})
    value = values[x] if kind != COUNTERFACTUAL else not values[x]
    final = run(tuple(device), happens, {x: value}) if kind == COUNTERFACTUAL else values
    read = rng.sample([i for i in range(parts - 1) if i != x], readings)
    if kind == COUNTERFACTUAL:
        read[rng.randrange(readings)] = target
    error = rng.randint(*ERRORS)
    shown = [(i, values[i] != (rng.random() < error / 100)) for i in read]

    query = Query(kind, x, value, target)
    lines = [
        getattr(surface, part.rule).format(
            part=name, chance=round(100 * part.chance),
            **dict(zip(("one", "two"), (called[j] for j in part.parents), strict=False)),
        )
        for name, part in zip(called, device, strict=True)
    ]  # fmt: skip
    asked = surface.stated.format(case=case, mechanism=" ".join(lines), error=error, **surface.deed(query, called))
    evidence = [
        surface.reading.format(case=case, k=k, part=called[i], value=surface.words(on))
        for k, (i, on) in enumerate(shown, start=1)
    ]
    fields: dict[str, Any] = {
        "proposition": surface.statement(query, called, str(case)),
        "evidence": evidence,
        **dict(zip(READERS, stated_paths(tuple(device), query, tuple(shown), error / 100), strict=True)),
        "kind": kind, "learned": False, "x": x, "value": value, "target": target,
        "rules": [part.rule for part in device],
        "parents": [list(part.parents) for part in device],
        "chances": [round(100 * part.chance) for part in device],
        "readings": shown, "error": error,
    }  # fmt: skip
    return asked, final[target], fields


def _draw_learned(
    rng: random.Random, surface: Surface, case: int, kind: str, cases: int
) -> tuple[str, bool, dict[str, Any]]:
    """The question's text, its outcome, and fields of its metadata."""
    called = generated.names(rng, LEARNED_PARTS)
    roles = dict(zip("xyzw", rng.sample(range(LEARNED_PARTS), LEARNED_PARTS), strict=True))
    extra = rng.choice("xyz")
    shapes = [shape | {"w": extra} for shape in (rng.choice(ALIKE), *rng.sample(UNLIKE, 2))]
    rng.shuffle(shapes)
    diagrams = tuple(
        tuple(tuple(sorted(roles[other] for other in diagram.get(role, "")))
              for role in sorted(roles, key=lambda role: roles[role]))
        for diagram in shapes
    )  # fmt: skip
    first = rng.randrange(4, 13)
    second = rng.randrange(4, 20 - first - 3)
    weights = [5 * first, 5 * second, 100 - 5 * (first + second)]
    shares = [rng.randint(*SHARES) for _ in called]
    strength = rng.randint(*STRENGTHS)
    candidates = Candidates(diagrams, tuple(w / 100 for w in weights), tuple(s / 100 for s in shares), strength)
    [right] = rng.choices(diagrams, weights)
    chances: dict[tuple[int, Values], float] = {}

    def draw(fixed: dict[int, bool]) -> Values:
        values: dict[int, bool] = {}
        while len(values) < LEARNED_PARTS:
            for i, parents in enumerate(right):
                if i not in values and all(parent in values for parent in parents):
                    setting = tuple(values[parent] for parent in parents)
                    if (i, setting) not in chances:
                        chances[i, setting] = rng.betavariate(*candidates.prior(right, i, setting))
                    values[i] = fixed.get(i, rng.random() < chances[i, setting])
        return tuple(values[i] for i in range(LEARNED_PARTS))

    sizes = [cases * (k + 1) // BATCHES - cases * k // BATCHES for k in range(BATCHES)]
    batches = [Counter(draw({}) for _ in range(size)) for size in sizes]
    kind = rng.choices((SET, SEE), (4, 1))[0] if kind == "all" else kind
    x, target = roles["x"], roles["y"]
    final = draw({x: rng.random() < 0.5} if kind == SET else {})
    query = Query(kind, x, final[x], target)

    lines = [
        f"{', '.join(surface.acts.format(one=called[j], two=called[i]) for i, js in enumerate(diagram) for j in js)} "
        f"({weight}%)"
        for diagram, weight in zip(diagrams, weights, strict=True)
    ]
    asked = surface.learned.format(
        case=case, parts=generated.listed(called), diagrams="; ".join(lines), on=surface.on, strength=strength,
        shares=", ".join(f"{name} {share}%" for name, share in zip(called, shares, strict=True)),
        **surface.deed(query, called),
    )  # fmt: skip
    evidence = [
        surface.batch.format(case=case, k=k, count=batch.total(), counts="; ".join(
            f"{' '.join(name for name, on in zip(called, values, strict=True) if on) or NONE} {batch[values]}"
            for values in sorted(batch)
        ))
        for k, batch in enumerate(batches, start=1)
    ]  # fmt: skip
    fields: dict[str, Any] = {
        "proposition": surface.statement(query, called, str(case)),
        "evidence": evidence,
        **dict(zip(READERS, learned_paths(candidates, query, _ordered(batches)), strict=True)),
        "kind": kind, "learned": True, "x": x, "value": final[x], "target": target,
        "diagrams": [[list(parents) for parents in diagram] for diagram in diagrams],
        "weights": weights, "shares": shares, "strength": strength,
        "batches": [{"".join(str(int(on)) for on in values): batch[values] for values in batch} for batch in batches],
    }  # fmt: skip
    return asked, final[target], fields


def _ordered(batches: Sequence[Mapping[Values, int]]) -> tuple[tuple[tuple[Values, int], ...], ...]:
    return tuple(tuple(sorted(batch.items())) for batch in batches)
